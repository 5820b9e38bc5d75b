// SPDX-License-Identifier: Apache-2.0
#include "ort/late_inputs.h"

#include <algorithm>
#include <array>

#include "ort/api.h"

namespace weft::ort {
namespace {

constexpr int64_t longest_list = 64;

/// Operands that are no axes, which 0, 1, 2 ... would be a guess for.
struct Usual {
  std::string_view op;
  size_t operand;
  int64_t value;
};
constexpr std::array<Usual, 9> usual_values = {{{"Slice", 1, 0},
                                                {"Slice", 2, 1},
                                                {"Slice", 4, 1},
                                                {"Resize", 1, 0},
                                                {"Resize", 2, 1},
                                                {"Resize", 3, 1},
                                                {"Upsample", 1, 1},
                                                {"Pad", 1, 0},
                                                {"DFT", 1, 1}}};

std::vector<int64_t> numbers(const LateInput& input, Guess guess) {
  std::vector<int64_t> list(input.dims.empty() ? 1 : static_cast<size_t>(input.dims[0]));
  auto known = std::ranges::find_if(usual_values,
                                    [&](const Usual& u) { return u.op == input.op && u.operand == input.operand; });
  for (size_t i = 0; i < list.size(); ++i) {
    int64_t usual = known == usual_values.end() ? static_cast<int64_t>(i) : known->value;
    list[i] = guess == Guess::usual ? usual : guess == Guess::ones ? 1 : 0;
  }
  return list;
}

template <class T>
Tensor as(weft_dtype type, const std::vector<int64_t>& list, const std::vector<int64_t>& dims) {
  std::vector<T> values(list.begin(), list.end());
  return Tensor::copy(type, std::as_bytes(std::span(values)), dims);
}

}  // namespace

std::optional<LateInput> late_input(const GraphView& graph, const NodeView& node, size_t operand) {
  auto value = graph.values.find(node.inputs[operand]);
  if (value == graph.values.end()) return std::nullopt;
  const OrtTypeInfo* info = nullptr;
  const OrtTensorTypeAndShapeInfo* tensor = nullptr;
  ok(api.ort->GetValueInfoTypeInfo(value->second, &info));
  if (info) ok(api.ort->CastTypeInfoToTensorInfo(info, &tensor));
  if (!tensor || !api.ort->TensorTypeAndShape_HasShape(tensor)) return std::nullopt;
  ONNXTensorElementDataType type{};
  size_t rank = 0;
  ok(api.ort->GetTensorElementType(tensor, &type));
  ok(api.ort->GetDimensionsCount(tensor, &rank));
  std::vector<int64_t> dims(rank);
  ok(api.ort->GetDimensions(tensor, dims.data(), rank));
  bool is_list = rank == 0 || (rank == 1 && dims[0] >= 0 && dims[0] <= longest_list);
  LateInput input{.op = node.op, .operand = operand, .type = dtype_of(type), .dims = dims};
  bool is_number = input.type == WEFT_I64 || input.type == WEFT_I32 || input.type == WEFT_F32;
  return is_list && is_number ? std::optional(input) : std::nullopt;
}

Tensor guessed(const LateInput& input, Guess guess) {
  std::vector<int64_t> list = numbers(input, guess);
  if (input.type == WEFT_F32) return as<float>(WEFT_F32, list, input.dims);
  if (input.type == WEFT_I32) return as<int32_t>(WEFT_I32, list, input.dims);
  return as<int64_t>(WEFT_I64, list, input.dims);
}

}  // namespace weft::ort
