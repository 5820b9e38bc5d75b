// SPDX-License-Identifier: Apache-2.0
#include "lower/rounding.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "ir/core_ops.h"
#include "lower/fused_body.h"
#include "lower/interval.h"
#include "ops/elementwise.h"

namespace weft {
namespace {

/// Returns the largest absolute value of an f64 constant; infinity for other values.
double constant_size(Value value) {
  while (is_view_op(value.def->op)) value = value.def->inputs[0];
  const auto* constant = value.def->as<Constant>();
  if (!constant || constant->tensor.dtype != DType::f64) return INFINITY;
  double most = 0;
  for (double x : constant->tensor.as<double>()) most = std::isfinite(x) ? std::max(most, std::abs(x)) : INFINITY;
  return most;
}

/// Returns a bound on the magnitude of an f64 sum of integers times constants; infinity for other values and for
/// constants that are not finite.
double magnitude(Value value, int depth = 8) {
  if (depth == 0 || value.dtype() != DType::f64) return INFINITY;
  if (value.def->is<Convert>()) {
    DType from = value.def->inputs[0].dtype();
    return is_integer(from) ? std::ldexp(1, bits(from)) : INFINITY;
  }
  if (const auto* op = value.def->as<Elementwise>()) {
    double x = magnitude(value.def->inputs[0], depth - 1);
    if (op->fn == Fn::relu) return x;
    if (op->fn != Fn::add && op->fn != Fn::mul) return INFINITY;
    double y = magnitude(value.def->inputs[1], depth - 1);
    return op->fn == Fn::add ? x + y : std::isinf(x) || std::isinf(y) ? INFINITY : x * y;
  }
  return constant_size(value);
}

/// A bound on the sum of the terms that have one, and the number of the others (wide integers times a constant).
struct Sum {
  double bounded = 0;
  int open = 0;
};

Sum operator+(const Sum& a, const Sum& b) { return {a.bounded + b.bounded, a.open + b.open}; }

/// Splits a sum of constants and of integers times constants into its terms; nothing for other values.
std::optional<Sum> terms_of(Value x, int depth = 4) {
  if (depth == 0 || x.dtype() != DType::f64) return std::nullopt;
  const auto* op = x.def->as<Elementwise>();
  if (op && op->fn == Fn::add) {
    auto a = terms_of(x.def->inputs[0], depth - 1), b = terms_of(x.def->inputs[1], depth - 1);
    return a && b ? std::optional(*a + *b) : std::nullopt;
  }
  double factor = 1;
  Value number = x;
  if (op && op->fn == Fn::mul) {
    bool is_first = std::isfinite(constant_size(x.def->inputs[0]));
    factor = constant_size(x.def->inputs[is_first ? 0 : 1]);
    number = x.def->inputs[is_first ? 1 : 0];
  }
  if (!std::isfinite(factor)) return std::nullopt;
  if (double size = constant_size(number); std::isfinite(size)) return Sum{.bounded = size * factor};
  if (!number.def->is<Convert>() || !is_integer(number.def->inputs[0].dtype())) return std::nullopt;
  double size = interval_of(number.def->inputs[0]).size();
  return size > 0x1p16 ? Sum{.open = 1} : Sum{.bounded = size * factor};
}

}  // namespace

std::vector<Value> rounding_parts(const Instruction& i, std::vector<const Instruction*>& inner) {
  const auto* op = i.as<Convert>();
  if (!op || !is_integer(op->to) || bits(op->to) > 16 || bits(op->to) < 8) return {};
  auto step = [&](const Instruction* at, Fn fn) -> const Instruction* {
    const auto* elementwise = at ? at->as<Elementwise>() : nullptr;
    if (!elementwise || elementwise->fn != fn || at->users.size() != 1) return nullptr;
    inner.push_back(at);
    return at;
  };
  const Instruction* max = step(i.inputs[0].def, Fn::max);
  const Instruction* min = step(max ? max->inputs[0].def : nullptr, Fn::min);
  const Instruction* round = step(min ? min->inputs[0].def : nullptr, Fn::round);
  if (!round) return {};
  auto low = splat_of(max->inputs[1]), high = splat_of(min->inputs[1]);
  double least = is_signed_integer(op->to) ? -std::ldexp(1, bits(op->to) - 1) : 0,
         greatest = std::ldexp(1, bits(op->to)) - 1 + least;
  bool fits = low && high && least <= *low && *low <= 0 && 0 <= *high && *high <= greatest;
  return fits ? std::vector{round->inputs[0], max->inputs[1], min->inputs[1]} : std::vector<Value>{};
}

const char* rounding_function(Value x) {
  double most = magnitude(x);
  return most < 0x1p31 ? "nearest_small" : std::isfinite(most) ? "nearest_number" : "nearest";
}

double quick_rounding_error(Value x, Value low, Value high) {
  auto least = splat_of(low), greatest = splat_of(high);
  auto sum = terms_of(x);
  if (!least || !greatest || !sum || sum->open > 1 || magnitude(x) >= 0x1p31) return 0;
  // Bounds the error: each conversion, product and sum (at most four) rounds by 2^-24 of `size` if the result is within
  // the limits; other results are clamped. Subtracting and adding the error itself rounds twice more.
  double size = std::max(-*least, *greatest) + 2 + sum->bounded;
  double error = std::exp2(std::ceil(std::log2(size * 6 * 0x1p-24)));
  return error <= 0x1p-11 ? error : 0;
}

}  // namespace weft
