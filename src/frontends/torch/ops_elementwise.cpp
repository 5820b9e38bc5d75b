// SPDX-License-Identifier: Apache-2.0
// Imports operators that compute each element from the operands' elements at the same position.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "frontends/common/arithmetic.h"
#include "frontends/torch/promote.h"
#include "ops/elementwise.h"

namespace weft::torch {
namespace {

using frontend::floor_divided_by_remainder, frontend::whole_power;

/// Computes `f` in f32 or wider, as torch does for narrow floats; converts integers to f32 first.
template <class F>
Values widely(Call& c, const F& f, std::string_view argument = "self") {
  Expr x = c.tensor(argument);
  DType type = float_of(x.dtype());
  return one(convert(f(convert(x, wide_of(type))), type));
}

/// Computes `f` of two operands in f32 or wider.
template <class F>
Values widely_of_two(Call& c, const F& f) {
  std::array operands{c.operand("self"), c.operand("other")};
  DType type = float_of(result_type(c, operands)), wide = wide_of(type);
  return one(convert(f(operands[0].as(c, wide), operands[1].as(c, wide)), type));
}

/// True if fn keeps integers and bools unchanged.
constexpr bool keeps_integers(Fn fn) { return fn == Fn::floor || fn == Fn::ceil || fn == Fn::round || fn == Fn::trunc; }

/// Returns the logical function that equals fn for bools; nothing if there is none.
std::optional<Fn> logical(Fn fn) {
  switch (fn) {
    case Fn::add:
    case Fn::max:
    case Fn::bit_or: return Fn::logical_or;
    case Fn::mul:
    case Fn::min:
    case Fn::bit_and: return Fn::logical_and;
    case Fn::bit_xor: return Fn::logical_xor;
    case Fn::bit_not: return Fn::logical_not;
    default: return {};
  }
}

/// Applies fn to operands in their common type.
Expr computed(Call& c, Fn fn, std::span<const Operand> operands) {
  DType type = result_type(c, operands);
  using Accepts = FnInfo::Accepts;
  Accepts accepts = info(fn).accepts;
  bool gives_truth = info(fn).gives == FnInfo::Gives::logic;
  if (accepts == Accepts::logic) type = DType::boolean;
  if (type == DType::boolean) {
    if (auto truth = logical(fn)) return frontend::apply(*truth, c, as_type(c, operands, type));
    if (fn == Fn::sign) return operands[0].as(c, type);
    if (gives_truth && fn != Fn::equal && fn != Fn::is_nan) type = DType::u8;
    else if (accepts == Accepts::number) c.unsupported("is not defined for bool");
  }
  if (accepts == Accepts::real && !is_float(type)) {
    if (keeps_integers(fn)) return operands[0].as(c, type);
    type = DType::f32;
  }
  if (accepts == Accepts::integer && !is_integer(type)) c.fail("E141", cat("takes integers, has ", type));
  return frontend::apply(fn, c, as_type(c, operands, type));
}

template <Fn fn>
Values plain(Call& c) {
  std::vector<Operand> operands = {c.operand("self")};
  if (info(fn).arity == 2) operands.push_back(c.operand("other"));
  return one(computed(c, fn, operands));
}

/// Multiplies x by argument `alpha`, converted to x's type.
Expr scaled(Call& c, Expr x) {
  Operand alpha = c.has("alpha") ? c.operand("alpha") : Operand{.kind = Operand::Kind::integer, .integer = 1};
  if (alpha.is_constant() && alpha.value() == 1) return x;
  return frontend::apply(Fn::mul, x, alpha.as(c, x.dtype()));
}

Values sum_of(Call& c, Fn fn, std::string_view first, std::string_view second) {
  std::array operands{c.operand(first), c.operand(second)};
  DType type = result_type(c, operands);
  if (type == DType::boolean) return one(computed(c, fn, operands));
  return one(frontend::apply(fn, operands[0].as(c, type), scaled(c, operands[1].as(c, type))));
}
Values add(Call& c) { return sum_of(c, Fn::add, "self", "other"); }
Values subtract(Call& c) { return sum_of(c, Fn::sub, "self", "other"); }
Values subtract_from(Call& c) { return sum_of(c, Fn::sub, "other", "self"); }

Values divide(Call& c) {
  std::array operands{c.operand("self"), c.operand("other")};
  DType type = result_type(c, operands);
  std::string mode = c.text("rounding_mode", "none");
  if (mode == "none") type = float_of(type);
  Expr x = operands[0].as(c, type), y = operands[1].as(c, type);
  if (mode == "none") return one(x / y);
  if (mode == "floor") return one(floor_divided_by_remainder(x, y));
  if (mode != "trunc") c.fail("E145", cat("rounding_mode '", printable(mode), "' is not trunc or floor"));
  Expr quotient = x / y;
  return one(is_float(type) ? frontend::apply(Fn::trunc, quotient) : quotient);
}

Values floor_divide(Call& c) {
  std::array operands{c.operand("self"), c.operand("other")};
  DType type = result_type(c, operands);
  return one(floor_divided_by_remainder(operands[0].as(c, type), operands[1].as(c, type)));
}

Values power(Call& c) {
  std::array operands{c.operand("self"), c.operand("exponent")};
  DType type = result_type(c, operands);
  Expr x = operands[0].as(c, type);
  bool is_known = operands[1].is_constant();
  double e = is_known ? operands[1].value() : 0;
  if (!is_float(type)) {
    if (type == DType::boolean) c.unsupported("of bools is not supported");
    bool is_short = is_known && e >= 0 && e <= 64;
    return one(is_short ? whole_power(x, static_cast<int64_t>(e)) : whole_power(x, operands[1].as(c, type)));
  }
  if (is_known && e == 2) return one(x * x);
  if (is_known && e == 3) return one(x * x * x);
  if (is_known && e == 1) return one(x);
  if (is_known && e == 0.5) return one(sqrt(x));
  if (is_known && e == -0.5) return one(rsqrt(x));
  if (is_known && e == -1) return one(reciprocal(x));
  return one(frontend::apply(Fn::pow, x, operands[1].as(c, type)));
}

/// Imports `ne` as the negation of `equal`, because elementwise.def has no operator for it.
Values not_equal(Call& c) {
  std::array operands{c.operand("self"), c.operand("other")};
  return one(!computed(c, Fn::equal, operands));
}

Values where(Call& c) {
  std::array operands{c.operand("self"), c.operand("other")};
  DType type = result_type(c, operands);
  Expr condition = convert(c.tensor("condition"), DType::boolean);
  return one(select(condition, operands[0].as(c, type), operands[1].as(c, type)));
}

Values clamp(Call& c) {
  std::vector<Operand> all = {c.operand("self")};
  for (const char* bound : {"min", "max"})
    if (c.has(bound)) all.push_back(c.operand(bound));
  DType type = result_type(c, all);
  Expr x = all[0].as(c, type);
  if (c.has("min")) x = max(x, c.operand("min").as(c, type));
  if (c.has("max")) x = min(x, c.operand("max").as(c, type));
  return one(x);
}

Values fill(Call& c) {
  Expr x = c.tensor("self");
  return one(broadcast(c.operand("value").as(c, x.dtype()), x.dims()));
}
Values zero(Call& c) {
  Expr x = c.tensor("self");
  return one(frontend::full(c, x.dtype(), x.dims(), 0));
}

Values masked_fill(Call& c) {
  Expr x = c.tensor("self");
  return one(select(c.tensor("mask"), c.operand("value").as(c, x.dtype()), x));
}

Values lerp(Call& c) {
  Expr x = c.tensor("self"), y = c.tensor("end"), w = c.operand("weight").as(c, x.dtype());
  return one(select(abs(w) < 0.5, x + w * (y - x), y - (y - x) * (1.0 - w)));
}

Values add_elementwise_product(Call& c, Fn fn) {
  std::array operands{c.operand("self"), c.operand("tensor1"), c.operand("tensor2")};
  DType type = result_type(c, operands);
  if (fn == Fn::div) type = float_of(type);
  Operand value = c.has("value") ? c.operand("value") : Operand{.kind = Operand::Kind::integer, .integer = 1};
  Expr part = frontend::apply(fn, value.as(c, type) * operands[1].as(c, type), operands[2].as(c, type));
  return one(operands[0].as(c, type) + part);
}

Values isinf(Call& c, bool positive, bool negative) {
  Expr x = c.tensor("self");
  if (!is_float(x.dtype())) return one(frontend::full(c, DType::boolean, x.dims(), 0));
  if (positive && negative) return one(equal(abs(x), infinity));
  return one(equal(x, positive ? infinity : -infinity));
}

Values isfinite(Call& c) {
  Expr x = c.tensor("self");
  if (!is_float(x.dtype())) return one(frontend::full(c, DType::boolean, x.dims(), 1));
  return one(abs(x) < infinity);
}

/// Imports fmax and fmin: if one operand is NaN, the result is the other.
Values extreme_of_numbers(Call& c, Fn fn) {
  std::array operands{c.operand("self"), c.operand("other")};
  DType type = result_type(c, operands);
  if (!is_float(type)) return one(computed(c, fn, operands));
  Expr x = operands[0].as(c, type), y = operands[1].as(c, type);
  return one(select(is_nan(x), y, select(is_nan(y), x, frontend::apply(fn, x, y))));
}

Values nan_to_num(Call& c) {
  Expr x = c.tensor("self");
  if (!is_float(x.dtype())) return c.ignore({"nan", "posinf", "neginf"}), one(x);
  if (bits(x.dtype()) < 16) c.unsupported(cat("of ", x.dtype(), " is not supported"));
  double most = x.dtype() == DType::f64    ? std::numeric_limits<double>::max()
                : x.dtype() == DType::f32  ? 0x1.fffffep127
                : x.dtype() == DType::bf16 ? 0x1.fep127
                                           : 65504;
  Expr y = select(equal(x, infinity), c.number("posinf", most), x);
  y = select(equal(x, -infinity), c.number("neginf", -most), y);
  return one(select(is_nan(x), c.number("nan", 0), y));
}

Values decimals_rounded(Call& c) {
  Expr x = c.tensor("self");
  int64_t decimals = c.integer("decimals", 0);
  if (decimals == 0 || !is_float(x.dtype())) return c.ignore({"decimals"}), plain<Fn::round>(c);
  double tens = std::pow(10.0, static_cast<double>(std::abs(decimals)));
  return one(decimals > 0 ? round(x * tens) / tens : round(x / tens) * tens);
}

// ---- Activations ----

Values gelu_of(Call& c) {
  std::string how = c.text("approximate", "none");
  if (how != "none" && how != "tanh") c.fail("E145", cat("approximate '", printable(how), "' is not none or tanh"));
  return widely(c, [&](Expr x) { return how == "tanh" ? tanh_gelu(x) : gelu(x); });
}

Values leaky_relu(Call& c) {
  double slope = c.number("negative_slope", 0.01);
  return widely(c, [&](Expr x) { return select(x > 0, x, x * slope); });
}

/// Imports rrelu without training: the slope is the mean of its bounds.
Values random_relu(Call& c) {
  c.require_default("training", !c.flag("training"));
  double slope = (c.number("lower", 1.0 / 8) + c.number("upper", 1.0 / 3)) / 2;
  return widely(c, [&](Expr x) { return select(x >= 0, x, x * slope); });
}

Values elu(Call& c) {
  double alpha = c.number("alpha", 1), scale = c.number("scale", 1), inner = c.number("input_scale", 1);
  return widely(c, [&](Expr x) { return select(x <= 0, expm1(x * inner) * (alpha * scale), x * scale); });
}

Values selu(Call& c) {
  constexpr double alpha = 1.6732632423543772848170429916717, scale = 1.0507009873554804934193349852946;
  return widely(c, [&](Expr x) { return select(x <= 0, expm1(x) * (alpha * scale), x * scale); });
}

Values celu(Call& c) {
  double alpha = c.number("alpha", 1);
  return widely(c, [&](Expr x) { return select(x <= 0, expm1(x * (1 / alpha)) * alpha, x); });
}

Values hardtanh(Call& c) {
  Expr x = c.tensor("self");
  double low = c.number("min_val", -1), high = c.number("max_val", 1);
  return one(min(max(x, low), high));
}

Values softplus_of(Call& c) {
  double beta = c.number("beta", 1), threshold = c.number("threshold", 20);
  return widely(c, [&](Expr x) { return select(x * beta > threshold, x, log1p(exp(x * beta)) / beta); });
}

Values prelu(Call& c) {
  Expr x = c.tensor("self"), w = c.tensor("weight");
  bool is_single = w.rank() == 0 || known_equal(w.dims()[0], 1);
  if (is_single) w = reshape(w, {});
  else w = along(w, x.rank() > 1 ? 1 : 0, x.rank());
  return one(select(x > 0, x, x * w));
}

Values threshold(Call& c) {
  Expr x = c.tensor("self");
  Expr limit = c.operand("threshold").as(c, x.dtype()), value = c.operand("value").as(c, x.dtype());
  return one(select(x <= limit, value, x));
}

Values shrink(Call& c, bool hard) {
  double lambda = c.number("lambd", 0.5);
  return widely(c, [&](Expr x) {
    if (hard) return select((x >= -lambda) & (x <= lambda), 0, x);
    return select(x > lambda, x - lambda, select(x < -lambda, x + lambda, x * 0));
  });
}

Values glu(Call& c) {
  Expr x = c.tensor("self");
  int64_t axis = c.axis_of("dim", x.rank(), -1);
  Dim half = floordiv(x.dims()[axis], 2);
  return one(slice(x, axis, 0, half) * sigmoid(slice(x, axis, half, half)));
}

Values logit(Call& c) {
  std::optional<double> epsilon;
  if (c.has("eps")) epsilon = c.number("eps");
  return widely(c, [&](Expr x) {
    if (epsilon) x = min(max(x, *epsilon), 1 - *epsilon);
    return log(x / (1.0 - x));
  });
}

/// Imports softmax, or its logarithm. Argument `dtype` converts x first.
Values softmax(Call& c, bool logarithm) {
  Expr x = c.tensor("self");
  auto type = c.element("dtype");
  if (c.flag("half_to_float")) type = DType::f32;
  if (type) x = convert(x, *type);
  int64_t axis = c.axis_of("dim", x.rank());
  if (x.rank() == 0) return one(logarithm ? x * 0 : x * 0 + 1);
  return one(c.make(Softmax{.axis = axis, .logarithm = logarithm}, {x}));
}

Values log_add_exp(Call& c, double base) {
  return widely_of_two(c, [&](Expr x, Expr y) {
    Expr most = max(x, y), apart = abs(x - y);
    Expr sum = most + log1p(exp(apart * -std::log(base))) / std::log(base);
    return select(equal(x, y) & equal(abs(x), infinity), x, sum);
  });
}

Values xlogy(Call& c, bool plus_one) {
  return widely_of_two(c, [&](Expr x, Expr y) {
    Expr product = x * (plus_one ? log1p(y) : log(y));
    return select(is_nan(y), y, select(equal(x, 0), 0, product));
  });
}

#define WEFT_UNARY_ROW(name, formula) \
  {"aten." name ".default", [](Call& c) { return widely(c, [](Expr x) { return formula; }); }}

constexpr Operator elementwise_rows[] = {
    {"aten.add.Tensor", add},
    {"aten.add.Scalar", add},
    {"aten.sub.Tensor", subtract},
    {"aten.sub.Scalar", subtract},
    {"aten.rsub.Tensor", subtract_from},
    {"aten.rsub.Scalar", subtract_from},
    {"aten.div.Tensor", divide},
    {"aten.div.Scalar", divide},
    {"aten.div.Tensor_mode", divide},
    {"aten.div.Scalar_mode", divide},
    {"aten.true_divide.Tensor", divide},
    {"aten.floor_divide.default", floor_divide},
    {"aten.floor_divide.Scalar", floor_divide},
    {"aten.remainder.Scalar_Tensor", plain<Fn::floor_mod>},
    {"aten.pow.Tensor_Tensor", power},
    {"aten.pow.Tensor_Scalar", power},
    {"aten.pow.Scalar", power},
    {"aten.ne.Tensor", not_equal},
    {"aten.ne.Scalar", not_equal},
    {"aten.bitwise_and.Scalar_Tensor", plain<Fn::bit_and>},
    {"aten.bitwise_or.Scalar_Tensor", plain<Fn::bit_or>},
    {"aten.bitwise_xor.Scalar_Tensor", plain<Fn::bit_xor>},
    {"aten.__and__.Tensor", plain<Fn::bit_and>},
    {"aten.__and__.Scalar", plain<Fn::bit_and>},
    {"aten.__or__.Tensor", plain<Fn::bit_or>},
    {"aten.__or__.Scalar", plain<Fn::bit_or>},
    {"aten.__xor__.Tensor", plain<Fn::bit_xor>},
    {"aten.__xor__.Scalar", plain<Fn::bit_xor>},
    {"aten.__lshift__.Tensor", plain<Fn::shift_left>},
    {"aten.__lshift__.Scalar", plain<Fn::shift_left>},
    {"aten.__rshift__.Tensor", plain<Fn::shift_right>},
    {"aten.__rshift__.Scalar", plain<Fn::shift_right>},
    {"aten.where.self", where},
    {"aten.where.ScalarOther", where},
    {"aten.where.ScalarSelf", where},
    {"aten.where.Scalar", where},
    {"aten.clamp.default", clamp},
    {"aten.clamp.Tensor", clamp},
    {"aten.clamp_min.default", clamp},
    {"aten.clamp_min.Tensor", clamp},
    {"aten.clamp_max.default", clamp},
    {"aten.clamp_max.Tensor", clamp},
    {"aten.clip.default", clamp},
    {"aten.clip.Tensor", clamp},
    {"aten.fill.Scalar", fill},
    {"aten.fill.Tensor", fill},
    {"aten.zero.default", zero},
    {"aten.masked_fill.Scalar", masked_fill},
    {"aten.masked_fill.Tensor", masked_fill},
    {"aten.lerp.Scalar", lerp},
    {"aten.lerp.Tensor", lerp},
    {"aten.addcmul.default", [](Call& c) { return add_elementwise_product(c, Fn::mul); }},
    {"aten.addcdiv.default", [](Call& c) { return add_elementwise_product(c, Fn::div); }},
    {"aten.isinf.default", [](Call& c) { return isinf(c, true, true); }},
    {"aten.isposinf.default", [](Call& c) { return isinf(c, true, false); }},
    {"aten.isneginf.default", [](Call& c) { return isinf(c, false, true); }},
    {"aten.isfinite.default", isfinite},
    {"aten.fmax.default", [](Call& c) { return extreme_of_numbers(c, Fn::max); }},
    {"aten.fmin.default", [](Call& c) { return extreme_of_numbers(c, Fn::min); }},
    {"aten.max.other", plain<Fn::max>},
    {"aten.min.other", plain<Fn::min>},
    {"aten.nan_to_num.default", nan_to_num},
    {"aten.round.decimals", decimals_rounded},
    {"aten.gelu.default", gelu_of},
    {"aten.leaky_relu.default", leaky_relu},
    {"aten.elu.default", elu},
    {"aten.selu.default", selu},
    {"aten.celu.default", celu},
    {"aten.hardtanh.default", hardtanh},
    {"aten.relu6.default", [](Call& c) { return one(min(max(c.tensor("self"), 0), 6)); }},
    {"aten.softplus.default", softplus_of},
    {"aten.rrelu.default", random_relu},
    {"aten.prelu.default", prelu},
    {"aten._prelu_kernel.default", prelu},
    {"aten.threshold.default", threshold},
    {"aten.hardshrink.default", [](Call& c) { return shrink(c, true); }},
    {"aten.softshrink.default", [](Call& c) { return shrink(c, false); }},
    {"aten.glu.default", glu},
    {"aten.logit.default", logit},
    {"aten.softmax.int", [](Call& c) { return softmax(c, false); }},
    {"aten._softmax.default", [](Call& c) { return softmax(c, false); }},
    {"aten.log_softmax.int", [](Call& c) { return softmax(c, true); }},
    {"aten._log_softmax.default", [](Call& c) { return softmax(c, true); }},
    {"aten.logaddexp.default", [](Call& c) { return log_add_exp(c, std::exp(1.0)); }},
    {"aten.logaddexp2.default", [](Call& c) { return log_add_exp(c, 2); }},
    {"aten.xlogy.Tensor", [](Call& c) { return xlogy(c, false); }},
    {"aten.xlogy.Scalar_Other", [](Call& c) { return xlogy(c, false); }},
    {"aten.xlogy.Scalar_Self", [](Call& c) { return xlogy(c, false); }},
    {"aten.special_xlog1py.default", [](Call& c) { return xlogy(c, true); }},
    WEFT_UNARY_ROW("silu", x* sigmoid(x)),
    WEFT_UNARY_ROW("mish", x* tanh(softplus(x))),
    WEFT_UNARY_ROW("hardswish", x* min(max(x + 3, 0), 6) / 6),
    WEFT_UNARY_ROW("hardsigmoid", min(max(x + 3, 0), 6) / 6),
    WEFT_UNARY_ROW("log_sigmoid", min(x, 0) - log1p(exp(-abs(x)))),
    WEFT_UNARY_ROW("frac", x - frontend::apply(Fn::trunc, x)),
    WEFT_UNARY_ROW("rad2deg", x * (180 / 3.14159265358979323846)),
    WEFT_UNARY_ROW("deg2rad", x * (3.14159265358979323846 / 180)),
};
#undef WEFT_UNARY_ROW

}  // namespace

std::span<const Operator> elementwise_operators() {
  static const std::vector<Operator> all = [] {
    std::vector<Operator> list(std::begin(elementwise_rows), std::end(elementwise_rows));
    list.push_back({"aten.square.default", [](Call& c) {
                      Expr x = c.tensor("self");
                      return one(x * x);
                    }});
    list.push_back({"aten.positive.default", [](Call& c) { return one(c.tensor("self")); }});
    auto add_rows = [&](const FnInfo& of, Values (*translate)(Call&), std::string_view unary_name,
                        std::string_view tensor, std::string_view scalar) {
      if (of.torch.empty() || of.arity > 2) return;
      list.push_back({unary_name, translate});
      if (of.arity == 2) list.push_back({tensor, translate}), list.push_back({scalar, translate});
    };
#define ELEMENTWISE(name, arity, accepts, gives, onnx, tf, torch_name, ...)                              \
  add_rows(info(Fn::name), plain<Fn::name>, "aten." torch_name ".default", "aten." torch_name ".Tensor", \
           "aten." torch_name ".Scalar");
#include "ops/elementwise.def"
#undef ELEMENTWISE
    return list;
  }();
  return all;
}

}  // namespace weft::torch
