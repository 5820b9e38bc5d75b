// SPDX-License-Identifier: Apache-2.0
#include "passes/divide_products.h"

#include <algorithm>

#include "ir/core_ops.h"
#include "ops/build.h"
#include "passes/match.h"

namespace weft {
namespace {

/// An operand of a product without its division: fn(x, length), perhaps transposed.
struct Divided {
  Value x, length;  ///< `length` has size 1 along the summed axis
  Fn fn;            ///< div, or mul by the reciprocal
};

/// Returns the value before the views and slices of a value.
Value origin_of(Value value) {
  while (is_view(*value.def) || value.def->is<Slice>()) value = value.def->inputs[0];
  return value;
}

bool is_product(Value value) {
  Value x = origin_of(value);
  if (Instruction* sum = as_fn(x, Fn::add)) x = origin_of(sum->inputs[splat_number(sum->inputs[0]) ? 1 : 0]);
  return x.def->is<Dot>() || x.def->is<Convolution>();
}

/// Returns the operand that is not a number; the value itself if `fn` does not compute it.
Value without_number(Value value, Fn fn) {
  Instruction* i = as_fn(value, fn);
  if (!i) return value;
  if (splat_number(i->inputs[1])) return i->inputs[0];
  return splat_number(i->inputs[0]) ? i->inputs[1] : value;
}

/// True if `value` is the length of x along an axis, or its reciprocal, perhaps with a bound or a small addend.
bool is_length(Value value, Value x, int64_t axis, Fn fn) {
  Value length = origin_of(value);
  if (fn == Fn::div) length = origin_of(without_number(length, Fn::max));
  Instruction* root = as_fn(length, fn == Fn::div ? Fn::sqrt : Fn::rsqrt);
  if (!root) return false;
  Value sum = origin_of(without_number(without_number(origin_of(root->inputs[0]), Fn::add), Fn::max));
  const auto* op = sum.def->as<Reduce>();
  Instruction* square = op ? as_fn(sum.def->inputs[0], Fn::mul) : nullptr;
  return square && op->fn == ReduceFn::sum && op->axes == std::vector{axis} && square->inputs[0] == x &&
         square->inputs[1] == x;
}

/// Matches an operand of a product, which sums over `axis`, if it is a vector divided by its length.
std::optional<Divided> divided(Value operand, const Instruction& dot, int64_t axis) {
  const auto* turn = operand.def->as<Transpose>();
  Value quotient = turn ? operand.def->inputs[0] : operand;
  const auto* op = quotient.def->as<Elementwise>();
  bool is_read_once = only_read_by(operand, &dot) && (!turn || only_read_by(quotient, operand.def));
  if (!op || (op->fn != Fn::div && op->fn != Fn::mul) || !is_read_once) return std::nullopt;
  int64_t own_axis = turn ? turn->permutation[axis] : axis;
  auto [x, repeated] = std::pair(quotient.def->inputs[0], quotient.def->inputs[1]);
  if (op->fn == Fn::mul && !repeated.def->is<Broadcast>()) std::swap(x, repeated);
  Value length = repeated.def->is<Broadcast>() ? repeated.def->inputs[0] : Value{};
  bool fits = length && length.rank() == x.rank() && known_equal(length.dims()[own_axis], 1);
  if (!fits || !is_product(x) || !is_length(length, x, own_axis, op->fn)) return std::nullopt;
  return Divided{x, length, op->fn};
}

/// Applies an operand's transpose, if it has one.
Value turned(Module& module, Value value, Value operand) {
  const auto* turn = operand.def->as<Transpose>();
  return turn ? transpose(module, value, turn->permutation) : value;
}

std::optional<Value> divide_product(Module& module, Instruction& i) {
  const auto* op = i.as<Dot>();
  Value left = op ? i.inputs[0] : Value{}, right = op ? i.inputs[1] : Value{};
  if (!op || op->type != DType::f32 || left.dtype() != DType::f32 || left == right) return std::nullopt;
  auto x = divided(left, i, left.rank() - 1), y = divided(right, i, right.rank() - 2);
  if (!x || !y) return std::nullopt;
  Value product = module.append(*op, {turned(module, x->x, left), turned(module, y->x, right)});
  Value result = apply(module, x->fn, {product, turned(module, x->length, left)});
  return apply(module, y->fn, {result, turned(module, y->length, right)});
}

}  // namespace

bool divide_products(Module& module) {
  static constexpr Rewrite rewrites[] = {divide_product};
  return rewrite_each(module, rewrites);
}

}  // namespace weft
