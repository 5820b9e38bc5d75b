// SPDX-License-Identifier: Apache-2.0
// Imports operators that round floats to the steps of a quantised range.
#include <cmath>
#include <limits>

#include "frontends/common/arithmetic.h"
#include "frontends/tensorflow/call.h"
#include "ops/reduce.h"

namespace weft::tensorflow {
namespace {

using namespace frontend;

/// The least and the greatest integer of a quantised range.
struct Limits {
  double low, high;
  double count() const { return high - low; }
};

Limits limits_of(Call& c, DType type, bool is_narrow) {
  if (!is_integer(type) || bits(type) > 32) c.unsupported(cat("to ", type, " is not supported"));
  double all = std::ldexp(1.0, bits(type)), low = is_signed_integer(type) ? -all / 2 : 0;
  return {low + is_narrow, low + all - 1};
}

Expr rounded(Expr x, bool to_even) { return to_even ? round(x) : sign(x) * floor(abs(x) + 0.5); }

/// Returns input `i`, a bound of a range: a scalar, or with attribute `axis` a vector placed along that axis of `rank`.
Expr range_input(Call& c, size_t i, int64_t rank) {
  Expr range = c.input(i);
  int64_t axis = c.integer("axis", -1);
  return axis < 0 || range.rank() == 0 ? reshape(range, {}) : along(range, c.axis(axis, rank), rank);
}

/// The smallest step with which both ends of a range are within the limits: 1 / step, and the step.
struct Scale {
  Expr inverse, size;
};
Scale scale_of(Expr low, Expr high, const Limits& limits) {
  constexpr double most = std::numeric_limits<float>::max();
  auto by = [&](double limit, Expr end) {
    Expr product = end * limit;
    return select(product > 0, limit / select(product > 0, end, 1), most);
  };
  Expr from_low = by(limits.low, low), from_high = by(limits.high, high), is_low = from_low < from_high;
  Expr size = select(is_low, limits.low == 0 ? like(low, 0) : low / limits.low, high / limits.high);
  return {min(from_low, from_high), size};
}

Values quantize_v2(Call& c) {
  c.expect_inputs(3, 3);
  std::string mode = c.text("mode", "MIN_COMBINED"), rounding = c.text("round_mode", "HALF_AWAY_FROM_ZERO");
  double least_width = static_cast<float>(c.number("ensure_minimum_range", 0.01));
  bool is_narrow = c.flag("narrow_range");
  auto type = c.type("T");
  if (!type) c.fail("E149", "gives a type that Weft does not know");
  Expr x = c.input(0), low = min(range_input(c, 1, x.rank()), 0), high = range_input(c, 2, x.rank());
  high = max(max(high, low + max(max(abs(low), abs(high)), 1) * least_width), 0);
  auto end = [&](Expr e) { return reshape(e, c.input(1).dims()); };
  if (mode == "SCALED") {
    Limits limits = limits_of(c, *type, is_narrow);
    bool to_even = rounding == "HALF_TO_EVEN";
    if (to_even && limits.low < 0 && !is_narrow)
      c.unsupported("that rounds to even in the whole range is not supported");
    Scale scale = scale_of(low, high, limits);
    low = limits.low / scale.inverse, high = limits.high / scale.inverse;
    Expr steps = rounded(min(max(x, low), high) * scale.inverse, to_even);
    return {convert(steps, *type), end(low), end(high)};
  }
  if (mode != "MIN_COMBINED") c.unsupported(cat("with mode '", printable(mode), "' is not supported"));
  Limits limits = limits_of(c, *type, false);
  double middle = limits.low < 0 ? (limits.count() + 1) / 2 : 0;
  Expr steps = (min(max(x, low), high) - low) * (limits.count() / (high - low)) - middle;
  return {convert(rounded(steps, false), *type), end(low), end(high)};
}

Values dequantize(Call& c) {
  c.expect_inputs(3, 3);
  std::string mode = c.text("mode", "MIN_COMBINED");
  bool is_narrow = c.flag("narrow_range");
  DType type = c.input(0).dtype(), to = c.has("dtype") ? c.type("dtype").value_or(DType::f32) : DType::f32;
  Expr x = convert(c.input(0), DType::f32), low = range_input(c, 1, x.rank()), high = range_input(c, 2, x.rank());
  Limits limits = limits_of(c, type, mode == "SCALED" && is_narrow);
  if (mode == "SCALED") {
    Expr size = high / limits.high;
    return {convert(x * (limits.low < 0 ? max(low / limits.low, size) : size), to)};
  }
  if (mode != "MIN_COMBINED") c.unsupported(cat("with mode '", printable(mode), "' is not supported"));
  double middle = limits.low < 0 ? (limits.count() + 1) / 2 : 0;
  return {convert((x + middle) * ((high - low) / limits.count()) + low, to)};
}

/// Rounds floats to multiples of a step. Without a given range, uses the operand's minimum and maximum.
Values quantize_and_dequantize(Call& c) {
  c.expect_inputs(3, 4);
  bool is_signed = c.flag("signed_input", true), is_narrow = c.flag("narrow_range");
  std::string rounding = c.text("round_mode", "HALF_TO_EVEN");
  int64_t bits = c.has_input(3) ? c.number_of(3) : c.integer("num_bits", 8);
  if (bits < 1 + is_signed || bits > 24) c.fail("E145", cat("num_bits must be ", 1 + is_signed, " to 24, is ", bits));
  double half = std::ldexp(1.0, static_cast<int>(bits) - is_signed);
  Limits limits{is_signed ? -half + is_narrow : 0, half - 1};
  Expr x = c.input(0);
  Expr low = range_input(c, 1, x.rank()), high = range_input(c, 2, x.rank());
  bool is_given = c.flag("range_given");
  if (!is_given) {
    std::vector<int64_t> axes = axes_from(x.rank(), x.rank());
    int64_t own = c.integer("axis", -1);
    for (int64_t a = 0; a < x.rank(); ++a) {
      if (own < 0 || a != c.axis(own, x.rank())) axes.push_back(a);
    }
    low = reduce(ReduceFn::min, x, axes), high = reduce(ReduceFn::max, x, axes);
    if (x.rank() == 0) low = high = x;
  }
  Scale scale = scale_of(low, high, limits);
  if (is_given) x = min(max(x, scale.size * limits.low), scale.size * limits.high);
  Expr inside = x * scale.inverse;
  return {(rounding == "HALF_UP" ? floor(inside + 0.5) : round(inside)) * scale.size};
}

constexpr Operator quantised_table[] = {
#define OPERATORS_quantised
#include "frontends/tensorflow/operators.def"
};

}  // namespace

std::span<const Operator> quantised_operators() { return quantised_table; }

}  // namespace weft::tensorflow
