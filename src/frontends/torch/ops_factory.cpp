// SPDX-License-Identifier: Apache-2.0
// Imports operators that create tensors from numbers and sizes.
#include <algorithm>
#include <array>

#include "frontends/common/create.h"
#include "frontends/torch/promote.h"
#include "ops/indexed.h"

namespace weft::torch {
namespace {

/// Ignores arguments about device and memory layout, which do not change a tensor's values.
void ignore_places(Call& c) { c.ignore({"device", "layout", "pin_memory", "memory_format", "names"}); }

/// Returns the requested type, else that of `self`, else torch's default.
DType factory_type(Call& c) {
  ignore_places(c);
  bool is_like = c.has("self");
  return c.element("dtype").value_or(is_like ? c.tensor("self").dtype() : DType::f32);
}

Dims factory_dims(Call& c) { return c.has("size") || !c.has("self") ? c.sizes("size") : c.tensor("self").dims(); }

/// Returns the result's sizes. An empty `size` means a scalar for `new_zeros(self, [])`, not a missing argument.
Dims dims_of_new(Call& c) { return c.node().target.starts_with("aten.new_") ? c.sizes("size") : factory_dims(c); }

Values filled(Call& c, double value) {
  DType type = factory_type(c);
  return one(frontend::full(c, type, dims_of_new(c), value));
}

Values full_of(Call& c) {
  Operand value = c.operand("fill_value");
  bool is_like = c.has("self");
  std::array operands{value};
  ignore_places(c);
  DType type = c.element("dtype").value_or(is_like ? c.tensor("self").dtype() : result_type(c, operands));
  return one(broadcast(value.as(c, type), dims_of_new(c)));
}

Values scalar_tensor_of(Call& c) {
  ignore_places(c);
  return one(c.operand("s").as(c, c.element("dtype").value_or(DType::f32)));
}

Operand whole(int64_t value) { return {.kind = Operand::Kind::integer, .integer = value}; }

/// Returns start, start + step, ... Integers may be run-time sizes; other numbers are computed in f64, as in torch.
Values arange(Call& c) {
  std::array operands{c.has("start") ? c.operand("start") : whole(0), c.operand("end"),
                      c.has("step") ? c.operand("step") : whole(1)};
  ignore_places(c);
  DType type = c.element("dtype").value_or(result_type(c, operands));
  bool is_whole =
      std::ranges::all_of(operands, [](const Operand& o) { return o.kind == Operand::Kind::integer && !o.tensor; });
  if (!is_whole && !std::ranges::all_of(operands, &Operand::is_constant))
    c.unsupported("needs fixed numbers unless they are integers");
  auto number = [&](size_t i) { return operands[i].as(c, is_whole ? DType::i64 : DType::f64); };
  return one(convert(frontend::range(number(0), number(1), number(2)), type));
}

/// Imports linspace and (`is_power`) logspace. Like torch, computes the second half backwards from the end.
Values linspace(Call& c, bool is_power) {
  ignore_places(c);
  DType type = c.element("dtype").value_or(DType::f32);
  int64_t steps = c.integer("steps");
  Expr start = c.operand("start").as(c, DType::f64), end = c.operand("end").as(c, DType::f64);
  if (steps < 0) c.fail("E145", cat("steps must be >=0, is ", steps));
  double base = c.number("base", 10);
  auto shown = [&](Expr x) { return convert(is_power ? frontend::pow(base, x) : x, type); };
  if (steps <= 1) return one(shown(broadcast(reshape(start, {}), {steps})));
  Expr step = (end - start) / static_cast<double>(steps - 1), i = iota(c, steps, DType::f64);
  Expr back = (static_cast<double>(steps - 1) - i) * step;
  return one(shown(select(i < static_cast<double>(steps / 2), i * step + start, end - back)));
}

/// Returns the row indices, then the column indices, of the elements of a triangle.
Values triangle_places(Call& c, bool upper) {
  ignore_places(c);
  int64_t rows = c.integer("row"), columns = c.integer("col"), offset = c.integer("offset", 0);
  std::array<std::vector<int64_t>, 2> places;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      if (upper ? j - i >= offset : j - i <= offset) places[0].push_back(i), places[1].push_back(j);
  std::vector<int64_t> all = places[0];
  all.insert(all.end(), places[1].begin(), places[1].end());
  Tensor tensor = make_tensor(DType::i64, {2, std::ssize(places[0])}, std::span<const int64_t>(all));
  return one(convert(c.expr(constant(c.module(), tensor)), c.element("dtype").value_or(DType::i64)));
}

Values eye(Call& c) {
  DType type = factory_type(c);
  Dim rows = c.size("n"), columns = c.size("m", rows);
  return one(frontend::eye(c, rows, columns, type));
}

constexpr Operator factory_rows[] = {
    {"aten.zeros.default", [](Call& c) { return filled(c, 0); }},
    {"aten.ones.default", [](Call& c) { return filled(c, 1); }},
    {"aten.zeros_like.default", [](Call& c) { return filled(c, 0); }},
    {"aten.ones_like.default", [](Call& c) { return filled(c, 1); }},
    {"aten.new_zeros.default", [](Call& c) { return filled(c, 0); }},
    {"aten.new_ones.default", [](Call& c) { return filled(c, 1); }},
    // The contents of an empty tensor are arbitrary.
    {"aten.empty.memory_format", [](Call& c) { return filled(c, 0); }},
    {"aten.empty_like.default", [](Call& c) { return filled(c, 0); }},
    {"aten.empty_permuted.default", [](Call& c) { return c.ignore({"physical_layout"}), filled(c, 0); }},
    {"aten.new_empty.default", [](Call& c) { return filled(c, 0); }},
    {"aten.full.default", full_of},
    {"aten.full_like.default", full_of},
    {"aten.new_full.default", full_of},
    {"aten.scalar_tensor.default", scalar_tensor_of},
    {"aten.arange.default", arange},
    {"aten.arange.start", arange},
    {"aten.arange.start_step", arange},
    {"aten.linspace.default", [](Call& c) { return linspace(c, false); }},
    {"aten.logspace.default", [](Call& c) { return linspace(c, true); }},
    {"aten.linspace.Tensor_Tensor", [](Call& c) { return linspace(c, false); }},
    {"aten.linspace.Tensor_Scalar", [](Call& c) { return linspace(c, false); }},
    {"aten.linspace.Scalar_Tensor", [](Call& c) { return linspace(c, false); }},
    {"aten.logspace.Tensor_Tensor", [](Call& c) { return linspace(c, true); }},
    {"aten.logspace.Tensor_Scalar", [](Call& c) { return linspace(c, true); }},
    {"aten.logspace.Scalar_Tensor", [](Call& c) { return linspace(c, true); }},
    {"aten.tril_indices.default", [](Call& c) { return triangle_places(c, false); }},
    {"aten.triu_indices.default", [](Call& c) { return triangle_places(c, true); }},
    {"aten.eye.default", eye},
    {"aten.eye.m", eye},
};

}  // namespace

std::span<const Operator> factory_operators() { return factory_rows; }

}  // namespace weft::torch
