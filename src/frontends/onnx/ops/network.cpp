// SPDX-License-Identifier: Apache-2.0
// Imports convolution, pooling and normalisation.
#include <algorithm>

#include "frontends/common/indexing.h"
#include "frontends/common/norms.h"
#include "frontends/common/selection.h"
#include "frontends/onnx/ops/quantized.h"
#include "frontends/onnx/ops/window.h"
#include "ops/dot.h"
#include "ops/quantize.h"
#include "ops/reduce.h"

namespace weft::onnx {
namespace {

int64_t group_count(Call& c) {
  int64_t groups = c.integer("group", 1);
  if (groups < 1) c.fail("E145", cat("group must be >=1, is ", groups));
  return groups;
}

/// Returns the node's convolution of x and w, without bias.
Expr convolved(Call& c, Expr x, Expr w, std::optional<DType> type = {}) {
  Window window = conv_window(c, x, w);
  return convolution(x, w, std::move(window), group_count(c), type);
}

Values conv(Call& c) {
  c.expect_inputs(2, 3);
  return {with_bias(convolved(c, arg(c, 0), arg(c, 1)), c.optional_input(2))};
}

Expr activated(Call& c, Expr y, const std::string& name) {
  auto p = c.floats("activation_params");
  if (name.empty()) return y;
  if (name == "Relu") return relu(y);
  if (name == "Tanh") return tanh(y);
  if (name == "Sigmoid") return sigmoid(y);
  if (name == "LeakyRelu" && p.size() == 1) return select(y < 0, y * p[0], y);
  if (name == "Clip" && p.size() == 2) return min(max(y, p[0]), p[1]);
  if (name == "HardSigmoid" && p.size() == 2) return min(max(y * p[0] + p[1], 0), 1);
  c.unsupported(cat("with activation '", printable(name), "' is not supported"));
}

/// Imports onnxruntime's FusedConv: convolution, bias, an addend, an activation.
Values fused_conv(Call& c) {
  Expr y = with_bias(convolved(c, arg(c, 0), arg(c, 1)), c.optional_input(2));
  if (c.has_input(3)) y = y + arg(c, 3);
  return {activated(c, y, c.text("activation", ""))};
}

/// Imports NhwcConv and its fused form, in which x, the addend and the result are channels-last.
Values nhwc_conv(Call& c, bool is_fused) {
  Expr y = with_bias(convolved(c, channels_first(arg(c, 0)), arg(c, 1)), c.optional_input(2));
  if (!is_fused) return {channels_last(y)};
  if (c.has_input(3)) y = y + channels_first(arg(c, 3));
  return {channels_last(activated(c, y, c.text("activation", "")))};
}

/// Dequantises, convolves and quantises. Weights may have a scale for each output channel; the bias has the scale
/// x_scale * w_scale. onnxruntime's own form may have x and the result channels-last.
Values qlinear_conv(Call& c) {
  c.expect_inputs(8, 9);
  auto per_channel = [&](size_t i) {
    return known_equal(c.input(i).shape().elements(), 1) ? reshape(arg(c, i), {}) : arg(c, i);
  };
  bool is_last = c.node().domain == "com.microsoft" && c.flag("channels_last");
  Expr x_scale = reshape(arg(c, 1), {}), w_scale = per_channel(4);
  Expr x{&c, c.emit(Dequantize{.axis = 0}, {c.input(0), x_scale, reshape(arg(c, 2), {})})};
  Expr w{&c, c.emit(Dequantize{.axis = 0}, {c.input(3), w_scale, per_channel(5)})};
  Expr y = convolved(c, is_last ? channels_first(x) : x, w);
  if (c.has_input(8)) {
    Expr bias{&c, c.emit(Dequantize{.axis = 0}, {c.input(8), w_scale})};
    y = y + along(bias * x_scale, 1, y.rank());
  }
  Expr q{&c, c.emit(Quantize{.to = c.dtype(7)}, {y, reshape(arg(c, 6), {}), reshape(arg(c, 7), {})})};
  return {is_last ? channels_last(q) : q};
}

/// Sets the pads from input 2: the padding before each axis, then after each axis.
void set_given_pads(Call& c, Window& w, const Dims& spatial, const std::vector<int64_t>& output_padding) {
  Dims pads = c.sizes(2);
  size_t axes = spatial.size();
  if (pads.size() != 2 * axes) c.fail("E140", cat("has ", pads.size(), " pads for ", axes, " spatial axes"));
  w.pads_begin = Dims(pads.begin(), pads.begin() + static_cast<ptrdiff_t>(axes));
  w.pads_end = Dims(pads.begin() + static_cast<ptrdiff_t>(axes), pads.end());
  GuardCollector guards(c.module());
  for (size_t i = 0; i < axes; ++i) {
    Dim all = (spatial[i] - 1) * w.strides[i] + output_padding[i] + (w.kernel[i] - 1) * w.dilations[i] + 1;
    require_less_equal(w.pads_begin[i] + w.pads_end[i], all, "ConvTransposeWithDynamicPads: pads and what they cut");
  }
}

/// Imports ConvTranspose and ConvTransposeWithDynamicPads. The latter has the pads as input 2, before the bias.
Values conv_transpose(Call& c) {
  bool has_pads = c.node().op_type == "ConvTransposeWithDynamicPads";
  size_t bias = has_pads ? 3 : 2;
  c.expect_inputs(bias, bias + 1);
  Expr x = arg(c, 0), w = arg(c, 1);
  Dims spatial = spatial_dims(x);
  Window window = conv_window(c, x, w);
  std::string automatic = c.text("auto_pad", "NOTSET");
  auto shape = c.integers("output_shape"), output_padding = per_axis(c, "output_padding", spatial.size(), 0, 0);
  int64_t groups = group_count(c);
  bool same = automatic == "SAME_UPPER" || automatic == "SAME_LOWER";
  if (!shape.empty() || same) {  // SAME without a shape: size = stride * input size (table in ONNX's ConvTranspose)
    Dims wanted(shape.end() - static_cast<ptrdiff_t>(std::min(shape.size(), spatial.size())), shape.end());
    for (size_t i = 0; shape.empty() && i < spatial.size(); ++i) wanted.push_back(spatial[i] * window.strides[i]);
    if (wanted.size() != spatial.size())
      c.fail("E140", cat("has output_shape ", shape, " for ", spatial.size(), " spatial axes"));
    pad_transposed(window, output_padding, spatial, wanted, automatic == "SAME_UPPER");
  } else if (has_pads) {
    set_given_pads(c, window, spatial, output_padding);
  }
  Expr y = transposed_convolution(x, w, std::move(window), std::move(output_padding), groups);
  return {with_bias(y, c.optional_input(bias))};
}

Values conv_integer(Call& c) {
  // A byte minus its zero point fits in i16.
  Expr x = convert(arg(c, 0), DType::i16), w = convert(arg(c, 1), DType::i16);
  if (c.has_input(2)) x = x - convert(reshape(arg(c, 2), {}), DType::i16);
  if (c.has_input(3)) {
    Expr zero = convert(arg(c, 3), DType::i16);
    w = w - (known_equal(zero.value.shape().elements(), 1) ? reshape(zero, {}) : along(zero, 0, w.rank()));
  }
  return {convolved(c, x, w, DType::i32)};
}

Window pool_window(Call& c, Expr x) {
  Dims spatial = spatial_dims(x);
  return read_window(c, spatial, per_axis(c, "kernel_shape", spatial.size(), 0, 1));
}

Values average_pool(Call& c) {
  PoolForm form{.round_up = c.flag("ceil_mode"), .count_include_pad = c.flag("count_include_pad")};
  return {pool(PoolFn::average, arg(c, 0), pool_window(c, arg(c, 0)), form)};
}

/// Quantises y with inputs 3 and 4. Adds the zero point before rounding, but after rounding if one window covers the
/// whole picture (`is_whole`; null: never), as onnxruntime does.
Expr quantized_average(Call& c, Expr y, Value is_whole) {
  Value zero = c.optional_input(4);
  Expr q{&c, quantized_as_a_whole(c, y, arg(c, 3), zero, c.dtype(0))};
  if (!is_whole) return q;
  Values in = {y, reshape(arg(c, 3), {})};
  if (zero) in.push_back(reshape(Expr{&c, zero}, {}));
  return select(Expr{&c, is_whole}, Expr{&c, c.emit(Quantize{.to = c.dtype(0)}, in)}, q);
}

/// Returns a run-time bool: true if the window covers all spatial axes of x. Null if it cannot, or may have pads.
Value covers_all(Call& c, const Window& window, Expr x) {
  auto is_zero = [](const Dim& pad) { return known_equal(pad, 0); };
  if (!std::ranges::all_of(window.pads_begin, is_zero) || !std::ranges::all_of(window.pads_end, is_zero)) return {};
  Expr all = full(c, DType::boolean, {}, 1);
  for (size_t a = 0; a < window.kernel.size(); ++a) {
    const Dim& size = x.dims()[a + 2];
    if (size.is_constant() && !known_equal(size, window.kernel[a])) return {};
    all = all & equal(scalar(c, size), static_cast<double>(window.kernel[a]));
  }
  return all;
}

Values qlinear_average_pool(Call& c) {
  c.expect_inputs(4, 5);
  bool is_last = c.flag("channels_last");
  Values in = {c.input(0), reshape(arg(c, 1), {})};
  if (c.has_input(2)) in.push_back(reshape(arg(c, 2), {}));
  Expr x{&c, c.emit(Dequantize{.axis = 0}, in)};
  if (is_last) x = channels_first(x);
  Window window = pool_window(c, x);
  PoolForm form{.round_up = c.flag("ceil_mode"), .count_include_pad = c.flag("count_include_pad")};
  Expr y = pool(PoolFn::average, x, window, form);
  for (size_t a = 0; form.round_up && form.count_include_pad && a < window.kernel.size(); ++a) {
    // onnxruntime divides by the whole kernel here: what windows cover behind the padding counts as padding.
    Dim end = (y.dims()[a + 2] - 1) * window.strides[a] + (window.kernel[a] - 1) * window.dilations[a] + 1;
    window.pads_end[a] = max(window.pads_end[a], end - x.dims()[a + 2] - window.pads_begin[a]);
  }
  if (form.round_up && form.count_include_pad) y = pool(PoolFn::average, x, window, {.count_include_pad = true});
  Expr q = quantized_average(c, y, covers_all(c, window, x));
  return {is_last ? channels_last(q) : q};
}

Values lp_pool(Call& c) {
  PoolForm form{.round_up = c.flag("ceil_mode"), .p = c.integer("p", 2)};
  if (form.p < 1) c.fail("E145", cat("p must be >=1, is ", form.p));
  return {pool(PoolFn::lp, arg(c, 0), pool_window(c, arg(c, 0)), form)};
}

/// Converts row-major flat positions to column-major positions: the first spatial axis varies fastest.
Expr column_major(Expr position, const Dims& spatial) {
  Dim plane = product(spatial);
  const Builder& c = *position.at;
  Expr image = apply(Fn::div, position, scalar(c, plane));
  Expr rest = position - image * scalar(c, plane), result = image * scalar(c, plane);
  Dim stride = plane;
  for (size_t i = spatial.size(); i-- > 0;) {
    stride = floordiv(stride, spatial[i]);
    Expr coordinate = floor_mod(rest, scalar(c, spatial[i]));
    rest = apply(Fn::div, rest, scalar(c, spatial[i]));
    result = result + coordinate * scalar(c, stride);
  }
  return result;
}

Values max_pool(Call& c, bool is_last) {
  Expr x = is_last ? channels_first(arg(c, 0)) : arg(c, 0);
  Window window = pool_window(c, x);
  bool round_up = c.flag("ceil_mode");
  if (is_last) return {channels_last(pool(PoolFn::max, x, window, {.round_up = round_up}))};
  bool columns = c.flag("storage_order");
  if (!c.wants_output(1)) return {pool(PoolFn::max, x, window, {.round_up = round_up})};
  auto [values, positions] = max_pool_with_positions(x, window, round_up);
  return {values, columns ? column_major(positions, spatial_dims(x)) : positions};
}

/// Returns the positions that windows along one axis of `size` read, [windows * kernel]; -1 in the padding.
Expr window_positions(Call& c, const Window& w, size_t axis, const Dim& size, const Dim& windows) {
  Expr window = along(iota(c, windows), 0, 2) * static_cast<double>(w.strides[axis]);
  Expr read = window + along(iota(c, w.kernel[axis]), 1, 2) - scalar(c, w.pads_begin[axis]);
  Expr inside = (read >= 0) & (read < scalar(c, size));
  return reshape(select(inside, read, -1), {windows * Dim(w.kernel[axis])});
}

/// Pools, in each row of a window, the elements before the first 0 of a mask. As in onnxruntime, channel n reads the
/// mask elements from number (n * spatial size) mod (number of masks) on.
Values masked_max_pool(Call& c) {
  constexpr double lowest = -std::numeric_limits<float>::max();
  c.flag("storage_order");  // only for the indices output, which is not computed
  Expr x = arg(c, 0), mask = arg(c, 1);
  Window w = pool_window(c, x);
  size_t axes = w.kernel.size();
  if (axes > 3) c.unsupported(cat("with ", axes, " spatial axes is not supported"));
  if (mask.rank() != x.rank()) c.fail("E151", cat("has x ", x.value.shape(), " and a mask ", mask.value.shape()));
  const Dims pooled = pool(PoolFn::max, x, w, {.round_up = c.flag("ceil_mode")}).dims();
  Dim channels = x.dims()[0] * x.dims()[1], masks = mask.dims()[0] * mask.dims()[1], size = 1;
  GuardCollector guards(c.module());
  for (size_t a = 2; a < axes + 2; ++a) {
    require_equal(mask.dims()[a], x.dims()[a], "MaxpoolWithMask: sizes of the input and of the mask");
    size = size * x.dims()[a];
  }
  require_less_equal(1, masks, "MaxpoolWithMask: masks");
  mask = reshape(mask, {masks * size});
  Expr pixel = along(iota(c, size), 1, 2), begin = floor_mod(iota(c, channels) * scalar(c, size), scalar(c, masks));
  bool is_one = known_equal(masks, 1);
  mask = is_one ? broadcast(mask, {channels, size}) : gather(mask, along(begin, 0, 2) + pixel);
  Expr stops = equal(mask, 0);
  if (axes > 1) stops = stops & (pixel > 0);  // the first pixel is never masked
  Dims flat = {channels}, split = {channels};
  std::vector<int64_t> within;
  for (size_t a = 0; a < axes; ++a) {
    flat.push_back(x.dims()[a + 2]);
    split.insert(split.end(), {pooled[a + 2], w.kernel[a]});
    within.push_back(static_cast<int64_t>(2 * a + 2));
  }
  x = reshape(x, flat);
  x = select(is_nan(x), lowest, x);
  stops = convert(reshape(stops, flat), DType::i32);
  for (size_t a = 0; a < axes; ++a) {
    auto axis = static_cast<int64_t>(a + 1);
    Expr read = window_positions(c, w, a, flat[a + 1], pooled[a + 2]);
    Expr is_there = along(read >= 0, axis, x.rank()), index = max(read, 0);
    x = select(is_there, gather(x, index, axis), lowest);
    stops = select(is_there, gather(stops, index, axis), 0);
  }
  Expr stopped = running(ReduceFn::sum, reshape(stops, split), within.back());
  return {reshape(reduce(ReduceFn::max, select(equal(stopped, 0), reshape(x, split), lowest), within, false), pooled)};
}

Values global_pool(Call& c, ReduceFn fn) { return {reduce(fn, arg(c, 0), axes_from(2, c.input(0).rank()))}; }

Values global_lp_pool(Call& c) {
  Expr x = arg(c, 0);
  auto p = static_cast<double>(c.integer("p", 2));
  return {pow(reduce(ReduceFn::sum, pow(abs(x), p), axes_from(2, x.rank())), 1 / p)};
}

/// Writes the values to the positions that the pool took them from; all other elements are 0.
Values max_unpool_to(Call& c) {
  Expr x = arg(c, 0);
  Dims spatial = spatial_dims(x);
  Window w = pool_window(c, x);
  Dims natural = {x.dims()[0], x.dims()[1]};
  for (size_t i = 0; i < spatial.size(); ++i)
    natural.push_back((spatial[i] - 1) * w.strides[i] - w.pads_begin[i] - w.pads_end[i] + w.kernel[i]);
  Dims dims = c.has_input(2) ? c.sizes(2) : natural;
  Expr y = max_unpool(x, arg(c, 1), natural);
  if (dims == natural) return {y};
  Pad pad{.before = Dims(dims.size(), 0)};
  for (size_t i = 0; i < dims.size(); ++i) pad.after.push_back(dims[i] - natural[i]);
  return {c.emit(pad, {y, number(c, x.dtype(), 0)})};
}

Values col2im(Call& c) {
  Expr x = arg(c, 0);
  Dims image = c.sizes(1);
  auto block = c.numbers(2);
  if (image.size() != block.size() || x.rank() != 3)
    c.fail("E140", cat("needs rank 3 and as many image as block sizes, has ", x.rank(), ", ", image, " and ", block));
  return {add_blocks(x, image, read_window(c, image, block))};
}

Values batch_normalization(Call& c) {
  c.expect_inputs(5, 5);
  Expr x = arg(c, 0);
  DType wide = c.dtype(3);
  Expr scale = convert(arg(c, 1), wide), bias = convert(arg(c, 2), wide), mean = arg(c, 3),
       variance = convert(arg(c, 4), wide);
  double epsilon = c.number("epsilon", 1e-5f), momentum = c.number("momentum", 0.9f);
  if (!c.flag("spatial", true)) c.unsupported("with spatial = 0 is not supported");
  bool trains = c.opset() < 7 ? !c.flag("is_test") : c.flag("training_mode");
  if (!trains) return {batch_normalized(x, scale, bias, mean, variance, epsilon)};
  std::vector<int64_t> axes = axes_from(2, x.rank());
  axes.insert(axes.begin(), 0);
  Moments now = moments(convert(x, wide), axes);
  Expr now_mean = reshape(now.mean, mean.dims()), now_variance = reshape(now.variance, mean.dims());
  return {batch_normalized(x, scale, bias, now_mean, now_variance, epsilon),
          mean * momentum + now_mean * (1 - momentum), variance * momentum + now_variance * (1 - momentum)};
}

Values instance_normalization(Call& c) {
  c.expect_inputs(3, 3);
  Expr x = arg(c, 0);
  spatial_dims(x);
  Expr y = normalized(x, 2, c.number("epsilon", 1e-5f));
  return {y * along(arg(c, 1), 1, x.rank()) + along(arg(c, 2), 1, x.rank())};
}

/// Normalises over the axes from `axis` on, then scales and adds the bias. Also returns the mean and 1 / deviation if
/// the node has one of these outputs.
Values layer_normalization(Call& c) {
  c.expect_inputs(2, 3);
  Expr x = arg(c, 0);
  int64_t axis = c.axis(c.integer("axis", -1), x.rank());
  double epsilon = c.number("epsilon", 1e-5f);
  DType stash = c.element("stash_type", DType::f32);
  Expr y = normalized(x, axis, epsilon) * arg(c, 1);
  if (c.has_input(2)) y = y + arg(c, 2);
  Values out = {y};
  if (!c.wants_output(1) && !c.wants_output(2)) return out;
  Moments m = moments(convert(x, stash), axes_from(axis, x.rank()));
  out.push_back(m.mean);
  out.push_back(reciprocal(sqrt(m.variance + epsilon)));
  return out;
}

Values rms_normalization(Call& c) {
  c.expect_inputs(2, 2);
  Expr x = arg(c, 0);
  int64_t axis = c.axis(c.integer("axis", -1), x.rank());
  DType stash = c.element("stash_type", DType::f32);
  double epsilon = c.number("epsilon", 1e-5f);
  Values out = {convert(normalized(x, axis, epsilon, false), arg(c, 1).dtype()) * arg(c, 1)};
  if (!c.wants_output(1)) return out;
  Expr wide = convert(x, stash);
  out.push_back(reciprocal(sqrt(reduce(ReduceFn::mean, wide * wide, axes_from(axis, x.rank())) + epsilon)));
  return out;
}

/// Imports GroupNorm and SkipGroupNorm. The latter first adds the skip and its bias; the sum is output 1.
Values diffusion_group_norm(Call& c, bool has_skip) {
  Expr x = arg(c, 0);
  bool is_last = c.flag("channels_last", true);
  auto as_channels = [&](Expr v) { return is_last ? v : along(v, 1, x.rank()); };
  if (has_skip) {
    Expr skip = arg(c, 3);
    if (skip.rank() == 2) skip = reshape(skip, {skip.dims()[0], 1, 1, skip.dims()[1]});
    x = x + skip;
    if (c.has_input(4)) x = x + as_channels(arg(c, 4));
  }
  const Dims dims = x.dims();
  if (dims.size() != 4) c.fail("E140", cat("needs an input of rank 4, has ", x.value.shape()));
  int64_t groups = c.integer("groups");
  const Dim channels = dims[is_last ? 3 : 1], size = floordiv(channels, groups < 1 ? 1 : groups);
  if (groups < 1 || known_different(size * groups, channels))
    c.fail("E145", cat("cannot make ", groups, " groups of ", x.value.shape()));
  // Groups become the second axis; the axes that are normalised follow it.
  Expr y = is_last ? transpose(reshape(x, {dims[0], dims[1], dims[2], groups, size}), {0, 3, 1, 2, 4})
                   : reshape(x, {dims[0], groups, size, dims[2], dims[3]});
  y = normalized(y, 2, c.number("epsilon", 1e-5f));
  y = reshape(is_last ? transpose(y, {0, 2, 3, 1, 4}) : y, dims);
  y = convert(convert(y, c.dtype(1)) * as_channels(arg(c, 1)) + as_channels(arg(c, 2)), x.dtype());
  int64_t activation = c.integer("activation");
  if (activation != 0 && activation != 1)
    c.fail("E145", cat("activation ", activation, " is not 0 (none) or 1 (SiLU)"));
  return {activation ? y * sigmoid(y) : y, x};
}

Values group_normalization(Call& c) {
  c.expect_inputs(3, 3);
  Expr x = arg(c, 0);
  Dims spatial = spatial_dims(x), dims = x.dims();
  int64_t groups = c.integer("num_groups");
  if (groups < 1) c.fail("E145", cat("num_groups must be >=1, is ", groups));
  double epsilon = c.number("epsilon", 1e-5f);
  c.element("stash_type", DType::f32);
  Dims grouped = {dims[0], groups, floordiv(dims[1], groups)};
  grouped.insert(grouped.end(), spatial.begin(), spatial.end());
  Expr y = normalized(reshape(x, grouped), 2, epsilon);
  Expr scale = arg(c, 1), bias = arg(c, 2);
  if (c.opset() < 21) {  // one scale for each group
    return {reshape(y * along(scale, 1, y.rank()) + along(bias, 1, y.rank()), dims)};
  }
  y = reshape(y, dims);
  return {y * along(scale, 1, y.rank()) + along(bias, 1, y.rank())};
}

Values local_response_normalization(Call& c) {
  int64_t size = c.integer("size");
  if (size < 1) c.fail("E145", cat("size must be >=1, is ", size));
  double alpha = c.number("alpha", 1e-4f), beta = c.number("beta", 0.75f), bias = c.number("bias", 1);
  return {local_response_normalized(arg(c, 0), size, alpha, beta, bias)};
}

/// Adds the embeddings of words, positions and segments and normalises the sum; `table(i)` gives input i as floats.
template <class Table>
Values embedded(Call& c, Value position_ids, const Table& table) {
  Expr ids = arg(c, 0), positions = table(3);
  Expr sum = gather(table(2), ids);
  sum = sum + (position_ids ? gather(positions, {&c, position_ids}) : slice(positions, 0, 0, ids.dims()[1]));
  if (c.has_input(1) && c.has_input(4)) sum = sum + gather(table(4), arg(c, 1));
  Expr y = normalized(sum, 2, c.number("epsilon", 1e-12f)) * table(5) + table(6);
  if (!c.wants_output(1)) return {y, {}, sum};
  // The number of valid tokens of each sequence; 0 if the node has no mask.
  Expr counts = full(c, DType::i32, {ids.dims()[0]}, 0);
  if (c.has_input(7)) counts = reduce(ReduceFn::sum, convert(arg(c, 7), DType::i32), {1}, false);
  return {y, counts, sum};
}

Values embed_layer_normalization(Call& c) {
  c.ignore("mask_index_type");  // as onnxruntime does
  return embedded(c, c.optional_input(8), [&](size_t i) { return arg(c, i); });
}

/// Imports QEmbedLayerNormalization: tables are bytes with scales in inputs 8 to 12 and zero points in inputs 13 to 17.
Values quantized_embed_layer_normalization(Call& c) {
  return embedded(c, {}, [&](size_t i) {
    auto scalar = [&](size_t k) { return reshape(arg(c, k), {}); };
    return Expr{&c, c.emit(Dequantize{.axis = 0}, {arg(c, i), scalar(i + 6), scalar(i + 11)})};
  });
}

Values skip_normalization(Call& c, bool centred) {
  Expr x = arg(c, 0), sum = x + broadcast(arg(c, 1), x.dims());
  size_t beta = centred ? 3 : 0, bias = centred ? 4 : 3;
  if (c.has_input(bias)) sum = sum + arg(c, bias);
  Expr y = normalized(sum, sum.rank() - 1, c.number("epsilon", 1e-12f), centred) * arg(c, 2);
  if (beta && c.has_input(beta)) y = y + arg(c, beta);
  if (c.wants_output(1) || c.wants_output(2))
    c.unsupported("with outputs 1 and 2 (mean and deviation) is not supported");
  return {y, {}, {}, sum};
}

constexpr Operator network_table[] = {
#include "frontends/onnx/ops/network.def"
};

}  // namespace

std::span<const Operator> network_operators() { return network_table; }

}  // namespace weft::onnx
