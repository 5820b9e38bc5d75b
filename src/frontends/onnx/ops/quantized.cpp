// SPDX-License-Identifier: Apache-2.0
// Imports quantisation, and operators on quantised values, which become dequantise, compute, quantise.
#include <algorithm>

#include "base/log.h"
#include "frontends/onnx/import/import.h"
#include "frontends/onnx/microsoft/packed_weights.h"
#include "frontends/onnx/ops/quantized.h"
#include "ir/core_ops.h"
#include "ops/block_dot.h"
#include "ops/indexed.h"
#include "ops/quantize.h"

namespace weft::onnx {
namespace {

/// Scale and zero point in the layout of Quantize and Dequantize: a scalar, a vector along an axis, or one per block.
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

Value quantized(const Builder& c, Value x, const Parameters& p, DType to, bool saturate = true) {
  Values in = {x, p.scale};
  if (p.zero && is_integer(to)) in.push_back(p.zero);
  return c.emit(Quantize{.to = to, .axis = p.axis, .block = p.block, .saturate = saturate}, in);
}

Value dequantized(const Builder& c, Value x, const Parameters& p, DType to) {
  Values in = {x, p.scale};
  if (p.zero && is_integer(x.dtype())) in.push_back(p.zero);
  return c.emit(Dequantize{.to = to, .axis = p.axis, .block = p.block}, in);
}

/// Warns of scales of 0, which are allowed but almost always a mistake.
void warn_of_zeros(const Call& c, Value scale) {
  const auto* known = scale.def->as<Constant>();
  if (!known || is_complex(known->tensor.dtype)) return;
  auto scales = to_doubles(known->tensor);
  if (std::ranges::find(scales, 0.0) != scales.end())
    log(LogLevel::warning, "W201: ", describe(c.node()), " divides by a scale of 0: what is not 0 saturates");
}

Values quantize_linear(Call& c) {
  c.expect_inputs(2, 3);
  warn_of_zeros(c, c.input(1));
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

/// A scale and zero point with which u8 covers the data and 0. The scale is 1 if all data are 0, as in onnxruntime.
struct DynamicParameters {
  Expr scale, zero;
};
DynamicParameters dynamic_parameters(Expr x) {
  auto axes = axes_from(0, x.rank());
  Expr low = min(reduce(ReduceFn::min, x, axes, false), 0), high = max(reduce(ReduceFn::max, x, axes, false), 0);
  Expr scale = select(high > low, (high - low) / 255, 1);
  return {scale, convert(min(max(round(-low / scale), 0), 255), DType::u8)};
}

Values dynamic_quantize_linear(Call& c) {
  DynamicParameters p = dynamic_parameters(arg(c, 0));
  return {quantized(c, c.input(0), {p.scale, p.zero}, DType::u8), p.scale, p.zero};
}

/// Returns input `i` dequantised with inputs `scale` and `zero`, in the type of the scale.
Expr real_input(Call& c, size_t i, size_t scale, size_t zero, int64_t axis = 0) {
  Value x = c.input(i);
  return {&c,
          dequantized(c, x, laid_out(c, x, c.input(scale), c.optional_input(zero), axis, 0), c.input(scale).dtype())};
}

/// Quantises `y` with inputs `scale` and `zero`.
Values quantized_output(Call& c, Expr y, size_t scale, size_t zero) {
  DType to = c.has_input(zero) ? c.dtype(zero) : c.dtype(0);
  y = convert(y, c.dtype(scale));
  return {quantized(c, y, laid_out(c, y, c.input(scale), c.optional_input(zero), 0, 0), to)};
}

/// Multiplies dequantised bytes. Assumes that the sums fit in 32 bits, so that passes may sum the bytes themselves.
Expr product_of_bytes(Expr a, Expr b) {
  GuardCollector guards(a.at->module());
  assume(Guard::Kind::less_equal, a.dims().back(), INT32_MAX / (255 * 255), cat(a.at->name(), ": terms of a sum"));
  return matmul(a, b);
}

Values qlinear_matmul(Call& c) {
  c.expect_inputs(8, 8);
  // Each row of a and each column of b may have its own scale.
  Expr a = real_input(c, 0, 1, 2, c.input(0).rank() - 2 < 0 ? 0 : c.input(0).rank() - 2);
  Expr b = real_input(c, 3, 4, 5, c.input(3).rank() - 1);
  return quantized_output(c, product_of_bytes(a, b), 6, 7);
}

Values matmul_integer_to_float(Call& c) {
  Expr a = real_input(c, 0, 2, 4, c.input(0).rank() - 1), b = real_input(c, 1, 3, 5, c.input(1).rank() - 1);
  Expr y = product_of_bytes(a, b);
  return {c.has_input(6) ? y + arg(c, 6) : y};
}

Values qlinear_binary(Call& c, Fn fn) {
  c.expect_inputs(7, 8);
  Expr y = apply(fn, real_input(c, 0, 1, 2), real_input(c, 3, 4, 5));
  return {quantized_as_a_whole(c, y, arg(c, 6), c.optional_input(7), c.dtype(0))};
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

/// Concatenates. Inputs: scale and zero point of the result, then tensor, scale and zero point of each part.
Values qlinear_concat(Call& c) {
  if (c.input_count() < 5 || c.input_count() % 3 != 2)
    c.fail("E140", cat("needs 2 + 3n inputs, has ", c.input_count()));
  Values parts;
  for (size_t i = 2; i < c.input_count(); i += 3) parts.push_back(real_input(c, i, i + 1, i + 2));
  return quantized_output(c, concat(c, parts, c.axis(c.integer("axis"), parts[0].rank())), 0, 1);
}

/// Computes a b. Quantises a to u8 by the range of its elements; dequantises b, which has one scale or one per column.
Values dynamic_quantize_matmul(Call& c) {
  c.expect_inputs(3, 5);
  Expr y = product_of_bytes(in_dynamic_steps(arg(c, 0)), real_input(c, 1, 2, 3, c.input(1).rank() - 1));
  return {c.has_input(4) ? y + arg(c, 4) : y};
}

/// Computes alpha * (a b + C), where C has the scale a_scale * b_scale. Returns floats unless input 7 has a scale.
Values quantized_gemm(Call& c) {
  c.expect_inputs(6, 9);
  bool transposed = c.flag("transB");
  Expr a = real_input(c, 0, 1, 2), b = real_input(c, 3, 4, 5, transposed ? 0 : 1);
  if (c.flag("transA")) a = transpose(a, {1, 0});
  if (transposed) b = transpose(b, {1, 0});
  double alpha = c.number("alpha", 1);
  Expr y = product_of_bytes(a, b);
  if (alpha != 1) y = y * alpha;
  auto scalar_or_list = [&](size_t i) {
    return known_equal(c.input(i).shape().elements(), 1) ? reshape(arg(c, i), {}) : arg(c, i);
  };
  if (c.has_input(6)) {
    Expr unit = scalar_or_list(1) * scalar_or_list(4);
    y = y + convert(arg(c, 6), DType::f32) * (alpha == 1 ? unit : unit * alpha);
  }
  return c.has_input(7) ? quantized_output(c, y, 7, 8) : Values{y};
}

Values qlinear_reduce_mean(Call& c) {
  Expr x = real_input(c, 0, 1, 2);
  std::vector<int64_t> axes = c.integers("axes");
  if (axes.empty()) axes = axes_from(0, x.rank());
  return quantized_output(c, reduce(ReduceFn::mean, x, c.axes(axes, x.rank()), c.flag("keepdims", true)), 3, 4);
}

/// Computes ai.onnx's Softmax of version `opset` on quantised values: below 13 over all axes from `axis` on together.
Values qlinear_softmax(Call& c) {
  Expr x = real_input(c, 0, 1, 2);
  int64_t opset = c.integer("opset"), axis = c.axis(c.integer("axis", opset < 13 ? 1 : -1), x.rank());
  Dims front(x.dims().begin(), x.dims().begin() + axis), back(x.dims().begin() + axis, x.dims().end());
  Expr flat = opset < 13 ? reshape(x, {product(front), product(back)}) : x;
  Expr y{&c, c.emit(Softmax{.axis = opset < 13 ? 1 : axis}, {flat})};
  return quantized_output(c, reshape(y, x.dims()), 3, 4);
}

Values qlinear_where(Call& c) {
  c.expect_inputs(9, 9);
  Expr x = real_input(c, 1, 2, 3), y = real_input(c, 4, 5, 6);
  return quantized_output(c, select(arg(c, 0), x, y), 7, 8);
}

/// Reinterprets the bytes of a constant as packed elements of `type`: [rows, bytes] -> [rows, elements].
Value packed_elements(Call& c, size_t input, DType type, int64_t rows, std::string_view what) {
  Tensor bytes = c.require_constant(input, what);
  int64_t count = bytes.elements() * 8 / bits(type);
  if (rows < 1 || count % rows)
    c.fail("E151", cat(what, " of ", bytes.elements(), " bytes does not hold ", rows, " rows"));
  return constant(c.module(), Tensor{.dtype = type, .dims = {rows, count / rows}, .data = bytes.data});
}

/// The parameters of MatMulNBits: weights [N, K] of a few bits, with a scale for each block of `block` along K.
struct NBits {
  int64_t n, k, block, blocks;
  DType type;
};

NBits n_bits(Call& c) {
  int64_t width = c.integer("bits", 4), k = c.extent("K"), block = c.extent("block_size");
  NBits w{.n = c.extent("N"), .k = k, .block = block, .blocks = 0, .type = DType::u8};
  if (width != 2 && width != 4 && width != 8) c.unsupported(cat("with ", width, " bits is not supported"));
  w.type = width == 2 ? DType::u2 : width == 4 ? DType::u4 : DType::u8;
  w.blocks = (k + block - 1) / block;
  return w;
}

/// Expands a value for each block along K, [N, blocks], to [N, K]; g_idx may assign the indices along K to blocks.
Expr of_each_k(Call& c, const NBits& w, Expr list) {
  if (c.has_input(4)) return {&c, c.emit(Gather{.axis = 1}, {list, slice(arg(c, 4), 0, 0, w.k)})};
  Expr spread = broadcast(reshape(list, {w.n, w.blocks, 1}), {w.n, w.blocks, w.block});
  return slice(reshape(spread, {w.n, w.blocks * w.block}), 1, 0, w.k);
}

/// Returns the weights [N, blocks * block] as stored integers.
Value n_bits_steps(Call& c, const NBits& w) {
  Value packed = packed_elements(c, 1, w.type, w.n, "weight");
  if (!known_equal(packed.dims()[1], w.blocks * w.block))
    c.fail("E151", cat("has a weight ", packed.shape(), " for K = ", w.k));
  return packed;
}

/// Returns the zero points [N, blocks]; in the model each row begins at a whole byte.
Expr n_bits_zero(Call& c, const NBits& w) {
  return slice(Expr{&c, packed_elements(c, 3, w.type, w.n, "zero points")}, 1, 0, w.blocks);
}

/// Returns the weights [N, K] as floats. Blocks with integer zero points use a dequantize instruction; float zero
/// points and reordered blocks are written as arithmetic.
Expr n_bits_weight(Call& c, const NBits& w) {
  Value packed = n_bits_steps(c, w);
  Expr scale = reshape(arg(c, 2), {w.n, w.blocks});
  bool zero_is_float = c.has_input(3) && is_float(c.dtype(3));
  Expr zero = full(c, w.type, {w.n, w.blocks}, static_cast<double>(int64_t{1} << (bits(w.type) - 1)));
  if (zero_is_float) zero = reshape(arg(c, 3), {w.n, w.blocks});
  else if (c.has_input(3)) zero = n_bits_zero(c, w);
  if (!zero_is_float && !c.has_input(4))
    return slice(Expr{&c, dequantized(c, packed, {scale, zero, 1, w.block}, scale.dtype())}, 1, 0, w.k);
  Expr steps = slice(convert(Expr{&c, packed}, scale.dtype()), 1, 0, w.k);
  return (steps - of_each_k(c, w, convert(zero, scale.dtype()))) * of_each_k(c, w, scale);
}

/// True if a kernel takes the weights in the model's layout.
bool has_plain_blocks(Call& c, const NBits& w) {
  bool is_plain = !c.has_input(4) && !(c.has_input(3) && is_float(c.dtype(3)));
  return is_plain && w.type != DType::u2 && w.block % 16 == 0 && c.input(0).rank() > 1;
}

/// Computes the product with weights in the model's layout. `rows_in_bytes` (accuracy_level 4) quantises x to 8 bits.
Expr block_product(Call& c, const NBits& w, Expr x, bool rows_in_bytes) {
  {
    GuardCollector guards(c.module());
    require_equal(x.dims().back(), w.k, "MatMulNBits: columns of A and K");
  }
  Values in = {x, n_bits_steps(c, w), reshape(arg(c, 2), {w.n, w.blocks})};
  if (c.has_input(3)) in.push_back(n_bits_zero(c, w));
  if (rows_in_bytes) {
    Value rows = c.emit(QuantizeRows{.block = w.block}, {x});
    in[0] = rows;
    in.push_back(rows.def->result(1)), in.push_back(rows.def->result(2));
  }
  return {&c, c.emit(BlockDot{.block = w.block, .type = x.dtype()}, in)};
}

/// Multiplies x by a matrix of packed 2, 4 or 8-bit weights [N, K] with a scale for each block of K.
Values matmul_nbits(Call& c) {
  Expr x = arg(c, 0);
  NBits w = n_bits(c);
  bool rows_in_bytes = c.integer("accuracy_level", 0) == 4;
  if (c.integer("weight_prepacked", 0) != 0) c.unsupported("with weights packed for a provider is not supported");
  Expr y = has_plain_blocks(c, w) ? block_product(c, w, x, rows_in_bytes)
                                  : matmul(x, transpose(convert(n_bits_weight(c, w), x.dtype()), {1, 0}));
  return {c.has_input(5) ? y + arg(c, 5) : y};
}

/// Returns the sixteen values of a 4-bit type of bitsandbytes: FP4 for `type` 0, NF4 for 1.
Value four_bit_values(Call& c, int64_t type) {
  constexpr double fp4[] = {0, 0.0052083333, 0.6666667, 1, 0.33333334, 0.5, 0.16666667, 0.25};
  constexpr double nf4[] = {-1,        -0.6961928, -0.52507305, -0.3949175, -0.28444138, -0.18477343, -0.09105004, 0,
                            0.0795803, 0.1609302,  0.2461123,   0.33791524, 0.44070983,  0.562617,    0.72295684,  1};
  if (type != 0 && type != 1) c.fail("E145", cat("quant_type must be 0 or 1, is ", type));
  std::vector<double> values(std::begin(nf4), std::end(nf4));
  for (size_t i = 0; type == 0 && i < values.size(); ++i) values[i] = i < 8 ? fp4[i] : -fp4[i - 8];
  return constant(c.module(), make_tensor(DType::f32, {16}, values));
}

/// Multiplies x by a matrix in a 4-bit type of bitsandbytes: two codes per byte, the high half first, and one factor
/// for each block of the flattened weight.
Values matmul_bnb4(Call& c) {
  Expr x = arg(c, 0), bytes = arg(c, 1);
  int64_t n = c.integer("N"), k = c.integer("K"), block = c.integer("block_size"), count = element_count({{n, k}});
  bool transposed = c.flag("transB", true);
  c.ignore("training_mode");
  if (block < 1 || count % block || count % 2)
    c.unsupported(cat("with ", count, " weights in blocks of ", block, " is not supported"));
  bytes = reshape(bytes, {count / 2, 1});
  Expr high = apply(Fn::shift_right, bytes, like(bytes, 4)), low = apply(Fn::bit_and, bytes, like(bytes, 15));
  Expr codes = reshape(Expr{&c, concat(c, {high, low}, 1)}, {count / block, block});
  Expr values{&c, c.emit(Gather{.axis = 0}, {four_bit_values(c, c.integer("quant_type")), convert(codes, DType::i64)})};
  Expr scale = convert(reshape(arg(c, 2), {count / block, 1}), DType::f32);
  Dims dims = transposed ? Dims{n, k} : Dims{k, n};
  Expr weight = convert(reshape(values * scale, dims), x.dtype());
  return {matmul(x, transposed ? transpose(weight, {1, 0}) : weight)};
}

/// Unpacks numbers of `width` bits, the first in the lowest bits: [.., bytes] -> [.., bytes * 8 / width].
Expr spread_bytes(Call& c, Expr bytes, int64_t width) {
  if (width == 8) return bytes;
  Dims all = bytes.dims();
  all.back() = all.back() * Dim(8 / width);
  Values parts;
  for (int64_t low = 0; low < 8; low += width) {
    Expr moved = low == 0 ? bytes : apply(Fn::shift_right, bytes, like(bytes, static_cast<double>(low)));
    Expr part = apply(Fn::bit_and, moved, like(bytes, static_cast<double>((1 << width) - 1)));
    parts.push_back(with_last_axis(part));
  }
  return reshape(Expr{&c, concat(c, parts, bytes.rank())}, all);
}

/// Gathers along one axis of a table that is quantised in blocks along another, and dequantises. u8 data may pack
/// several numbers into a byte along the last axis; the numbers are unpacked after the gather.
Values gather_block_quantized(Call& c) {
  int64_t width = c.integer("bits", 4), block = c.integer("block_size", 128);
  if (width != 2 && width != 4 && width != 8) c.unsupported(cat("with ", width, " bits is not supported"));
  bool is_packed = c.dtype(0) == DType::u8;
  Expr data = arg(c, 0), scale = arg(c, 2);
  int64_t along = c.axis(c.integer("quantize_axis", 1), data.rank()),
          from = c.axis(c.integer("gather_axis", 0), data.rank());
  if (along == from) c.unsupported("with blocks along the gathered axis is not supported");
  if (is_packed && width < 8 && from == data.rank() - 1)
    c.unsupported("with several numbers in a byte along the gathered axis is not supported");
  auto picked = [&](Expr table) { return Expr{&c, c.emit(Gather{.axis = from}, {table, c.input(1)})}; };
  auto numbers = [&](size_t input) {
    Expr table = arg(c, input);
    if (is_packed) return spread_bytes(c, picked(table), width);
    return picked(convert(table, is_signed_integer(table.dtype()) ? DType::i8 : DType::u8));
  };
  int64_t axis = along < from ? along : along + c.input(1).rank() - 1;
  Expr factor = picked(scale), x = numbers(0);
  Expr zero = c.has_input(3) ? slice(numbers(3), factor.rank() - 1, 0, factor.dims().back())
                             : full(c, x.dtype(), factor.dims(), is_packed ? static_cast<double>(1 << (width - 1)) : 0);
  return {dequantized(c, x, {factor, zero, axis, block}, scale.dtype())};
}

constexpr Operator quantized_table[] = {
#include "frontends/onnx/ops/quantized.def"
};

}  // namespace

Expr in_dynamic_steps(Expr x) {
  DynamicParameters p = dynamic_parameters(x);
  const Builder& c = *x.at;
  return {&c, dequantized(c, quantized(c, x, {p.scale, p.zero}, DType::u8), {p.scale, p.zero}, DType::f32)};
}

Value quantized_as_a_whole(Call& c, Expr y, Expr scale, Value zero, DType to) {
  scale = convert(reshape(scale, {}), y.dtype());
  if (!zero) return c.emit(Quantize{.to = to}, {y, scale});
  // Quantize rounds before it adds the zero point, onnxruntime after it: with an odd zero point, halves would round to
  // different neighbours. So for an odd zero point, Quantize gets y + scale and adds only the even rest.
  Expr z = reshape(Expr{&c, zero}, {}), odd = apply(Fn::bit_and, z, like(z, 1));
  return c.emit(Quantize{.to = to}, {y + convert(odd, y.dtype()) * scale, scale, z - odd});
}

std::span<const Operator> quantized_operators() { return quantized_table; }

}  // namespace weft::onnx
