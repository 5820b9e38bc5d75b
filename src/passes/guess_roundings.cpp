// SPDX-License-Identifier: Apache-2.0
#include "passes/guess_roundings.h"

#include <algorithm>
#include <cmath>
#include <limits>
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

/// A bound on the sum of the bounded terms, and the number of open terms (a constant times an integer that may exceed
/// 2^16).
struct Terms {
  double bounded = 0;
  int open = 0;
};

/// Returns the Terms of an f64 sum of constants and integers times constants; nothing for other values.
std::optional<Terms> terms_of(Value x, int depth = 4) {
  if (depth == 0 || x.dtype() != DType::f64) return std::nullopt;
  if (const Instruction* sum = as_fn(x, Fn::add)) {
    auto a = terms_of(sum->inputs[0], depth - 1), b = terms_of(sum->inputs[1], depth - 1);
    return a && b ? std::optional(Terms{a->bounded + b->bounded, a->open + b->open}) : std::nullopt;
  }
  if (is_constant(x)) return Terms{.bounded = interval_of(x).size()};
  double factor = 1;
  Value number = x;
  if (const Instruction* product = as_fn(x, Fn::mul)) {
    size_t constant = is_constant(product->inputs[0]) ? 0 : 1;
    if (!is_constant(product->inputs[constant])) return std::nullopt;
    factor = interval_of(product->inputs[constant]).size();
    number = product->inputs[1 - constant];
  }
  if (!is_constant(number)) {
    if (!number.def->is<Convert>() || !is_integer(number.def->inputs[0].dtype())) return std::nullopt;
    number = number.def->inputs[0];
    if (interval_of(number).size() > 0x1p16) return Terms{.open = 1};
  }
  return Terms{.bounded = interval_of(number).size() * factor};
}

/// Returns the input of a sum or product to which narrow() passes no part of the error bound.
size_t whole_input(const Instruction& i) {
  return is_constant(i.inputs[0]) || (as_fn(i.inputs[0], Fn::mul) && !is_constant(i.inputs[1])) ? 1 : 0;
}

constexpr double most_error = 0x1p-11;

/// A bound on the size of a term, and on its error if narrow() computes it.
struct Bound {
  double size = 0, error = 0;
  /// Adds the error of rounding to f32: half a unit in the last place of a number of at most this size.
  Bound rounded() const {
    double largest = size + error;
    return {size, error + (largest == 0 ? 0 : std::ldexp(1.0, std::max(std::ilogb(largest), -120) - 24))};
  }
};

/// Returns the largest error of the elements of an f64 constant in f32: `size` has it relative to the element.
Bound error_of_constant(Value value) {
  while (!value.def->is<Constant>()) value = value.def->inputs[0];
  Bound largest;
  for (double x : value.def->as<Constant>()->tensor.as<double>()) {
    double error = std::abs(x - static_cast<double>(static_cast<float>(x)));
    largest.error = std::max(largest.error, error);
    if (error > 0) largest.size = std::max(largest.size, error / std::abs(x));
  }
  return largest;
}

/// Bounds a value that has Terms; of a sum, only values up to `most` count. `open_size` bounds the open term. `less`:
/// narrow() subtracts the error bound here.
Bound bound_in_f32(Value x, double open_size, bool less, double most = std::numeric_limits<double>::infinity()) {
  if (const Instruction* sum = as_fn(x, Fn::add)) {
    size_t whole = whole_input(*sum);
    Bound a = bound_in_f32(sum->inputs[whole], open_size, false),
          b = bound_in_f32(sum->inputs[1 - whole], open_size, less);
    return Bound{std::min(a.size + b.size, most), a.error + b.error}.rounded();
  }
  if (is_constant(x)) return Bound{interval_of(x).size() + most_error, 0}.rounded();
  double factor = 1;
  Bound of_factor;
  Value number = x;
  if (const Instruction* product = as_fn(x, Fn::mul)) {
    size_t constant = is_constant(product->inputs[0]) ? 0 : 1;
    factor = interval_of(product->inputs[constant]).size();
    of_factor = error_of_constant(product->inputs[constant]);
    number = product->inputs[1 - constant];
  }
  bool is_fixed = is_constant(number);
  double n = interval_of(is_fixed ? number : number.def->inputs[0]).size();
  Bound bound{n * factor, n * of_factor.error};
  if (is_fixed) bound.error += (factor + of_factor.error) * error_of_constant(number).error;
  else if (n > 0x1p16) bound = {open_size, open_size * (of_factor.size + (n > 0x1p24 ? 0x1p-24 : 0))};
  bound = bound.rounded();
  return less ? Bound{bound.size + most_error, bound.error}.rounded() : bound;
}

/// Returns a bound, a multiple of 2^-24, on the error of computing the operand of a `nearest` in f32. Returns nothing
/// if no bound is found or the bound exceeds most_error.
std::optional<double> error_in_f32(const Instruction& nearest) {
  auto low = splat_number(nearest.inputs[1]), high = splat_number(nearest.inputs[2]);
  auto terms = terms_of(nearest.inputs[0]);
  // A guess for a sum below 2^31 - 2^12 stays below 2^31, so that it rounds to an i32.
  if (!low || !high || !terms || terms->open > 1 || !(interval_of(nearest.inputs[0]).size() < 0x1p31 - 0x1p12))
    return std::nullopt;
  // Results outside the limits are clamped, so only numbers up to half above a limit count. This bounds the open term.
  // The test for doubts adds the error bound once more.
  double size = std::max(-*low, *high) + 0.5;
  Bound bound = bound_in_f32(nearest.inputs[0], size + terms->bounded, true, size);
  bound = Bound{size, bound.error}.rounded();
  double error = std::ceil(bound.error * (1 + 0x1p-12) * 0x1p24 + 1) * 0x1p-24;
  return error <= most_error ? std::optional(error) : std::nullopt;
}

/// Returns an f64 constant, or a view of one, minus `less`, in f32.
Value narrow_constant(Module& module, Value value, double less) {
  const auto* constant = value.def->as<Constant>();
  if (!constant) return module.append(value.def->op, {narrow_constant(module, value.def->inputs[0], less)});
  std::vector<double> numbers;
  for (double x : constant->tensor.as<double>()) numbers.push_back(x - less);
  return weft::constant(module, make_tensor(DType::f32, constant->tensor.dims, std::span<const double>(numbers)));
}

/// Returns x - zero of bytes x, computed once more (for other values, the value itself): each of the sum and its guess
/// reads the bytes, because a value that two chains read would be stored.
Value computed_again(Module& module, Value value) {
  const Instruction* steps = as_fn(value, Fn::sub);
  if (!steps || !steps->inputs[0].def->is<Convert>()) return value;
  const Instruction& wide = *steps->inputs[0].def;
  return module.append(steps->op, {module.append(wide.op, {wide.inputs[0]}), steps->inputs[1]});
}

/// Returns x - less, computed in f32. If x has a constant term, subtracts `less` from this term at compile time.
Value narrow(Module& module, Value x, double less) {
  if (is_constant(x)) return narrow_constant(module, x, less);
  Instruction& i = *x.def;
  if (i.is<Convert>()) {
    Value number = convert(module, computed_again(module, i.inputs[0]), DType::f32);
    return less == 0 ? number : apply(module, Fn::add, number, -less);
  }
  size_t first = whole_input(i);
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
