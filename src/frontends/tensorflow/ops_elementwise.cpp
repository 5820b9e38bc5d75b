// SPDX-License-Identifier: Apache-2.0
// Imports elementwise operators.
#include <algorithm>
#include <cmath>

#include "frontends/common/arithmetic.h"
#include "frontends/common/complex.h"
#include "frontends/tensorflow/call.h"
#include "frontends/tensorflow/network.h"

namespace weft::tensorflow {

using namespace frontend;

Expr activated(Call& c, Expr y) {
  switch (int64_t kind = c.integer("activation", 0)) {
    case 0: return y;
    case 1: return relu(y);
    case 2: return min(max(y, -1), 1);
    case 3: return min(relu(y), 6);
    case 4: return tanh(y);
    default: c.unsupported(cat("with activation ", kind, " is not supported"));
  }
}

static void expect_same_types(Call& c) {
  for (size_t i = 1; i < c.input_count(); ++i) {
    if (c.input(i).dtype() != c.input(0).dtype())
      c.fail("E141", cat("has operands of ", c.input(0).dtype(), " and ", c.input(i).dtype()));
  }
}

Values of_two(Call& c, Fn fn) {
  c.expect_inputs(2, 2);
  expect_same_types(c);
  c.ignore("pot_scale_int16");  // states whether scales are powers of two
  return {activated(c, apply(fn, c.input(0), c.input(1)))};
}

namespace {

template <Fn fn>
Values of_one(Call& c) {
  c.expect_inputs(1, 1);
  return {apply(fn, c.input(0))};
}

Values not_equal(Call& c) {
  c.expect_inputs(2, 2);
  expect_same_types(c);
  return {!equal(c.input(0), c.input(1))};
}

Values floor_div(Call& c) {
  c.expect_inputs(2, 2);
  expect_same_types(c);
  return {floor_divided(c.input(0), c.input(1))};
}

Values power(Call& c) {
  if (!is_integer(c.input(0).dtype())) return of_two<Fn::pow>(c);
  c.expect_inputs(2, 2);
  expect_same_types(c);
  constexpr double most = 64;  // constant exponents up to this are unrolled
  auto known = c.constant(1);
  if (!known || known->elements() != 1) return {whole_power(c.input(0), c.input(1))};
  double exponent = to_doubles(*known)[0];
  if (exponent < 0) c.fail("E145", cat("needs an exponent >=0 for whole numbers, has ", exponent));
  if (exponent > most) return {whole_power(c.input(0), c.input(1))};
  Expr y = whole_power(c.input(0), static_cast<int64_t>(exponent));
  return {broadcast(y, (c.input(0) + c.input(1)).dims())};
}

Values clip(Call& c) {
  c.expect_inputs(3, 3);
  return {min(max(c.input(0), c.input(1)), c.input(2))};
}

/// Computes formula(x, y), but 0 where x (with `by_second`: y) is 0.
Values zero_where(Call& c, bool by_second, Expr (*formula)(Expr x, Expr y)) {
  c.expect_inputs(2, 2);
  expect_same_types(c);
  Expr y = formula(c.input(0), c.input(1));
  return {select(broadcast(equal(c.input(by_second), 0), y.dims()), 0, y)};
}

Values squared_difference(Call& c) {
  c.expect_inputs(2, 2);
  Expr difference = c.input(0) - c.input(1);
  return {difference * difference};
}

Values clamped(Call& c, double low, double high) {
  c.expect_inputs(1, 1);
  return {min(max(c.input(0), low), high)};
}

Values leaky_relu(Call& c) {
  Expr x = c.input(0);
  return {select(x < 0, x * c.number("alpha", 0.2), x)};
}

Values prelu(Call& c) {
  c.expect_inputs(2, 2);
  Expr x = c.input(0);
  return {select(x < 0, x * c.input(1), x)};
}

Values elu(Call& c) {
  Expr x = c.input(0);
  return {select(x < 0, expm1(x), x)};
}

Values hard_swish(Call& c) {
  Expr x = c.input(0);
  return {x * min(relu(x + 3), 6) / 6};
}

Values gelu_of(Call& c) {
  Expr x = c.input(0);
  return {c.flag("approximate") ? tanh_gelu(x) : gelu(x)};
}

/// Imports Select, in which a condition vector chooses whole rows.
Values select_rows(Call& c) {
  c.expect_inputs(3, 3);
  Expr condition = c.input(0), x = c.input(1);
  if (condition.rank() == 1 && x.rank() > 1) condition = along(condition, 0, x.rank());
  return {select(condition, x, c.input(2))};
}

Values select_any(Call& c) {
  c.expect_inputs(3, 3);
  return {select(c.input(0), c.input(1), c.input(2))};
}

Values cast(Call& c) {
  c.expect_inputs(1, 1);
  if (c.flag("Truncate")) c.unsupported("with Truncate is not supported");
  c.ignore("in_data_type"), c.ignore("out_data_type");  // types follow from the operands
  DType to = c.output_type();
  Expr x = c.has_pairs(0) && !is_complex(to) ? part(c.input(0), 0) : c.input(0);
  if (to == DType::string) c.unsupported(cat("from ", x.dtype(), " to ", to, " is not supported"));
  if (!is_complex(to)) return {convert(x, to)};
  c.give_pairs();
  x = convert(x, to == DType::c64 ? DType::f32 : DType::f64);
  return {c.has_pairs(0) ? x : pair_of({x, like(x, 0)})};
}

Values add_n(Call& c) {
  Expr sum = c.input(0);
  for (size_t i = 1; i < c.input_count(); ++i) sum = sum + c.input(i);
  return {sum};
}

/// Converts float types; else returns the operand, because the importer dequantises operands and quantises results.
Values requantized(Call& c) {
  c.expect_inputs(1, 1);
  bool is_float_now = is_float(c.input(0).dtype());
  return {is_float_now && is_float(c.output_type()) ? convert(c.input(0), c.output_type()) : c.input(0)};
}

/// Rounds to 2^bits levels (one less with narrow_range) between min and max, which are shifted so that 0 is a level.
Values fake_quant(Call& c) {
  // Computed in f32 as in the frameworks: in f64, values half way between two levels could round differently.
  auto low = static_cast<float>(c.number("min", -6)), high = static_cast<float>(c.number("max", 6));
  int64_t bits = c.integer("num_bits", 8);
  if (bits < 2 || bits > 16 || !(low <= 0 && 0 <= high && low < high))
    c.fail("E145", cat("needs 2 to 16 bits and a range with 0 in it, has ", bits, " bits and ", low, " to ", high));
  float first = c.flag("narrow_range") ? 1.0f : 0.0f, last = std::ldexp(1.0f, static_cast<int>(bits)) - 1;
  float scale = (high - low) / (last - first), zero = std::clamp(std::round(first - low / scale), first, last);
  float least = (first - zero) * scale, most = (last - zero) * scale;
  Expr x = min(max(c.input(0), least), most) - least;
  return {floor(x / scale + 0.5) * scale + least};
}

/// Imports fake quantisation with a range in inputs 1 and 2, per tensor or per index of the last axis. A range from 0
/// to 0 gives 0.
Values fake_quant_by_range(Call& c) {
  c.expect_inputs(3, 3);
  int64_t bits = c.integer("num_bits", 8);
  if (bits < 2 || bits > 16) c.fail("E145", cat("num_bits must be 2 to 16, is ", bits));
  double first = c.flag("narrow_range") ? 1 : 0, last = std::ldexp(1.0, static_cast<int>(bits)) - 1;
  Expr low = c.input(1), high = c.input(2), scale = (high - low) / (last - first);
  Expr zero = floor(min(max(first - low / scale, first), last) + 0.5);
  Expr least = (first - zero) * scale, most = (last - zero) * scale;
  Expr steps = floor((min(max(c.input(0), least), most) - least) * (1.0 / scale) + 0.5);
  return {select(equal(low, 0) & equal(high, 0), 0, steps * scale + least)};
}

Values right_shift(Call& c) {
  c.expect_inputs(2, 2);
  expect_same_types(c);
  Expr places = c.input(1);
  double most = bits(places.dtype()) - 1;
  return {apply(Fn::shift_right, c.input(0), min(max(places, 0), most))};
}

Values zeros_like(Call& c) { return {full(c, c.input(0).dtype(), c.input(0).dims(), 0)}; }

constexpr Operator elementwise_table[] = {
#define OPERATORS_elementwise
#include "frontends/tensorflow/operators.def"
};

}  // namespace

std::span<const Operator> elementwise_operators() { return elementwise_table; }

Values by_definition(Call& c) {
  auto fn = std::ranges::find(all_fns(), c.node().op, &FnInfo::tf);
  size_t count = fn->arity;
  c.expect_inputs(count, count);
  if (count == 2) expect_same_types(c);
  return {apply(static_cast<Fn>(fn - all_fns().begin()), c, c.inputs())};
}

}  // namespace weft::tensorflow
