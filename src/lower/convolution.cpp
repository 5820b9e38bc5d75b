// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/error.h"
#include "lower/cpu/mac.h"
#include "lower/cpu/winograd.h"
#include "lower/gpu/products.h"
#include "lower/lowering.h"
#include "lower/window.h"
#include "ops/dot.h"

namespace weft {
namespace {

/// Returns the sizes of the spatial axes of a channels-last tensor.
Dims spatial(const Dims& dims) { return {dims.begin() + 1, dims.end() - 1}; }

Dim per_group(const Dim& channels, const Dim& groups) {
  return exact_divide(channels, groups).value_or(floordiv(channels, groups));
}

/// Returns the geometry. Takes channels from the weights: their sizes are constant more often than those of the input.
Window convolution_window(const Instruction& i) {
  const auto& op = *i.as<Convolution>();
  const Dims &x = i.inputs[0].dims(), &w = i.inputs[1].dims(), &y = i.types[0].shape.dims;
  Dim groups = op.groups, all = per_group(w[0], groups);
  return {.batch = x[0],
          .groups = groups,
          .channels_in = op.transposed ? all : w[1],
          .channels_out = op.transposed ? w[1] : all,
          .in = spatial(x),
          .out = spatial(y),
          .kernel = {w.begin() + 2, w.end()},
          .stride = as_dims(op.strides),
          .dilation = as_dims(op.dilations),
          .pad = op.pads_begin,
          .pixel = (op.transposed ? all : w[1]) * groups,
          .transposed = op.transposed};
}

bool all_are(const Dims& dims, int64_t value) {
  return std::ranges::all_of(dims, [&](const Dim& dim) { return known_equal(dim, value); });
}

/// True for a 1 x 1 kernel with stride 1, one group and no padding, which is a matrix product over pixels.
bool is_matrix_product(const Window& w, const Convolution& op) {
  return all_are(w.kernel, 1) && all_are(w.stride, 1) && all_are(w.pad, 0) && all_are(op.pads_end, 0) &&
         known_equal(w.groups, 1) && !w.transposed;
}

/// Numbers of input and output channels of one group.
struct GroupChannels {
  int64_t in, out;
};

/// Returns a group's channels if kernels/depthwise.h supports them: 1 in, 1 out; on CPUs also small groups of floats.
std::optional<GroupChannels> depthwise_channels(const Lowering& lowering, const Instruction& i, const Window& w) {
  bool is_one_group = known_equal(w.groups, 1),
       is_one = known_equal(w.channels_in, 1) && known_equal(w.channels_out, 1);
  if (i.inputs.size() > 2 || (w.transposed && is_one_group)) return std::nullopt;
  if (is_one) return GroupChannels{1, 1};
  bool is_known = w.channels_in.is_constant() && w.channels_out.is_constant();
  if (lowering.on_gpu() || w.transposed || is_one_group || !is_known || !is_float(i.inputs[0].dtype()))
    return std::nullopt;
  int64_t in = w.channels_in.value(), out = w.channels_out.value(), lanes = lowering.tile().lanes;
  auto is_share = [](int64_t channels) { return channels == 1 || channels == 2 || channels == 4 || channels == 8; };
  bool fits = out <= lanes && (in == out || lanes / out * in >= 2);
  if (!is_share(in) || !is_share(out) || in > out || !fits) return std::nullopt;
  return GroupChannels{in, out};
}

/// True if the kernel can read pixels in place: they have the Mac's type, and the channels of a group, the distance
/// between pixels and the offset are multiples of the Mac's group.
bool reads_pixels(const Window& w, const Mac& mac, const View& x) {
  return x.dtype == mac.direct && w.channels_in.is_multiple_of(mac.group) && w.pixel.is_multiple_of(mac.group) &&
         x.offset.is_multiple_of(mac.group);
}

/// Returns the distance in elements between neighbouring taps, if it is the same for all taps.
std::optional<Dim> tap_stride(const View& weights) { return even_stride(weights, 2, weights.dims.size()); }

/// True for two-dimensional windows that span at most five pixels along each axis, dilation included.
bool has_short_reach(const Window& w) {
  bool is_short = w.in.size() == 2;
  for (size_t i = 0; i < w.kernel.size(); ++i) is_short &= ((w.kernel[i] - Dim(1)) * w.dilation[i]).upper_bound() <= 4;
  return is_short;
}

/// True if the channels fill whole tiles of AMX.
bool fills_units(const Window& w, const Mac& mac) { return w.channels_in.is_multiple_of(tasks::amx_side * mac.group); }

/// Returns how the kernel reads its input (kernels/conv.h, conv_padded.h): in place by taps ("Direct") or lines of taps
/// ("Lines"), as im2col of few channels ("Im2col"), as a padded copy ("Padded"), or as converted copies ("Filled").
std::string mode_of(const Window& w, const Mac& mac, const View& x, const View& weights, size_t epilogue) {
  bool few = w.channels_in.is_constant() && w.channels_in.value() < 32;
  bool lines = few && known_equal(w.pixel, w.channels_in) && known_equal(w.groups, 1) &&
               known_equal(w.dilation.back(), 1) && !w.transposed;
  Dim patch = w.taps() * w.channels_in, line = w.kernel.back() * w.channels_in;
  bool one_step = patch.is_constant() && patch.value() <= 2 * mac.tile.deep * mac.group;
  bool im2col = lines && one_step && mac.header == 0 && tap_stride(weights);
  if (!reads_pixels(w, mac, x)) return im2col && !w.channels_in.is_multiple_of(mac.group) ? "Im2col" : "Filled";
  // AMX multiplies 16 units of a line at once, so it would be partly idle if lines were no multiple of 16 units.
  if (im2col && mac.tile.amx && !line.is_multiple_of(16 * mac.group)) return "Im2col";
  // With im2col, each sum runs over contiguous elements. Short sums then go from registers to the epilogue, which is
  // faster (measured with AVX2) if the columns fill panels.
  if (im2col && mac.tile.lanes == 8 && w.channels_out.lower_bound() >= mac.tile.nr() && mac.is_short(patch, epilogue))
    return "Im2col";
  if (lines) return "Lines";
  // AMX loads rows that are at equal distances, as the rows of a padded copy are.
  bool has_runs = known_equal(w.dilation.back(), 1) || fills_units(w, mac);
  return mac.tile.amx && !w.transposed && has_runs && has_short_reach(w) ? "Padded" : "Direct";
}

/// Strides of weights [out, in / groups, taps...] or (transposed) [in, out / groups, taps...].
struct WeightStrides {
  Dim group, out, in;
  Dims taps;
};
WeightStrides weight_strides(const Window& w, const View& weights) {
  Dims taps(weights.strides.begin() + 2, weights.strides.end());
  if (w.transposed) return {weights.strides[0] * w.channels_in, weights.strides[1], weights.strides[0], taps};
  return {weights.strides[0] * w.channels_out, weights.strides[0], weights.strides[1], taps};
}

/// Copies weights with all taps as one axis. `order` of the result's axes: taps t, input channels i of a group, output
/// channels o.
View weights_in_order(Lowering& lowering, const Window& w, Value value, std::string_view order, const char* why) {
  View from = lowering.view_of(value);
  if (!tap_stride(from)) from = lowering.contiguous_view_of(value);
  bool input_first = w.transposed && known_equal(w.groups, 1);
  View to{from.buffer, from.dtype, {}, {}, from.offset};
  for (char axis : order) {
    to.dims.push_back(axis == 't' ? w.taps() : axis == 'i' ? w.channels_in : w.groups * w.channels_out);
    to.strides.push_back(axis == 't' ? *tap_stride(from) : from.strides[(axis == 'o') == input_first ? 1 : 0]);
  }
  return lowering.copy_of(to, value, why);
}

/// The weights that form one run of k in packed weights: weights of a tap, a line of taps, or all taps (im2col).
enum class Run { tap, line, window };

/// Makes the taps of a run and their channels one axis k, in the window and in the weights. Run::line is for
/// two-dimensional kernels.
View weights_by_runs(Lowering& lowering, Window& w, Value value, Run run) {
  bool by_lines = run == Run::line;
  View weights = weights_in_order(lowering, w, value, "oti", by_lines ? "weights by lines" : "weights for im2col");
  Dim size = w.taps() * w.channels_in, lines = by_lines ? w.kernel[0] : 1;
  w.channels_in = by_lines ? w.kernel[1] * w.channels_in : size;
  w.kernel = Dims(w.kernel.size(), 1);
  w.kernel[0] = lines;
  weights.dims = {weights.dims[0], w.channels_in};
  weights.strides = {size, 1};
  if (!by_lines) return weights;
  weights.dims.insert(weights.dims.end(), {lines, 1});
  weights.strides.insert(weights.strides.end(), {w.channels_in, 0});
  return weights;
}

/// Packs the weights; each run counts as a tap. For Winograd, packs them for each position of the transformed tile.
View packed_weights(Lowering& lowering, Window w, const Mac& mac, Value value, const WinogradChoice& winograd,
                    Run run = Run::tap) {
  View from = run == Run::tap ? lowering.view_of(value) : weights_by_runs(lowering, w, value, run);
  WeightStrides strides = weight_strides(w, from);
  bool load_time = is_fixed(from) && lowering.is_load_time(value);
  int multiple = run == Run::tap ? 1 : tasks::patch_multiple(mac.tile);
  Dim units = ceildiv(w.channels_in, mac.group * multiple) * Dim(multiple),
      positions = (winograd.out + 2) * (winograd.out + 2);
  Dim depth = w.kernel.size() > 2 ? w.kernel[0] : Dim(1);
  Dim elements = w.groups * (winograd.out > 0 ? positions * mac.packed_elements(w.channels_out, depth * units)
                                              : mac.packed_elements(w.channels_out, w.taps() * units));
  View to = lowering.new_packed(mac.packed, elements, load_time, cat("packed ", value.source()));
  KernelBuilder kernel(winograd.out > 0 ? "winograd.h" : "pack.h");
  std::string src = kernel.buffer(from.buffer, from.dtype, false), out = kernel.buffer(to.buffer, mac.packed, true);
  kernel.line("const PackB p{.batch = ", kernel.number(w.groups), ", .n = ", kernel.number(w.channels_out),
              ", .k = ", kernel.number(w.channels_in), ", .stride_batch = ", kernel.number(strides.group),
              ", .stride_k = ", kernel.number(strides.in), ", .stride_n = ", kernel.number(strides.out),
              ", .taps = ", triple(kernel, w.kernel), ", .stride_tap = ", triple(kernel, strides.taps, "0"),
              multiple > 1 ? cat(", .multiple = ", multiple) : "", "};");
  kernel.line(winograd.out > 0 ? "pack_winograd<" : "pack_b<", mac.name, ", ", mac.tile_name,
              winograd.out > 0 ? ", " : "", winograd.form, ">(WEFT_LAUNCH, p, raw(", src, ") + ",
              kernel.number(from.offset), ", raw(", out, "));");
  kernel.set_tasks(
      cat(kernel.number(w.groups), " * tasks::ceil_div(", kernel.number(w.channels_out), ", ", mac.tile.nr(), ")"));
  PlanStep step = kernel.finish(lowering.plan(), cat("pack_", mac.packed));
  step.source = value.source();
  step.bytes = elements * Dim(bits(mac.packed) / 4);
  lowering.add_step(std::move(step), load_time ? "weights packed once" : "weights packed for the convolution kernel",
                    load_time);
  return lowering.shared(to);
}

/// Returns the accumulator type: f32 for floats of 16 or 32 bits, i32 for u8, i8 and i16; nothing for other types.
std::optional<DType> depthwise_sum(const Instruction& i) {
  auto is_narrow_float = [](DType type) { return is_float(type) && bits(type) <= 32 && bits(type) >= 16; };
  if (is_narrow_float(i.inputs[0].dtype()) && is_narrow_float(i.inputs[1].dtype())) return DType::f32;
  return has_short_product(i) ? std::optional(DType::i32) : std::nullopt;
}

/// True if there are so few output channels that kernels/conv_few.h beats a matrix product with mostly unused columns.
bool has_few_channels(const Lowering& lowering, const Instruction& i, const Window& w) {
  constexpr int64_t least_summed = 64;
  int lanes = lowering.tile().lanes;
  bool is_long = w.channels_in.lower_bound() >= lanes && (w.taps() * w.channels_in).lower_bound() >= least_summed;
  return i.inputs.size() == 2 && known_equal(w.groups, 1) && w.channels_out.upper_bound() <= std::min(4, lanes / 2) &&
         w.channels_out.is_constant() && is_long && depthwise_sum(i) == DType::f32;
}

/// Emits the store lambda. `row`: index of an output pixel of all images; `channel`: index of a channel of all groups.
void emit_store(Lowering& lowering, KernelBuilder& kernel, const Region& region, DType sum) {
  size_t rank = region.dims.size();
  kernel.line("  constexpr int W = lanes_of<decltype(acc)>;");
  lowering.emit_epilogue(kernel, region,
                         {.dims = region.dims, .group_begin = {0, rank - 1}, .coordinates = {"row", "channel"}}, "acc",
                         sum);
}

Dim work(const Window& w) { return w.rows() * w.groups * w.channels_out * w.channels_in * w.taps() * Dim(2); }

void lower_as_matrix_product(Lowering& lowering, const Region& region, const Window& w, const Mac& mac, const View& x) {
  View packed = packed_weights(lowering, w, mac, region.anchor->inputs[1], {});
  bool in_place = reads_pixels(w, mac, x);
  KernelBuilder kernel("gemm.h");
  std::string m = rows_text(kernel, w), n = kernel.number(w.channels_out), k = kernel.number(w.channels_in);
  std::string a = kernel.buffer(x.buffer, x.dtype, false), b = kernel.buffer(packed.buffer, mac.packed, false),
              offset = kernel.number(x.offset);
  mac.share(kernel);
  kernel.line("constexpr auto tile = ", mac.tile_name, ";");
  kernel.line("gemm<", mac.name, mac.is_short(w.channels_in, region.epilogue.size()) ? ", tile, true" : ", tile",
              ">(WEFT_LAUNCH, {1, ", m, ", ", n, ", ", k, "},");
  if (in_place) {
    kernel.line("    DirectRows{[&](i64) WEFT_LAMBDA { return ", mac.units_at(cat("raw(", a, ") + ", offset)), "; }, ",
                kernel.number(*exact_divide(w.pixel, mac.group)), "},");
  } else {
    kernel.line("    FilledRows{[&](i64, i64 row, i64 c, auto lanes) WEFT_LAMBDA { return load<fill_lanes<", mac.name,
                ">>(", a, " + ", offset, " + row * ", kernel.number(w.pixel), " + c, lanes); }},");
  }
  kernel.line("    [&](i64) WEFT_LAMBDA { return raw(", b, "); },");
  kernel.line(
      "    [=](i64, [[maybe_unused]] i64 row, [[maybe_unused]] i64 channel, auto acc, auto lanes) WEFT_LAMBDA {");
  emit_store(lowering, kernel, region, mac.sum);
  kernel.line("});");
  std::string arguments =
      cat("(", mac.tile_name, ", 1, ", m, ", ", n, ", tasks::gemm_units(", k, ", ", mac.group, "), ", !in_place);
  kernel.set_tasks(cat("tasks::gemm_blocks", arguments, ").tasks"),
                   cat("tasks::gemm_scratch", arguments, ", ", mac.scratch_bytes(), ")"));
  PlanStep step = kernel.finish(lowering.plan(), cat("conv1x1_", mac.packed));
  step.flops = work(w);
  lowering.add_step(std::move(step), "a 1x1 convolution of stride 1 is a matrix product over pixels");
}

/// Declares the depthwise tiles whose compiled code kernels share: tiles for any window, and with one output channel
/// per group also tiles for the widths and strides in tasks::depthwise_forms.
void share_tiles(KernelBuilder& kernel, const GroupChannels& channels, DType sum, DType x, DType weights) {
  kernel.share("depthwise.h", cat("GroupTiles<", channels.in, ", ", channels.out, ", ", kernel_type(sum), ", ",
                                  kernel_type(x), ", ", kernel_type(weights), ">"));
  if (channels.out > 1) return;
  for (auto [taps, stride] : tasks::depthwise_forms) {
    kernel.share("depthwise.h", cat("DepthwiseTiles<", taps, ", ", stride, ", ", kernel_type(sum), ", ", kernel_type(x),
                                    ", ", kernel_type(weights), ">"));
  }
}

/// Arguments of depthwise_line (kernels/depthwise.h): channels of a thread, kernel width, stride, pixels of a thread.
struct DepthwiseLine {
  int lanes, taps, step, pixels;
};

/// Chooses the most pixels per thread that still leave enough threads. Returns nothing on a CPU, and for windows or
/// channels that depthwise_line does not support.
std::optional<DepthwiseLine> depthwise_line(const Lowering& lowering, const Window& w, const View& x, DType weights) {
  int64_t lanes = std::min(tasks::vector_bits / std::max(bits(x.dtype), bits(weights)), 8);
  bool whole = w.groups.is_multiple_of(lanes) && w.pixel.is_multiple_of(lanes) && x.offset.is_multiple_of(lanes);
  const Dim &taps = w.kernel.back(), &step = w.stride.back();
  if (!lowering.on_gpu() || w.transposed || !whole || !known_equal(w.dilation.back(), 1) || !taps.is_constant() ||
      !step.is_constant())
    return std::nullopt;
  bool is_known =
      (taps.value() == 3 || taps.value() == 5 || taps.value() == 7) && step.value() >= 1 && step.value() <= 2;
  if (!is_known) return std::nullopt;
  DepthwiseLine line{static_cast<int>(lanes), static_cast<int>(taps.value()), static_cast<int>(step.value()),
                     step.value() == 1 ? 4 : 2};
  int64_t items = typical_size(w.rows() * w.groups) / lanes, wanted = int64_t{1024} * lowering.compute_units();
  while (line.pixels > 1 && items / line.pixels < wanted) line.pixels /= 2;
  return line;
}

void lower_depthwise(Lowering& lowering, const Region& region, const Window& w, const View& x,
                     const GroupChannels& channels, DType sum) {
  View weights = weights_in_order(lowering, w, region.anchor->inputs[1], "tio", "depthwise weights with channels last");
  KernelBuilder kernel("depthwise.h");
  std::string a = kernel.buffer(x.buffer, x.dtype, false), b = kernel.buffer(weights.buffer, weights.dtype, false);
  if (!lowering.on_gpu() && !w.transposed) share_tiles(kernel, channels, sum, x.dtype, weights.dtype);
  kernel.line("const ConvSizes s", window_text(kernel, w), ";");
  auto line = depthwise_line(lowering, w, x, weights.dtype);
  std::string function =
      line ? cat("depthwise_line<", sum, ", ", line->lanes, ", ", line->taps, ", ", line->step, ", ", line->pixels, ">")
           : cat("depthwise<", sum, channels.out > 1 ? cat(", ", channels.in, ", ", channels.out) : "", ">");
  kernel.line(function, "(WEFT_LAUNCH, s, raw(", a, ") + ", kernel.number(x.offset), ", raw(", b,
              "), [&]([[maybe_unused]] i64 row, [[maybe_unused]] i64 channel, auto acc, auto lanes) WEFT_LAMBDA {");
  emit_store(lowering, kernel, region, sum);
  kernel.line("});");
  if (line) {
    Dim tiles = ceildiv(w.out.back(), line->pixels), lines = w.batch * product(Dims(w.out.begin(), w.out.end() - 1));
    lowering.set_items(kernel, lines * tiles * *exact_divide(w.groups, line->lanes), "");
  } else {
    set_pixel_grid(lowering, kernel, w, w.groups * w.channels_out);
  }
  PlanStep step = kernel.finish(lowering.plan(), cat("depthwise_", x.dtype));
  step.flops = work(w);
  std::string why = channels.out > 1
                        ? cat(channels.in, " to ", channels.out, " channels a group: vectors of whole groups")
                    : line ? cat("one channel a group: ", line->pixels, " pixels of vectors of channels")
                           : "one channel a group: vectors along the channels";
  lowering.add_step(std::move(step), why);
}

void lower_few(Lowering& lowering, const Region& region, const Window& w, const View& x) {
  View weights = weights_in_order(lowering, w, region.anchor->inputs[1], "toi", "weights with input channels last");
  KernelBuilder kernel("conv_few.h");
  std::string a = kernel.buffer(x.buffer, x.dtype, false), b = kernel.buffer(weights.buffer, weights.dtype, false);
  kernel.line("const ConvSizes s", window_text(kernel, w), ";");
  kernel.line("conv_few<", w.channels_out.value(), ">(WEFT_LAUNCH, s, raw(", a, ") + ", kernel.number(x.offset),
              ", raw(", b, "), [&]([[maybe_unused]] i64 row, [[maybe_unused]] i64 channel, auto acc, ",
              "[[maybe_unused]] auto lanes) WEFT_LAMBDA {");
  emit_store(lowering, kernel, region, DType::f32);
  kernel.line("});");
  kernel.set_tasks(cat("few_tasks(ConvSizes", window_text(kernel, w), ")"));
  PlanStep step = kernel.finish(lowering.plan(), cat("conv_few_", x.dtype));
  step.flops = work(w);
  lowering.add_step(std::move(step), cat(w.channels_out.value(), " output channels: vectors along the input's"));
}

/// Returns the text of the padding value, in the stored type of the pixels.
std::string outside_text(Lowering& lowering, KernelBuilder& kernel, const Region& region, DType pixels) {
  const auto& inputs = region.anchor->inputs;
  if (inputs.size() < 3) return cat(kernel_type(pixels), "(0)");
  View value = lowering.view_of(inputs[2]);
  return cat(kernel.buffer(value.buffer, value.dtype, false), "[", kernel.size(value.offset), "]");
}

void lower_winograd(Lowering& lowering, const Region& region, const Window& w, const WinogradChoice& choice,
                    const View& x) {
  const Mac& mac = choice.mac;
  View packed = packed_weights(lowering, w, mac, region.anchor->inputs[1], choice);
  KernelBuilder kernel("winograd.h");
  std::string a = kernel.buffer(x.buffer, x.dtype, false), b = kernel.buffer(packed.buffer, mac.packed, false);
  mac.share(kernel);
  kernel.line("constexpr auto tile = ", mac.tile_name, ";");
  kernel.line("const ConvSizes s", window_text(kernel, w), ";");
  kernel.line("winograd<", mac.name, ", tile, ", choice.form, ">(WEFT_LAUNCH, s, raw(", a, ") + ",
              kernel.number(x.offset), ", raw(", b, "), ", outside_text(lowering, kernel, region, x.dtype), ",");
  kernel.line("    [&](i64 group, [[maybe_unused]] i64 row, i64 col, auto acc, auto lanes) WEFT_LAMBDA {");
  kernel.line("  [[maybe_unused]] const i64 channel = group * s.channels_out + col;");
  emit_store(lowering, kernel, region, mac.sum);
  kernel.line("});");
  bool has_depth = w.kernel.size() > 2;
  std::string depth = has_depth ? kernel.number(w.kernel[0]) : "1";
  std::string planes = cat(kernel.number(w.batch), has_depth ? cat(" * ", kernel.number(w.out[0])) : "");
  std::string arguments =
      cat("(", mac.tile_name, ", ", choice.out, ", ", planes, ", ", kernel.number(w.out[w.out.size() - 2]), ", ",
          kernel.number(w.out.back()), ", ", kernel.size(w.groups), ", ", kernel.number(w.channels_out), ", ", depth,
          " * tasks::gemm_units(", kernel.number(w.channels_in), ", ", mac.group, ") * ", mac.unit_bytes() / 4, ")");
  kernel.set_tasks(cat("tasks::winograd_blocks", arguments, ".tasks"), cat("tasks::winograd_scratch", arguments));
  PlanStep step = kernel.finish(lowering.plan(), cat("winograd", choice.out, "_", mac.packed));
  step.flops = work(w);
  lowering.add_step(std::move(step), choice.why);
}

/// Sets the number of tasks and the scratch memory of conv_padded, or of `conv` in its other modes.
void set_general_tasks(KernelBuilder& kernel, const Window& w, const Mac& mac, const std::string& mode) {
  if (mode == "Padded") {
    std::string form = cat("<", mac.name, ", ", mac.tile_name, ">(ConvSizes", window_text(kernel, w), ")");
    return kernel.set_tasks(cat("padded_blocks", form, ".tasks"), cat("padded_scratch", form));
  }
  // In mode Lines, one tap covers a line of the kernel; in mode Im2col, it covers the whole kernel (kernels/conv.h).
  bool lines = mode == "Lines", whole = mode == "Im2col";
  Window outer = w;
  outer.kernel = whole ? Dims(w.kernel.size(), 1) : lines ? Dims(w.kernel.begin(), w.kernel.end() - 1) : w.kernel;
  Dim run = whole ? w.taps() * w.channels_in : lines ? w.kernel.back() * w.channels_in : w.channels_in;
  std::string taps = taps_text(kernel, outer),
              units = whole ? cat("tasks::patch_units(", mac.tile_name, ", ", kernel.number(run), ", ", mac.group, ")")
                            : cat("tasks::gemm_units(", kernel.number(run), ", ", mac.group, ")");
  // The kernel walks the rows of a transposed convolution phase by phase, so their number is phased_rows().
  std::string rows = w.transposed && mode == "Direct" ? cat("(ConvSizes", window_text(kernel, w), ").phased_rows()")
                                                      : rows_text(kernel, w);
  std::string arguments = cat("(", mac.tile_name, ", tasks::ConvMode::", mode, ", ", kernel.size(w.groups), ", ", rows,
                              ", ", kernel.number(w.channels_out), ", ", taps, ", ", units);
  kernel.set_tasks(cat("tasks::conv_blocks", arguments, ").gemm.tasks"),
                   cat("tasks::conv_scratch", arguments, ", ", mac.scratch_bytes(), ")"));
}

void lower_general(Lowering& lowering, const Region& region, const Window& w, Mac mac, const View& x,
                   const std::string& why) {
  size_t epilogue = region.epilogue.size();
  std::string mode = mode_of(w, mac, x, lowering.view_of(region.anchor->inputs[1]), epilogue);
  bool padded = mode == "Padded";
  if (padded && w.channels_out.upper_bound() <= tasks::amx_narrow_tile.nr()) {
    mac.tile = tasks::amx_narrow_tile;
    mac.tile_name = "tasks::amx_narrow_tile";
  }
  // If the channels fill tiles of AMX, they need no padding with zeros, so each tap can be a run.
  Run run = mode == "Im2col" ? Run::window : padded && !fills_units(w, mac) ? Run::line : Run::tap;
  View packed = packed_weights(lowering, w, mac, region.anchor->inputs[1], {}, run);
  KernelBuilder kernel(padded ? "conv_padded.h" : "conv.h");
  std::string a = kernel.buffer(x.buffer, x.dtype, false), b = kernel.buffer(packed.buffer, mac.packed, false);
  mac.share(kernel);
  kernel.line("constexpr auto tile = ", mac.tile_name, ";");
  kernel.line("const ConvSizes s", window_text(kernel, w), ";");
  std::string function = padded ? "conv_padded<" : "conv<", form = padded ? "" : cat(", ConvMode::", mode);
  if (mode == "Im2col" && mac.is_short(w.taps() * w.channels_in, epilogue)) form += ", true";
  kernel.line(function, mac.name, ", tile", form, ">(WEFT_LAUNCH, s, raw(", a, ") + ", kernel.number(x.offset),
              ", raw(", b, "), ", outside_text(lowering, kernel, region, x.dtype), ",");
  kernel.line("    [=](i64 group, [[maybe_unused]] i64 row, i64 col, auto acc, auto lanes) WEFT_LAMBDA {");
  kernel.line("  [[maybe_unused]] const i64 channel = group * s.channels_out + col;");
  emit_store(lowering, kernel, region, mac.sum);
  kernel.line("});");
  set_general_tasks(kernel, w, mac, mode);
  PlanStep step = kernel.finish(lowering.plan(), cat("conv_", mac.packed));
  step.flops = work(w);
  lowering.add_step(std::move(step), cat("implicit matrix product, mode ", mode, why.empty() ? "" : "; ", why));
}

}  // namespace

void lower_convolution(Lowering& lowering, const Region& region) {
  const Instruction& i = *region.anchor;
  const auto& op = *i.as<Convolution>();
  check(op.layout == Layout::channels_last, "convolutions are channels-last when they are lowered");
  Window w = convolution_window(i);
  check_spatial_rank(w.in.size(), "convolution");
  auto channels = depthwise_channels(lowering, i, w);
  auto sum = channels ? depthwise_sum(i) : std::nullopt;
  if (lowering.on_gpu() && !sum) return lower_convolution_on_gpu(lowering, region, w);
  View x = lowering.pixel_view_of(i.inputs[0]);
  w.pixel = pixel_stride(x);
  if (sum) return lower_depthwise(lowering, region, w, x, *channels, *sum);
  if (has_few_channels(lowering, i, w)) return lower_few(lowering, region, w, x);
  Mac mac = mac_for(lowering, i);
  if (is_matrix_product(w, op)) return lower_as_matrix_product(lowering, region, w, mac, x);
  WinogradChoice winograd = choose_winograd(lowering, i, w, mac, x);
  if (winograd.out > 0) return lower_winograd(lowering, region, w, winograd, x);
  lower_general(lowering, region, w, mac, x, winograd.why);
}

}  // namespace weft
