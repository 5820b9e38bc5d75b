// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/file/writer.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/text.h"

namespace weft::onnx {

static void put_number(std::string& out, uint64_t value) {
  for (; value >= 128; value >>= 7) out += static_cast<char>(value | 128);
  out += static_cast<char>(value);
}

void put_integer(std::string& out, uint32_t field, int64_t value) {
  put_number(out, field << 3);
  put_number(out, static_cast<uint64_t>(value));
}

void put_float(std::string& out, uint32_t field, float value) {
  put_number(out, field << 3 | 5);
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out.append(bytes, sizeof bytes);
}

void put_head(std::string& out, uint32_t field, uint64_t size) {
  put_number(out, field << 3 | 2);
  put_number(out, size);
}

void put_text(std::string& out, uint32_t field, std::string_view text) {
  put_head(out, field, text.size());
  out += text;
}

int64_t element_code(DType type) {
  constexpr int64_t most = 64;
  for (int64_t code = 1; code < most; ++code) {
    if (element_type(code) == type) return code;
  }
  internal_error(cat(type, " has no number in ONNX"));
}

std::string tensor_bytes(const Tensor& tensor, std::string_view name) {
  std::string out;
  for (int64_t dim : tensor.dims) put_integer(out, 1, dim);
  put_integer(out, 2, element_code(tensor.dtype));
  if (tensor.dtype == DType::string)
    for (const std::string& text : *tensor.strings) put_text(out, 6, text);
  if (!name.empty()) put_text(out, 8, name);
  if (tensor.dtype != DType::string) put_text(out, 9, as_text(tensor.data));
  return out;
}

std::vector<std::string_view> reads_of(const Node& node) {
  std::vector<std::string_view> names;
  std::vector<const Node*> pending = {&node};
  while (!pending.empty()) {
    const Node* now = pending.back();
    pending.pop_back();
    std::ranges::copy_if(now->inputs, std::back_inserter(names), [](std::string_view name) { return !name.empty(); });
    for_each_body(*now, [&](const Graph& graph) {
      for (const Node& inner : graph.nodes) pending.push_back(&inner);
      for (const auto& output : graph.outputs) names.push_back(output.name);
    });
  }
  return names;
}

}  // namespace weft::onnx
