// SPDX-License-Identifier: Apache-2.0
#include "frontends/tensorflow/graph_tensors.h"

#include <cstring>

#include "base/error.h"
#include "base/numeric.h"
#include "frontends/tensorflow/checkpoint.h"
#include "frontends/tensorflow/fault.h"

namespace weft::tensorflow {
namespace {

/// The elements that a TensorProto lists. The last element is repeated until the tensor is full.
struct Listed {
  std::vector<int64_t> integers;
  std::vector<std::span<const std::byte>> raw;
  std::vector<std::string> strings;
};

Tensor from_bytes(DType type, std::vector<int64_t> dims, std::span<const std::byte> given) {
  MutableTensor made = allocate_tensor(type, std::move(dims));
  size_t width = bits(type) / 8;
  size_t have = given.size() / width, want = made.tensor.data.size() / width;
  if (have > want || (have == 0 && want > 0))
    fail("E150", cat("a constant of ", made.tensor.shape(), " has ", have, " elements"));
  for (size_t i = 0; i < want; ++i)
    std::memcpy(made.data + i * width, given.data() + std::min(i, have - 1) * width, width);
  return made.tensor;
}

Tensor from_list(DType type, const std::vector<int64_t>& dims, const Listed& list) {
  std::vector<std::byte> bytes;
  if (type == DType::string) {
    auto strings = list.strings;
    size_t want = element_count(dims);
    if (strings.size() > want || (strings.empty() && want))
      fail("E150", cat("a constant of ", want, " strings has ", strings.size()));
    strings.resize(want, strings.empty() ? std::string() : strings.back());
    return make_string_tensor(dims, std::move(strings));
  }
  for (auto piece : list.raw) bytes.insert(bytes.end(), piece.begin(), piece.end());
  if (list.raw.empty()) {
    size_t width = bits(type) / 8;
    for (int64_t value : list.integers) {
      auto* start = reinterpret_cast<const std::byte*>(&value);  // little-endian: the low bytes come first
      bytes.insert(bytes.end(), start, start + width);
    }
  }
  if (bytes.empty() && element_count(dims) > 0) bytes.resize(bits(type) / 8);  // an empty list means zeros
  return from_bytes(type, dims, bytes);
}

}  // namespace

Tensor read_tensor(frontend::Wire wire, const Bytes& file) {
  std::optional<DType> type;
  int64_t code = 0;
  Sizes sizes{.dims = std::vector<int64_t>()};
  std::optional<std::span<const std::byte>> content;
  Listed list;
  while (wire.next()) switch (wire.field()) {
      case 1: code = wire.integer("dtype"), type = full_type(code); break;
      case 2: sizes = read_sizes(wire.message("tensor_shape")); break;
      case 4: content = wire.bytes("tensor_content"); break;
      case 5: wire.fixed("float_val", 4, list.raw); break;
      case 6: wire.fixed("double_val", 8, list.raw); break;
      case 7: wire.integers("int_val", list.integers); break;
      case 8: list.strings.emplace_back(wire.text("string_val")); break;
      case 9: wire.fixed("scomplex_val", 4, list.raw); break;
      case 10: wire.integers("int64_val", list.integers); break;
      case 11: wire.integers("bool_val", list.integers); break;
      case 12: wire.fixed("dcomplex_val", 8, list.raw); break;
      case 13: wire.integers("half_val", list.integers); break;
      case 16: wire.integers("uint32_val", list.integers); break;
      case 17: wire.integers("uint64_val", list.integers); break;
      default: wire.skip();
    }
  if (!type) fail("E149", cat(wire.path(), " has element type ", code, ", which Weft does not know"));
  if (!sizes.dims || std::ranges::find(*sizes.dims, -1) != sizes.dims->end())
    fail("E150", cat(wire.path(), " is a constant of open sizes"));
  bool is_pair = is_complex(*type);
  if (is_pair) type = *type == DType::c64 ? DType::f32 : DType::f64, sizes.dims->push_back(2);
  int64_t elements = element_count(*sizes.dims);
  bool is_whole = content && static_cast<int64_t>(content->size()) == byte_size(*type, elements);
  constexpr int64_t most = int64_t{1} << 24;  // most elements that a few bytes may expand to
  if (elements > most && !is_whole)
    fail("E150",
         cat(wire.path(), " has ", elements, " elements and does not give them all; at most ", most, " are repeated"));
  size_t listed = 0;
  for (auto piece : list.raw) listed += piece.size();
  if (is_pair && !is_whole && static_cast<int64_t>(listed) != byte_size(*type, elements))
    fail("E150", cat(wire.path(), " is a constant of complex numbers that does not give them all"));
  if (!content || content->empty() || *type == DType::string) return from_list(*type, *sizes.dims, list);
  if (!is_whole) return from_bytes(*type, *sizes.dims, *content);
  Bytes data = file.part(content->data() - file.data(), content->size());
  auto width = static_cast<uintptr_t>(bits(*type)) / 8;
  if (reinterpret_cast<uintptr_t>(data.data()) % width) data = Bytes::copy(data);
  return {.dtype = *type, .dims = *sizes.dims, .data = data};
}

Sizes read_sizes(frontend::Wire wire) {
  Sizes sizes{.dims = std::vector<int64_t>()};
  bool is_unknown = false;
  while (wire.next()) switch (wire.field()) {
      case 2: {
        frontend::Wire dim = wire.message("dim");
        int64_t size = 0;
        while (dim.next()) {
          if (dim.field() == 1) size = dim.integer("size");
          else dim.skip();
        }
        if (size < -1) fail("E150", cat(dim.path(), " is a size of ", size));
        sizes.dims->push_back(size);
        break;
      }
      case 3: is_unknown = wire.number("unknown_rank") != 0; break;
      default: wire.skip();
    }
  if (is_unknown) sizes.dims.reset();
  return sizes;
}

}  // namespace weft::tensorflow
