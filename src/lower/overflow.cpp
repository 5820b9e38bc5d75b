// SPDX-License-Identifier: Apache-2.0
#include "lower/overflow.h"

#include <algorithm>
#include <cmath>

#include "ir/core_ops.h"
#include "lower/fused_body.h"
#include "lower/view.h"
#include "ops/elementwise.h"
#include "ops/indexed.h"
#include "ops/reduce.h"
#include "ops/views.h"

namespace weft {

static bool moves_elements(const Instruction& i) {
  return is_view_op(i.op) || i.is<Gather>() || i.is<GatherElements>() || i.is<GatherNd>() || i.is<ScatterElements>() ||
         i.is<ScatterNd>() || i.is<Concat>() || i.is<Pad>() || i.is<Convert>() || i.is<Reduce>() || i.is<Scan>();
}

/// True for a positive operand of a min or a negative operand of a max: a bound that makes no result larger.
static bool is_harmless_bound(Fn fn, Value value) {
  if (fn != Fn::min && fn != Fn::max) return false;
  auto number = splat_of(value);
  return number && (fn == Fn::min ? *number > 0 : *number < 0);
}

OverflowingValues::OverflowingValues(DType type)
    : largest_(type == DType::f16 ? 65504 : 0x1.fep127), vanishing_(type == DType::f16 ? 0x1p-25 : 0x1p-134) {}

bool OverflowingValues::overflows(double number) const { return std::isfinite(number) && std::abs(number) > largest_; }

bool OverflowingValues::contains(Value value) const {
  auto found = overflowing_.find(value.def);
  return found != overflowing_.end() && found->second;
}

bool OverflowingValues::is_source(Value value) {
  const auto* constant = value.def->as<Constant>();
  if (!constant) return contains(value);
  auto [found, is_new] = overflowing_.try_emplace(value.def, false);
  if (is_new && constant->tensor.dtype == DType::f32)
    found->second = std::ranges::any_of(constant->tensor.as<float>(), [&](float x) { return overflows(x); });
  return found->second;
}

static Value without_views(Value value) {
  while (is_view_op(value.def->op)) value = value.def->inputs[0];
  return value;
}

/// Returns c for max(x, c) and x + c with a positive number c, and its root for the root of these. Else infinity.
static double least_of(Value value) {
  value = without_views(value);
  const auto* op = value.def->as<Elementwise>();
  const bool is_root = op && op->fn == Fn::sqrt;
  if (is_root) value = without_views(value.def->inputs[0]), op = value.def->as<Elementwise>();
  if (!op || (op->fn != Fn::max && op->fn != Fn::add)) return HUGE_VAL;
  for (const Value& input : value.def->inputs) {
    auto number = input.dtype() == DType::f32 ? splat_of(input) : std::nullopt;
    if (number && *number > 0) return is_root ? std::sqrt(*number) : *number;
  }
  return HUGE_VAL;
}

/// True if the type turns the least value into 0, or its reciprocal into an infinity.
bool OverflowingValues::depends_on_least(const Instruction& i) const {
  const auto* op = i.as<Elementwise>();
  if (!op || i.types[0].shape.dtype != DType::f32) return false;
  switch (op->fn) {
    case Fn::max:
    case Fn::add: return least_of({const_cast<Instruction*>(&i), 0}) <= vanishing_;
    case Fn::reciprocal: return overflows(1 / least_of(i.inputs[0]));
    case Fn::rsqrt: return overflows(1 / std::sqrt(least_of(i.inputs[0])));
    case Fn::div: {
      auto number = splat_of(i.inputs[0]);
      return number && overflows(*number / least_of(i.inputs[1]));
    }
    default: return false;
  }
}

bool OverflowingValues::is_passed_on(const Instruction& i, size_t operand) {
  if (moves_elements(i)) return true;
  const auto* op = i.as<Elementwise>();
  if (!op || is_harmless_bound(op->fn, i.inputs[operand])) return false;
  switch (op->fn) {
    case Fn::neg:
    case Fn::abs:
    case Fn::relu:
    case Fn::add:
    case Fn::sub:
    case Fn::mul:
    case Fn::min:
    case Fn::max:
    case Fn::select:
    case Fn::sqrt: return true;
    case Fn::div: return operand == 0;
    default: return false;
  }
}

void OverflowingValues::add(const Module& module) {
  for (const Instruction& i : module) {
    bool may_overflow = depends_on_least(i);
    for (size_t at = 0; at < i.inputs.size(); ++at) {
      bool is_f32 = i.inputs[at].type().is_tensor() && i.inputs[at].dtype() == DType::f32;
      may_overflow |= is_f32 && is_passed_on(i, at) && is_source(i.inputs[at]);
    }
    if (may_overflow) overflowing_[&i] = true;
  }
}

}  // namespace weft
