// SPDX-License-Identifier: Apache-2.0
#include "frontends/common/builder.h"

#include <algorithm>

#include "base/error.h"
#include "ir/core_ops.h"
#include "ir/symbols.h"
#include "ops/build.h"
#include "ops/host.h"
#include "ops/indexed.h"
#include "ops/quantize.h"
#include "ops/wide.h"

namespace weft::frontend {

constexpr int64_t small_constant = 4096;  // in elements; passes fold larger constants

static bool is_small_constant(Value value) {
  auto* op = value.def->as<Constant>();
  return op && op->tensor.elements() <= small_constant && !is_complex(op->tensor.dtype);
}

/// Returns the result of an instruction with small constant operands and a small result; models compute axes and scales
/// from constants. Returns nothing for any other instruction, for complex numbers and for quantised weights.
static std::optional<Tensor> computed(const Instruction& i) {
  bool is_left = i.is<Constant>() || i.is<Sizes>() || is_quantized_weight(i) || has_symbols(i.op);
  if (!i.op.info().evaluate || i.types.size() != 1 || is_left || !i.types[0].is_tensor()) return {};
  const Shape& shape = i.types[0].shape;
  bool is_small = shape.is_static() && shape.elements().value() <= small_constant && !is_complex(shape.dtype);
  if (!is_small || !std::ranges::all_of(i.inputs, is_small_constant)) return {};
  StringScope strings;
  std::vector<Wide> in;
  for (Value input : i.inputs) in.push_back(to_wide(input.def->as<Constant>()->tensor));
  return weft::to_tensor(i.op.info().evaluate(i.op, in).at(0));
}

Value Body::capture(Value value) {
  if (value.def->parent == module) return value;
  if (outer) value = outer->capture(value);
  if (value.def->is<Constant>()) return module->append(value.def->op, {});
  if (auto items = known_items(value)) {
    for (Value& item : *items) item = capture(item);
    return collect(*module, value.type(), std::move(*items));
  }
  if (auto contents = value.type().is_tensor() ? known_contents(value) : std::nullopt)
    return convert(*module, reshape(*module, sizes(*module, *contents), value.dims()), value.dtype());
  size_t own = module->parameters().size() - captured.size();
  auto known = std::ranges::find(captured, value);
  if (known != captured.end()) return module->parameters()[own + (known - captured.begin())];
  captured.push_back(value);
  return module->parameter(cat("outer", captured.size() - 1), value.type());
}

Value Builder::emit(Op op, Values inputs) const {
  Value value = module().append(std::move(op), std::move(inputs));
  if (value.type().is_tensor()) {
    auto is_negative = [](const Dim& size) { return size.upper_bound() < 0; };
    if (std::ranges::any_of(value.dims(), is_negative)) fail("E144", cat("gives a negative size: ", value.shape()));
  }
  auto tensor = computed(*value.def);
  if (!tensor) return fold_sizes(module(), value);
  module().erase(*value.def);
  return weft::constant(module(), std::move(*tensor));
}

Values Builder::emit_all(Op op, Values inputs, std::vector<Module*> bodies) const {
  Value first = module().append(std::move(op), std::move(inputs), std::move(bodies));
  Values results;
  for (uint32_t i = 0; i < first.def->types.size(); ++i) results.push_back({first.def, i});
  return results;
}

int64_t Builder::axis(int64_t axis, int64_t rank) const {
  if (axis < -rank || axis >= rank) fail("E143", cat("axis ", axis, " is not in [", -rank, ", ", rank - 1, "]"));
  return axis < 0 ? axis + rank : axis;
}

std::vector<int64_t> Builder::axes(std::vector<int64_t> axes, int64_t rank) const {
  for (int64_t& a : axes) a = axis(a, rank);
  std::ranges::sort(axes);
  if (auto twice = std::ranges::adjacent_find(axes); twice != axes.end())
    fail("E143", cat("names axis ", *twice, " twice"));
  return axes;
}

Dims Builder::sizes_or_bound(Value computed, const std::vector<std::optional<Dim>>& known, Dims most) const {
  std::vector<int64_t> open;
  Dims sizes, bounds;
  for (size_t k = 0; k < known.size(); ++k) {
    sizes.push_back(known[k].value_or(0));
    if (known[k]) continue;
    open.push_back(static_cast<int64_t>(k));
    if (!most.empty()) bounds.push_back(most[k]);
  }
  if (open.empty()) return sizes;
  Value picked = emit(Gather{.axis = 0}, {computed, weft::constant(module(), make_i64_tensor(open))});
  auto contents = known_contents(picked);
  Dims bound = contents ? *contents : bind_sizes(module(), picked, 0, std::move(bounds));
  for (size_t k = 0; k < open.size(); ++k) sizes[open[k]] = bound[k];
  return sizes;
}

void Builder::require_same(const Dim& a, const Dim& b, std::string_view what) const {
  GuardCollector guards(module());
  require_equal(a, b, cat(name(), ": ", what));
}

void Builder::require_dims(Value x, const Dims& dims, std::string_view what) const {
  if (x.dims().size() != dims.size()) fail("E151", cat("needs ", what, " of rank ", dims.size(), ", has ", x.shape()));
  for (size_t a = 0; a < dims.size(); ++a) require_same(x.dims()[a], dims[a], cat("sizes of ", what));
}

}  // namespace weft::frontend
