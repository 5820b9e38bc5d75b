// SPDX-License-Identifier: Apache-2.0
#include "passes/guess_roundings.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "ir/core_ops.h"
#include "ops/build.h"
#include "ops/interval.h"
#include "ops/quantize.h"
#include "passes/match.h"

namespace weft {
namespace {

bool is_constant(Value value) {
  while (is_view(*value.def) || value.def->is<Slice>()) value = value.def->inputs[0];
  return value.def->is<Constant>();
}

/// A bound on the sum of the bounded terms, the sum of the bounds of their values that f32 rounds, the number of open
/// terms (a constant times an integer that may exceed 2^16), and the number of all terms.
struct Terms {
  double bounded = 0, rounded = 0;
  int open = 0, count = 1;
  friend Terms operator+(const Terms& a, const Terms& b) {
    return {a.bounded + b.bounded, a.rounded + b.rounded, a.open + b.open, a.count + b.count};
  }
};

/// Returns the Terms of an f64 sum of constants and integers times constants; nothing for other values.
std::optional<Terms> terms_of(Value x, int depth = 4) {
  if (depth == 0 || x.dtype() != DType::f64) return std::nullopt;
  if (const Instruction* sum = as_fn(x, Fn::add)) {
    auto a = terms_of(sum->inputs[0], depth - 1), b = terms_of(sum->inputs[1], depth - 1);
    return a && b ? std::optional(*a + *b) : std::nullopt;
  }
  if (is_constant(x)) return Terms{.bounded = interval_of(x).size(), .rounded = interval_of(x).size()};
  double factor = 1;
  Value number = x;
  if (const Instruction* product = as_fn(x, Fn::mul)) {
    size_t constant = is_constant(product->inputs[0]) ? 0 : 1;
    if (!is_constant(product->inputs[constant])) return std::nullopt;
    factor = interval_of(product->inputs[constant]).size();
    number = product->inputs[1 - constant];
  }
  double roundings = 3;  // of two constants and their product; an integer up to 2^16 is not rounded
  if (!is_constant(number)) {
    if (!number.def->is<Convert>() || !is_integer(number.def->inputs[0].dtype())) return std::nullopt;
    number = number.def->inputs[0];
    if (interval_of(number).size() > 0x1p16) return Terms{.open = 1};
    roundings = 2;
  }
  double size = interval_of(number).size() * factor;
  return Terms{.bounded = size, .rounded = roundings * size};
}

/// Returns a bound, a multiple of 2^-24, on the error of computing the operand of a `nearest` in f32. Returns nothing
/// if no bound is found or the bound exceeds 2^-11.
std::optional<double> error_in_f32(const Instruction& nearest) {
  auto low = splat_number(nearest.inputs[1]), high = splat_number(nearest.inputs[2]);
  auto sum = terms_of(nearest.inputs[0]);
  // A guess for a sum below 2^31 - 2^12 stays below 2^31, so that it rounds to an i32.
  if (!low || !high || !sum || sum->open > 1 || !(interval_of(nearest.inputs[0]).size() < 0x1p31 - 0x1p12))
    return std::nullopt;
  // An operation rounds by at most 2^-24 of its result. Results outside the limits are clamped, so `size` bounds all
  // that count: sums, and an open term. The roundings: three for the open term (integer, constant, product), those of
  // bounded terms, one for each sum, and two for subtracting and adding the error bound.
  double size = std::max(-*low, *high) + 2 + sum->bounded;
  double error = std::ceil(sum->rounded + size * (3 * sum->open + sum->count + 1)) * 0x1p-24;
  return error <= 0x1p-11 ? std::optional(error) : std::nullopt;
}

/// Returns an f64 constant, or a view of one, minus `less`, in f32.
Value narrow_constant(Module& module, Value value, double less) {
  const auto* constant = value.def->as<Constant>();
  if (!constant) return module.append(value.def->op, {narrow_constant(module, value.def->inputs[0], less)});
  std::vector<double> numbers;
  for (double x : constant->tensor.as<double>()) numbers.push_back(x - less);
  return weft::constant(module, make_tensor(DType::f32, constant->tensor.dims, std::span<const double>(numbers)));
}

/// Returns x - less, computed in f32. If x has a constant term, subtracts `less` from this term at compile time.
Value narrow(Module& module, Value x, double less) {
  if (is_constant(x)) return narrow_constant(module, x, less);
  Instruction& i = *x.def;
  if (i.is<Convert>()) {
    Value number = convert(module, i.inputs[0], DType::f32);
    return less == 0 ? number : apply(module, Fn::add, number, -less);
  }
  size_t first = is_constant(i.inputs[0]) || (as_fn(i.inputs[0], Fn::mul) && !is_constant(i.inputs[1])) ? 1 : 0;
  bool is_sum = as_fn(x, Fn::add);
  Value a = narrow(module, i.inputs[first], 0), b = narrow(module, i.inputs[1 - first], is_sum ? less : 0);
  Value result = module.append(i.op, {a, b});
  return is_sum || less == 0 ? result : apply(module, Fn::add, result, -less);
}

}  // namespace

bool guess_roundings(Module& module) {
  bool changed = false;
  for (Instruction& i : module) {
    const auto* op = i.as<Nearest>();
    auto error = op && i.inputs.size() == 3 ? error_in_f32(i) : std::nullopt;
    if (!error) continue;
    ReplaceScope scope(module, i);
    Value guess = narrow(module, i.inputs[0], *error);
    Value width = broadcast(module, constant(module, DType::f32, 2 * *error), guess.dims());
    Value better = module.append(*op, {i.inputs[0], i.inputs[1], i.inputs[2], guess, width});
    module.replace(i.result(), better);
    changed = true;
  }
  return changed;
}

}  // namespace weft
