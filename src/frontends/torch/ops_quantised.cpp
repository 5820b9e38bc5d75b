// SPDX-License-Identifier: Apache-2.0
// Imports the quantised tensors of PT2E (quantized_decomposed) and torchao: integers with a scale and a zero point.
#include <algorithm>
#include <cmath>
#include <limits>

#include "frontends/torch/promote.h"
#include "ops/quantize.h"
#include "ops/reduce.h"

namespace weft::torch {
namespace {

/// Scale and zero point in the layout of Quantize: one, a vector along an axis, or one for each block along an axis.
struct Steps {
  Expr scale;
  std::optional<Expr> zero = {};
  int64_t axis = 0, block = 0;
};

/// The least and greatest integer: quant_min and quant_max, or those of the type.
struct Bounds {
  double low, high;
};
Bounds bounds_of(Call& c, DType type, bool of_type = false) {
  double most = std::pow(2.0, bits(type)) - 1, low = is_signed_integer(type) ? -(most + 1) / 2 : 0;
  if (of_type) return {low, low + most};
  return {c.number("quant_min", low), c.number("quant_max", low + most)};
}

Expr quantised(Call& c, Expr x, const Steps& steps, DType type) {
  if (bits(type) > 16 || !is_integer(type)) c.unsupported(cat("to ", type, " is not supported"));
  Values in = {x, convert(steps.scale, x.dtype())};
  if (steps.zero) in.push_back(convert(*steps.zero, type));
  Expr y = c.make(Quantize{.to = type, .axis = steps.axis, .block = steps.block}, in);
  Bounds all = bounds_of(c, type), own = bounds_of(c, type, true);
  if (all.low > own.low) y = max(y, all.low);
  if (all.high < own.high) y = min(y, all.high);
  return y;
}

Expr dequantised(Call& c, Expr x, const Steps& steps, DType to) {
  c.ignore({"quant_min", "quant_max", "dtype", "input_dtype"});
  Values in = {x, steps.scale};
  if (steps.zero) in.push_back(convert(*steps.zero, x.dtype()));
  return convert(c.make(Dequantize{.to = steps.scale.dtype(), .axis = steps.axis, .block = steps.block}, in), to);
}

// ---- PT2E ----

Steps steps_of_tensor(Call& c) {
  Expr scale = reshape(c.operand("scale").as(c, DType::f32), {});
  return {scale, reshape(c.operand("zero_point").as(c, DType::i32), {})};
}
Steps steps_of_channels(Call& c, Expr x) {
  return {convert(c.tensor("scales"), DType::f32), c.optional("zero_points"), c.axis_of("axis", x.rank())};
}

Values quantise(Call& c, bool by_channel) {
  Expr x = c.tensor("input");
  DType type = c.element("dtype").value_or(DType::i8);
  return one(quantised(c, x, by_channel ? steps_of_channels(c, x) : steps_of_tensor(c), type));
}
Values dequantise(Call& c, bool by_channel) {
  Expr x = c.tensor("input");
  DType to = c.element("out_dtype").value_or(DType::f32);
  return one(dequantised(c, x, by_channel ? steps_of_channels(c, x) : steps_of_tensor(c), to));
}

/// The minimum and maximum of the data, from which scale and zero point follow.
struct ObservedRange {
  Expr low, high;
};
std::array<Expr, 2> asymmetric(ObservedRange of, const Bounds& steps, double epsilon) {
  Expr low = min(of.low, 0), high = max(of.high, 0);
  Expr scale = max((high - low) / (steps.high - steps.low), epsilon);
  return {scale, min(max(steps.low - round(low / scale), steps.low), steps.high)};
}
std::array<Expr, 2> symmetric(ObservedRange of, const Bounds& steps, double epsilon) {
  Expr most = max(max(-of.low, of.high), 0);
  Expr scale = max(most / ((steps.high - steps.low) / 2), epsilon);
  return {scale, frontend::full(*scale.at, scale.dtype(), scale.dims(), std::trunc((steps.high + steps.low + 1) / 2))};
}
/// Returns the smallest scale that clips neither end of the range, and the zero point (SYMMETRIC_NO_CLIPPING_ERR).
std::array<Expr, 2> unclipped(ObservedRange of, const Bounds& steps, double epsilon) {
  Expr scale = max(max(min(of.low, 0) / steps.low, max(of.high, 0) / steps.high), epsilon);
  return {scale, frontend::full(*scale.at, scale.dtype(), scale.dims(), std::trunc((steps.high + steps.low + 1) / 2))};
}

Values steps_from_data(Call& c) {
  Expr x = c.tensor("input");
  DType type = c.element("dtype").value_or(DType::i8);
  std::vector<int64_t> axes = frontend::axes_from(0, x.rank());
  ObservedRange range{reduce(ReduceFn::min, x, axes, false), reduce(ReduceFn::max, x, axes, false)};
  auto [scale, zero] = asymmetric(range, bounds_of(c, type), c.number("eps"));
  return {reshape(convert(scale, DType::f64), {1}), reshape(convert(zero, DType::i64), {1})};
}

// ---- torchao ----

/// Returns scales and zero points in the layout of Quantize, for blocks of x of sizes `block_size`.
Steps steps_of_blocks(Call& c, Expr x) {
  Dims blocks = c.sizes("block_size"), counts;
  if (blocks.size() != x.dims().size()) c.fail("E140", cat("has block sizes ", blocks, " for ", x.value.shape()));
  int64_t single = -1, split = -1, others = 0;
  for (size_t a = 0; a < blocks.size(); ++a) {
    bool is_whole = known_equal(blocks[a], x.dims()[a]) || known_equal(blocks[a], -1);
    counts.push_back(is_whole ? Dim(1) : floordiv(x.dims()[a], blocks[a]));
    if (is_whole && !known_equal(x.dims()[a], 1)) split = static_cast<int64_t>(a), ++others;
    else if (!is_whole && !known_equal(blocks[a], 1)) split = static_cast<int64_t>(a), others += 2;
    else if (!is_whole) single = static_cast<int64_t>(a);
  }
  Expr scale = c.tensor("scale");
  auto zero = c.optional("zero_point");
  auto shaped = [&](const Dims& dims) {
    return Steps{reshape(scale, dims), zero ? std::optional(reshape(*zero, dims)) : std::nullopt};
  };
  bool is_of_all = std::ranges::all_of(counts, [](const Dim& count) { return known_equal(count, 1); });
  if (is_of_all) return shaped({});
  auto is_single = [](const Dim& count) { return !known_equal(count, 1); };
  Steps steps = shaped(counts);
  if (std::ranges::count_if(counts, is_single) == 1 && single >= 0) {
    steps = shaped({counts[single]});
    steps.axis = single;
    return steps;
  }
  if (split < 0 || (others != 1 && others != 2)) c.unsupported(cat("with blocks ", blocks, " of ", x.value.shape()));
  auto size = blocks[split].constant();
  if (!size || *size < 1) c.unsupported(cat("with blocks ", blocks, " known only in the run is not supported"));
  steps.axis = split, steps.block = *size;
  return steps;
}

Values quantise_blocks(Call& c) {
  Expr x = c.tensor("input");
  return one(quantised(c, x, steps_of_blocks(c, x), c.element("output_dtype").value_or(DType::i8)));
}
Values dequantise_blocks(Call& c) {
  Expr x = c.tensor("input");
  return one(dequantised(c, x, steps_of_blocks(c, x), c.element("output_dtype").value_or(DType::f32)));
}

/// Returns the minimum and maximum of each block. The reduced axes are dropped or, with keepdim, get size 1.
ObservedRange range_of_blocks(Call& c, Expr x) {
  Dims blocks = c.sizes("block_size"), split;
  std::vector<int64_t> axes;
  for (size_t a = 0; a < blocks.size() && a < x.dims().size(); ++a) {
    bool is_part = !known_equal(blocks[a], 1) && !known_equal(blocks[a], x.dims()[a]);
    if (is_part) split.push_back(floordiv(x.dims()[a], blocks[a])), split.push_back(blocks[a]);
    else split.push_back(x.dims()[a]);
    if (!known_equal(blocks[a], 1)) axes.push_back(std::ssize(split) - 1);
  }
  x = reshape(x, split);
  bool keep = c.flag("keepdim");
  return {reduce(ReduceFn::min, x, axes, keep), reduce(ReduceFn::max, x, axes, keep)};
}

Values steps_of_data_blocks(Call& c) {
  Expr x = c.tensor("input");
  DType type = c.element("target_dtype").value_or(DType::i8);
  if (!is_integer(type)) c.unsupported(cat("to ", type, " is not supported"));
  Bounds bounds = bounds_of(c, type);
  double epsilon = c.number("eps", x.dtype() == DType::f16    ? 0x1p-10
                                   : x.dtype() == DType::bf16 ? 0x1p-7
                                                              : std::numeric_limits<float>::epsilon());
  std::string how = c.text("mapping_type");
  DType scale_type = c.element("scale_dtype").value_or(x.dtype()),
        zero_type = c.element("zero_point_dtype").value_or(DType::i32);
  auto choose = how == "SYMMETRIC" ? symmetric : how == "ASYMMETRIC" ? asymmetric : unclipped;
  if (choose == unclipped && how != "SYMMETRIC_NO_CLIPPING_ERR")
    c.fail("E145", cat("mapping_type '", printable(how), "' is not known"));
  auto [scale, zero] = choose(range_of_blocks(c, x), bounds, epsilon);
  return {convert(scale, scale_type), convert(zero, zero_type)};
}

/// Multiplies matrices of integers in i32.
Values integer_product(Call& c) {
  return one(matmul(convert(c.tensor("self"), DType::i32), convert(c.tensor("mat2"), DType::i32)));
}

constexpr Operator quantised_rows[] = {
    {"quantized_decomposed.quantize_per_tensor.default", [](Call& c) { return quantise(c, false); }},
    {"quantized_decomposed.quantize_per_tensor.tensor", [](Call& c) { return quantise(c, false); }},
    {"quantized_decomposed.quantize_per_channel.default", [](Call& c) { return quantise(c, true); }},
    {"quantized_decomposed.dequantize_per_tensor.default", [](Call& c) { return dequantise(c, false); }},
    {"quantized_decomposed.dequantize_per_tensor.tensor", [](Call& c) { return dequantise(c, false); }},
    {"quantized_decomposed.dequantize_per_channel.default", [](Call& c) { return dequantise(c, true); }},
    {"quantized_decomposed.choose_qparams.tensor", steps_from_data},
    {"torchao.quantize_affine.default", quantise_blocks},
    {"torchao.dequantize_affine.default", dequantise_blocks},
    {"torchao.choose_qparams_affine.default", steps_of_data_blocks},
    {"aten._int_mm.default", integer_product},
};

}  // namespace

std::span<const Operator> quantised_operators() { return quantised_rows; }

}  // namespace weft::torch
