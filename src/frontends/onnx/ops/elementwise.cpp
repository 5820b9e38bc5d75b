// SPDX-License-Identifier: Apache-2.0
// Elementwise operators that elementwise.def does not cover.
#include <algorithm>

#include "frontends/onnx/import/expr.h"
#include "ops/host.h"

namespace weft::onnx {
namespace {

/// Refuses an integer division by a constant that contains 0. Division by a run-time 0 gives 0 and does not trap.
void refuse_constant_zero(Call& c) {
  auto divisor = c.constant(1);
  if (!divisor || !is_integer(divisor->dtype)) return;
  if (std::ranges::count(to_doubles(*divisor), 0.0) > 0) c.fail("E157", "divides whole numbers by a constant 0");
}

/// Returns the operands of a binary function. Before opset 7, `axis` (which needs `broadcast`) aligns the second
/// operand with the first from that axis on; without `axis`, the last axes of the operands are aligned.
Values two_operands(Call& c) {
  Values in = c.inputs();
  if (c.opset() >= 7) return in;
  bool spreads = c.flag("broadcast");
  int64_t rank = in[0].rank(), own = in[1].rank();
  if (!c.has("axis")) return in;
  int64_t axis = c.axis(c.integer("axis"), rank);
  if (!spreads || axis + own > rank) c.fail("E151", cat("cannot broadcast ", in[1].shape(), " to ", in[0].shape()));
  Dims dims = in[1].dims();
  dims.resize(rank - axis, 1);
  return {in[0], reshape(Expr{&c, in[1]}, dims)};
}

/// Imports a function that elementwise.def lists with the node's name in its onnx column.
Values from_table(Call& c) {
  const auto fns = all_fns();
  auto row = std::ranges::find(fns, c.node().op_type, &FnInfo::onnx);
  c.expect_inputs(row->arity, row->arity);
  if (row - fns.begin() == static_cast<std::ptrdiff_t>(Fn::div)) refuse_constant_zero(c);
  return {apply(static_cast<Fn>(row - fns.begin()), c, row->arity == 2 ? two_operands(c) : c.inputs())};
}

Values variadic(Call& c, Fn fn) {
  Values in = c.inputs();
  if (in.empty()) c.fail("E140", "needs at least one input");
  Expr result{&c, in[0]};
  for (size_t i = 1; i < in.size(); ++i) result = apply(fn, result, {&c, in[i]});
  return {result};
}

Values mean(Call& c) { return {Expr{&c, variadic(c, Fn::add)[0]} / static_cast<double>(c.input_count())}; }

/// Imports Pow. Base and exponent may differ in type; the result has the base's type. Integer powers use f64.
Values power(Call& c) {
  c.expect_inputs(2, 2);
  Values in = two_operands(c);
  Expr x{&c, in[0]}, y{&c, in[1]};
  DType wide = is_float(x.dtype()) ? x.dtype() : DType::f64;
  return {convert(pow(convert(x, wide), convert(y, wide)), x.dtype())};
}

Values modulo(Call& c) {
  Fn fn = c.flag("fmod") ? Fn::fmod : Fn::floor_mod;
  refuse_constant_zero(c);
  return {apply(fn, arg(c, 0), arg(c, 1))};
}

/// Imports BitShift. A signed right shift by a negative number, or by the width or more, leaves only the sign.
Values bit_shift(Call& c) {
  std::string direction = c.text("direction");
  bool left = direction == "LEFT";
  if (!left && direction != "RIGHT") c.fail("E145", cat("direction '", printable(direction), "' is not LEFT or RIGHT"));
  Expr x = arg(c, 0), by = arg(c, 1);
  if (left || !is_signed_integer(x.dtype())) return {apply(left ? Fn::shift_left : Fn::shift_right, x, by)};
  double most = bits(x.dtype()) - 1;
  return {apply(Fn::shift_right, x, select((by < 0) | (by > most), most, by))};
}

Expr clamp(Expr x, double low, double high) { return min(max(x, low), high); }

/// Imports Clip. Bounds are attributes before opset 11, by default the ends of f32, then optional scalar inputs.
Values clip(Call& c) {
  Expr x = arg(c, 0);
  if (c.opset() < 11) {
    constexpr double highest = std::numeric_limits<float>::max();
    return {clamp(x, c.number("min", -highest), c.number("max", highest))};
  }
  if (c.has_input(1)) x = max(x, reshape(arg(c, 1), {}));
  if (c.has_input(2)) x = min(x, reshape(arg(c, 2), {}));
  return {x};
}

Values elu(Call& c) {
  Expr x = arg(c, 0);
  return {select(x < 0, expm1(x) * c.number("alpha", 1), x)};
}

Values selu(Call& c) {
  Expr x = arg(c, 0);
  double alpha = c.number("alpha", 1.67326319217681884765625), gamma = c.number("gamma", 1.05070102214813232421875);
  return {select(x > 0, x, expm1(x) * alpha) * gamma};
}

Values celu(Call& c) {
  Expr x = arg(c, 0);
  double alpha = c.number("alpha", 1);
  return {max(x, 0) + min(expm1(x / alpha) * alpha, 0)};
}

Values leaky_relu(Call& c) {
  Expr x = arg(c, 0);
  return {select(x < 0, x * c.number("alpha", 0.01f), x)};
}

/// Imports PRelu. Before opset 7 a vector of slopes has one slope for each channel, for any rank of x.
Values prelu(Call& c) {
  Expr x = arg(c, 0), slope = arg(c, 1);
  bool are_channels = c.opset() < 7 && slope.rank() == 1 && !known_equal(slope.dims()[0], 1) && x.rank() > 1;
  return {select(x < 0, x * (are_channels ? along(slope, 1, x.rank()) : slope), x)};
}

Values thresholded_relu(Call& c) {
  Expr x = arg(c, 0);
  return {select(x > c.number("alpha", 1), x, 0)};
}

Values hard_sigmoid(Call& c) { return {clamp(arg(c, 0) * c.number("alpha", 0.2f) + c.number("beta", 0.5f), 0, 1)}; }

Values hard_swish(Call& c) {
  Expr x = arg(c, 0);
  return {x * clamp(x * (1.0 / 6) + 0.5, 0, 1)};
}

Values softplus(Call& c) { return {softplus(arg(c, 0))}; }

Values softsign(Call& c) {
  Expr x = arg(c, 0);
  return {x / (abs(x) + 1)};
}

Values mish(Call& c) {
  Expr x = arg(c, 0);
  return {x * tanh(softplus(x))};
}

Values swish(Call& c) {
  Expr x = arg(c, 0);
  double alpha = c.number("alpha", 1);
  return {x * sigmoid(alpha == 1 ? x : x * alpha)};
}

Values gelu_by_kind(Call& c) {
  std::string kind = c.text("approximate", "none");
  if (kind != "none" && kind != "tanh") c.fail("E145", cat("approximate '", printable(kind), "' is not none or tanh"));
  return {kind == "tanh" ? tanh_gelu(arg(c, 0)) : gelu(arg(c, 0))};
}

Expr with_bias(Call& c) { return c.has_input(1) ? arg(c, 0) + arg(c, 1) : arg(c, 0); }
Values bias_gelu(Call& c) { return {gelu(with_bias(c))}; }
Values fast_gelu(Call& c) { return {tanh_gelu(with_bias(c))}; }

/// Adds the bias, then multiplies the first half of the channels by gelu of the second half.
Values bias_split_gelu(Call& c) {
  Expr x = with_bias(c);
  int64_t last = x.rank() - 1;
  Dim half = floordiv(x.dims().back(), 2);
  return {slice(x, last, 0, half) * gelu(slice(x, last, half, half))};
}

/// Multiplies complex numbers a and b, pairs [..., 2]; with `conjugate`, a and the conjugate of b.
Values complex_mul(Call& c, bool conjugate) {
  Expr a = arg(c, 0), b = arg(c, 1);
  auto part = [](Expr x, int64_t i) { return slice(x, x.rank() - 1, i, 1); };
  Expr b_imaginary = conjugate ? -part(b, 1) : part(b, 1);
  Expr real = part(a, 0) * part(b, 0) - part(a, 1) * b_imaginary;
  Expr imaginary = part(a, 0) * b_imaginary + part(a, 1) * part(b, 0);
  return {concat(c, {real, imaginary}, real.rank() - 1)};
}

Values quick_gelu(Call& c) {
  Expr x = arg(c, 0);
  return {x * sigmoid(x * c.number("alpha", 1.702f))};
}

Values shrink(Call& c) {
  Expr x = arg(c, 0);
  double threshold = c.number("lambd", 0.5), bias = c.number("bias", 0);
  return {select(x < -threshold, x + bias, select(x > threshold, x - bias, 0))};
}

Values is_inf(Call& c) {
  Expr x = arg(c, 0);
  bool negative = c.flag("detect_negative", true), positive = c.flag("detect_positive", true);
  if (negative && positive) return {equal(abs(x), infinity)};
  if (!negative && !positive) return {full(c, DType::boolean, x.dims(), 0)};
  return {equal(x, positive ? infinity : -infinity)};
}

Values identity(Call& c) { return {c.input(0)}; }

/// Casts to or from strings, which hold numbers in onnxruntime's format.
Value casted_text(Call& c, Expr x, DType to) {
  bool from_text = x.dtype() == DType::string;
  if (bits(from_text ? to : x.dtype()) < 8) c.unsupported(cat("from ", x.dtype(), " to ", to, " is not supported"));
  HostOp op{.fn = from_text ? HostFn::from_text : HostFn::to_text, .types = {Shape{to, x.dims()}}};
  if (from_text) op.numbers = {static_cast<int64_t>(to)};
  return c.emit(op, {x});
}

/// Rounds x down to a power of two, or if `nearest`, to the nearest power of two; the caller converts it to f8e8m0.
Expr power_of_two(Call& c, Expr x, bool nearest) {
  x = convert(x, DType::f32);
  Expr bits{&c, c.emit(Bitcast{.to = DType::i32}, {x})};
  constexpr double smallest_normal = 0x00800000, half = 0x00400000, infinite = 0x7f800000;
  Expr raised = nearest ? bits + select(bits < smallest_normal, like(bits, half - 1), like(bits, half)) : bits;
  Expr whole = raised - floor_mod(raised, smallest_normal);  // without the mantissa
  Expr power{&c, c.emit(Bitcast{.to = DType::f32}, {whole})};
  return select((bits > 0) & (bits < infinite), power, x);
}

Value casted(Call& c, DType to) {
  Expr x = arg(c, 0);
  if (x.dtype() != to && (is_complex(x.dtype()) || is_complex(to)))
    c.unsupported(cat("from ", x.dtype(), " to ", to, " is not supported"));
  bool saturate = c.flag("saturate", true);
  std::string rounding = c.text("round_mode", "up");
  if (rounding != "up" && rounding != "down" && rounding != "nearest")
    c.fail("E145", cat("round_mode '", printable(rounding), "' is not up, down or nearest"));
  if (x.dtype() == to) return x;
  if (x.dtype() == DType::string || to == DType::string) return casted_text(c, x, to);
  if (rounding != "up" && to == DType::f8e8m0) x = power_of_two(c, x, rounding == "nearest");
  // Converts floats to integers narrower than a byte through i32, so that values out of range wrap as integers do.
  if (is_float(x.dtype()) && is_integer(to) && bits(to) < 8) x = convert(x, DType::i32);
  return c.emit(Convert{.to = to, .saturate = saturate}, {x});
}

Values imported_cast(Call& c) { return {casted(c, c.element("to"))}; }
Values cast_like(Call& c) { return {casted(c, c.dtype(1))}; }

Values bit_cast(Call& c) { return {c.emit(Bitcast{.to = c.element("to")}, {c.input(0)})}; }

/// Computes MurmurHash3_x86_32 (Austin Appleby, public domain) of the bytes of each number.
Values murmur_hash(Call& c) {
  Expr x = arg(c, 0);
  bool is_signed = !c.flag("positive", true);
  int64_t seed = c.integer("seed", 0);
  if (seed < 0 || seed > UINT32_MAX) c.fail("E145", cat("seed must be 0 to 2^32 - 1, is ", seed));
  int64_t width = x.dtype() == DType::string || x.dtype() == DType::boolean ? 0 : bits(x.dtype());
  if (width != 32 && width != 64) c.unsupported(cat("of ", x.dtype(), " is not supported"));
  auto with = [](Fn fn, Expr a, double b) { return apply(fn, a, like(a, b)); };
  auto rotated_left = [&](Expr a, int by) {
    return apply(Fn::bit_or, with(Fn::shift_left, a, by), with(Fn::shift_right, a, 32 - by));
  };
  auto mixed = [&](Expr a, int by) { return apply(Fn::bit_xor, a, with(Fn::shift_right, a, by)); };
  Expr all{&c, c.emit(Bitcast{.to = width == 32 ? DType::u32 : DType::u64}, {x})};
  Expr hash = full(c, DType::u32, x.dims(), static_cast<double>(seed));
  for (int64_t at = 0; at < width; at += 32) {
    Expr word = all;
    if (width == 64) {
      word = with(Fn::bit_and, with(Fn::shift_right, all, static_cast<double>(at)), UINT32_MAX);
      word = convert(word, DType::u32);
    }
    word = rotated_left(word * 0xcc9e2d51, 15) * 0x1b873593;
    hash = rotated_left(apply(Fn::bit_xor, hash, word), 13) * 5 + 0xe6546b64;
  }
  hash = with(Fn::bit_xor, hash, static_cast<double>(width / 8));
  hash = mixed(mixed(mixed(hash, 16) * 0x85ebca6b, 13) * 0xc2b2ae35, 16);
  return {is_signed ? c.emit(Bitcast{.to = DType::i32}, {hash}) : hash.value};
}

constexpr Operator special[] = {
#include "frontends/onnx/ops/elementwise.def"
};

}  // namespace

std::span<const Operator> elementwise_operators() {
  static const std::vector<Operator> all = [] {
    std::vector<Operator> rows(std::begin(special), std::end(special));
    for (const FnInfo& fn : all_fns()) {
      if (!fn.onnx.empty()) rows.push_back({"", fn.onnx, from_table});
    }
    return rows;
  }();
  return all;
}

}  // namespace weft::onnx
