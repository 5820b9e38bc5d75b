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

/// Returns the smallest magnitude of the elements of a constant that are not zero, or of a view of one.
double smallest_size(Value value) {
  const auto* constant = value.def->as<Constant>();
  if (!constant) return smallest_size(value.def->inputs[0]);
  double smallest = std::numeric_limits<double>::infinity();
  for (double x : constant->tensor.as<double>()) {
    if (x != 0) smallest = std::min(smallest, std::abs(x));
  }
  return smallest;
}

/// A sum of terms: a bound on the sum of the bounded terms, and the sum of the bounds of all their values that f32
/// rounds; the number of open terms (a constant times an integer that may exceed 2^16), and the least size of their
/// factors; the number of all terms.
struct Terms {
  double bounded = 0, rounded = 0;
  int open = 0;
  double factor = std::numeric_limits<double>::infinity();
  int count = 1;
  friend Terms operator+(const Terms& a, const Terms& b) {
    return {a.bounded + b.bounded, a.rounded + b.rounded, a.open + b.open, std::min(a.factor, b.factor),
            a.count + b.count};
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
  double largest = 1, smallest = 1;
  Value number = x;
  if (const Instruction* product = as_fn(x, Fn::mul)) {
    size_t constant = is_constant(product->inputs[0]) ? 0 : 1;
    if (!is_constant(product->inputs[constant])) return std::nullopt;
    largest = interval_of(product->inputs[constant]).size();
    smallest = smallest_size(product->inputs[constant]);
    number = product->inputs[1 - constant];
  }
  double size = interval_of(number).size() * largest;
  if (is_constant(number)) return Terms{.bounded = size, .rounded = 3 * size};  // constants, product
  if (!number.def->is<Convert>() || !is_integer(number.def->inputs[0].dtype())) return std::nullopt;
  if (interval_of(number.def->inputs[0]).size() > 0x1p16) return Terms{.open = 1, .factor = smallest};
  return Terms{.bounded = size, .rounded = 2 * size};  // constant, product
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
  // results that count: sums, and an open term. The roundings: an open term's constant, product and integer (exact up
  // to 2^24), those of bounded terms, one for each sum, and two for subtracting and adding the error bound.
  double size = std::max(-*low, *high) + 2 + sum->bounded;
  int open = sum->open * (size < sum->factor * 0x1p24 ? 2 : 3);
  double error = std::ceil(sum->rounded + size * (open + sum->count + 1)) * 0x1p-24;
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
