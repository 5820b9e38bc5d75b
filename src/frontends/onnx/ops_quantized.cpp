// SPDX-License-Identifier: Apache-2.0
// Quantisation, and operators on quantised values: each is said as dequantise, compute, quantise.
#include <algorithm>

#include "frontends/onnx/expr.h"
#include "ops/indexed.h"
#include "ops/quantize.h"

namespace weft::onnx {
namespace {

/// Scale and zero point in the layout that the primitive wants: a scalar, a vector along an axis, or blocks.
struct Parameters {
  Value scale, zero;
  int64_t axis = 0;
  int64_t block = 0;
};

Parameters laid_out(Call& c, Value x, Value scale, Value zero, int64_t axis, int64_t block) {
  bool is_scalar = scale.rank() == 0 || (scale.rank() == 1 && known_equal(scale.dims()[0], 1) && block == 0);
  auto scalar = [&](Value v) { return v ? reshape(Expr{&c, v}, {}).value : v; };
  if (is_scalar) return {scalar(scale), scalar(zero)};
  return {scale, zero, c.axis(axis, x.rank()), block};
}

Value quantized(Call& c, Value x, const Parameters& p, DType to, bool saturate = true) {
  Values in = {x, p.scale};
  if (p.zero && is_integer(to)) in.push_back(p.zero);
  return c.emit(Quantize{.to = to, .axis = p.axis, .block = p.block, .saturate = saturate}, in);
}

Value dequantized(Call& c, Value x, const Parameters& p, DType to) {
  Values in = {x, p.scale};
  if (p.zero && is_integer(x.dtype())) in.push_back(p.zero);
  return c.emit(Dequantize{.to = to, .axis = p.axis, .block = p.block}, in);
}

Values quantize_linear(Call& c) {
  c.expect_inputs(2, 3);
  Value x = c.input(0), zero = c.optional_input(2);
  DType to = c.element("output_dtype", zero ? zero.dtype() : DType::u8);
  if (zero && zero.dtype() != to) c.fail("E141", cat("has output_dtype ", to, " and a zero point of ", zero.dtype()));
  DType precision = c.element("precision", x.dtype());
  if (is_integer(x.dtype()) || precision != x.dtype())
    x = convert(Expr{&c, x}, is_float(precision) ? precision : DType::f32);
  Expr scale = convert(arg(c, 1), x.dtype());
  Parameters p = laid_out(c, x, scale, zero, c.integer("axis", 1), c.integer("block_size", 0));
  return {quantized(c, x, p, to, c.flag("saturate", true))};
}

Values dequantize_linear(Call& c) {
  c.expect_inputs(2, 3);
  Value x = c.input(0), scale = c.input(1);
  DType to = c.element("output_dtype", scale.dtype());
  Parameters p = laid_out(c, x, scale, c.optional_input(2), c.integer("axis", 1), c.integer("block_size", 0));
  return {dequantized(c, x, p, to)};
}

/// u8 with the scale and zero point that cover the data and 0.
Values dynamic_quantize_linear(Call& c) {
  Expr x = arg(c, 0);
  std::vector<int64_t> axes;
  for (int64_t a = 0; a < x.rank(); ++a) axes.push_back(a);
  Expr low = min(reduce(ReduceFn::min, x, axes, false), 0), high = max(reduce(ReduceFn::max, x, axes, false), 0);
  Expr scale = (high - low) / 255;
  Expr zero = convert(min(max(round(-low / scale), 0), 255), DType::u8);
  return {quantized(c, x, {scale, zero}, DType::u8), scale, zero};
}

/// Input `i` with its scale and zero point, as f32.
Expr real_input(Call& c, size_t i, size_t scale, size_t zero, int64_t axis = 0) {
  Value x = c.input(i);
  return {&c,
          dequantized(c, x, laid_out(c, x, c.input(scale), c.optional_input(zero), axis, 0), c.input(scale).dtype())};
}

/// `y` quantised with the scale and zero point of these inputs.
Values quantized_output(Call& c, Expr y, size_t scale, size_t zero) {
  DType to = c.has_input(zero) ? c.dtype(zero) : c.dtype(0);
  y = convert(y, c.dtype(scale));
  return {quantized(c, y, laid_out(c, y, c.input(scale), c.optional_input(zero), 0, 0), to)};
}

Values qlinear_matmul(Call& c) {
  c.expect_inputs(8, 8);
  // A row of a, or a column of b, may have a scale of its own.
  Expr a = real_input(c, 0, 1, 2, c.input(0).rank() - 2 < 0 ? 0 : c.input(0).rank() - 2);
  Expr b = real_input(c, 3, 4, 5, c.input(3).rank() - 1);
  return quantized_output(c, matmul(a, b), 6, 7);
}

Values matmul_integer_to_float(Call& c) {
  Expr a = real_input(c, 0, 2, 4, c.input(0).rank() - 1), b = real_input(c, 1, 3, 5, c.input(1).rank() - 1);
  Expr y = matmul(a, b);
  return {c.has_input(6) ? y + arg(c, 6) : y};
}

Values qlinear_binary(Call& c, Fn fn) {
  c.expect_inputs(7, 8);
  return quantized_output(c, apply(fn, real_input(c, 0, 1, 2), real_input(c, 3, 4, 5)), 6, 7);
}

Values qlinear_sigmoid(Call& c) { return quantized_output(c, sigmoid(real_input(c, 0, 1, 2)), 3, 4); }

Values qlinear_leaky_relu(Call& c) {
  Expr x = real_input(c, 0, 1, 2);
  return quantized_output(c, select(x < 0, x * c.number("alpha", 0.01f), x), 3, 4);
}

Values qlinear_global_average_pool(Call& c) {
  bool last = c.flag("channels_last");
  Expr x = real_input(c, 0, 1, 2);
  std::vector<int64_t> axes;
  for (int64_t a = last ? 1 : 2; a < x.rank() - (last ? 1 : 0); ++a) axes.push_back(a);
  return quantized_output(c, reduce(ReduceFn::mean, x, axes), 3, 4);
}

/// Inputs: scale and zero point of the result, then tensor, scale and zero point of each part.
Values qlinear_concat(Call& c) {
  if (c.input_count() < 5 || c.input_count() % 3 != 2)
    c.fail("E140", cat("needs 2 + 3n inputs, has ", c.input_count()));
  Values parts;
  for (size_t i = 2; i < c.input_count(); i += 3) parts.push_back(real_input(c, i, i + 1, i + 2));
  return quantized_output(c, concat(c, parts, c.axis(c.integer("axis"), parts[0].rank())), 0, 1);
}

/// Bytes of a constant read as packed elements of another type: [rows, bytes] -> [rows, elements].
Value unpacked(Call& c, size_t input, DType type, int64_t rows, std::string_view what) {
  Tensor bytes = c.require_constant(input, what);
  int64_t count = bytes.elements() * 8 / bits(type);
  if (rows < 1 || count % rows)
    c.fail("E151", cat(what, " of ", bytes.elements(), " bytes does not hold ", rows, " rows"));
  return constant(c.module(), Tensor{.dtype = type, .dims = {rows, count / rows}, .data = bytes.data});
}

/// x times a matrix of packed 2, 4 or 8-bit weights [N, K] with a scale for each block of K.
Values matmul_nbits(Call& c) {
  Expr x = arg(c, 0);
  int64_t n = c.integer("N"), k = c.integer("K"), block = c.integer("block_size"), width = c.integer("bits", 4);
  c.ignore("accuracy_level"), c.ignore("weight_prepacked");
  if (c.has_input(4)) c.unsupported("with g_idx is not supported");
  if (n < 1 || k < 1 || block < 1)
    c.fail("E145", cat("N, K and block_size must be >=1, are ", n, ", ", k, " and ", block));
  if (width != 2 && width != 4 && width != 8) c.unsupported(cat("with ", width, " bits is not supported"));
  DType type = width == 2 ? DType::u2 : width == 4 ? DType::u4 : DType::u8;
  int64_t blocks = (k + block - 1) / block;
  Value weight = unpacked(c, 1, type, n, "weight");
  if (!known_equal(weight.dims()[1], blocks * block))
    c.fail("E151", cat("has a weight ", weight.shape(), " for K = ", k));
  Expr scale = reshape(arg(c, 2), {n, blocks});
  Value zero;
  if (!c.has_input(3)) {
    zero = full(c, type, {n, blocks}, static_cast<double>(1 << (width - 1)));
  } else if (is_float(c.dtype(3))) {
    c.unsupported("with zero points of floats is not supported");
  } else {
    zero = slice(Expr{&c, unpacked(c, 3, type, n, "zero points")}, 1, 0, blocks);
  }
  Expr w{&c, dequantized(c, weight, {scale, zero, 1, block}, x.dtype())};
  Expr y = matmul(x, transpose(slice(w, 1, 0, k), {1, 0}));
  return {c.has_input(5) ? y + arg(c, 5) : y};
}

constexpr Operator table[] = {
    {"", "QuantizeLinear", quantize_linear},
    {"", "DequantizeLinear", dequantize_linear},
    {"com.microsoft", "QuantizeLinear", quantize_linear},
    {"com.microsoft", "DequantizeLinear", dequantize_linear},
    {"", "DynamicQuantizeLinear", dynamic_quantize_linear},
    {"", "QLinearMatMul", qlinear_matmul},
    {"com.microsoft", "MatMulIntegerToFloat", matmul_integer_to_float},
    {"com.microsoft", "QLinearAdd", [](Call& c) { return qlinear_binary(c, Fn::add); }},
    {"com.microsoft", "QLinearMul", [](Call& c) { return qlinear_binary(c, Fn::mul); }},
    {"com.microsoft", "QLinearSigmoid", qlinear_sigmoid},
    {"com.microsoft", "QLinearLeakyRelu", qlinear_leaky_relu},
    {"com.microsoft", "QLinearGlobalAveragePool", qlinear_global_average_pool},
    {"com.microsoft", "QLinearConcat", qlinear_concat},
    {"com.microsoft", "MatMulNBits", matmul_nbits},
};

}  // namespace

std::span<const Operator> quantized_operators() { return table; }

}  // namespace weft::onnx
