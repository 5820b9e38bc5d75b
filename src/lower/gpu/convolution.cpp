// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/error.h"
#include "lower/gpu/products.h"
#include "lower/product.h"
#include "lower/window.h"
#include "ops/dot.h"

namespace weft {
namespace {

/// Reorders weights [out, in / g, taps...] or [in, out / g, taps...] to [group][channel out][tap][channel in].
View weights_by_tap(Lowering& lowering, const Window& w, Value value, DType type) {
  View from = lowering.contiguous_view_of(value);
  Dim taps = w.taps();
  View by_tap{from.buffer, from.dtype, {w.groups, w.channels_out, taps, w.channels_in}, {}, from.offset};
  Dim inner = w.transposed ? w.channels_out : w.channels_in;  // second axis of the source
  Dim first = inner * taps;
  by_tap.strides =
      w.transposed ? Dims{w.channels_in * first, taps, 1, first} : Dims{w.channels_out * first, first, 1, taps};
  return lowering.copy_of(by_tap, value, "weights with the channels of a tap side by side",
                          is_float(type) ? type : from.dtype);
}

/// Copies pixels to a dense view of `type` whose channels are padded with zeros to `to`, a multiple of `lanes`; a
/// thread writes `lanes` channels at once.
View padded_channels(Lowering& lowering, const View& from, Value value, int64_t to, int lanes, DType type) {
  bool load_time = lowering.is_load_time(value) && is_fixed(from);
  size_t rank = from.dims.size();
  Dim pixels = product({from.dims.begin(), from.dims.end() - 1}), items = pixels * Dim(to / lanes);
  View out = lowering.new_packed(type, pixels * Dim(to), load_time, cat("padded ", value.source()));
  KernelBuilder kernel("pointwise.h");
  std::string count = kernel.size(items), x = kernel.buffer(from.buffer, from.dtype, false),
              offset = kernel.number(from.offset), channels = kernel.number(from.dims[rank - 1]),
              stride = kernel.number(from.strides[rank - 1]), y = kernel.buffer(out.buffer, type, true);
  std::string at_pixel = batch_offset(kernel, leading(from, rank - 1), "pixel"), t = kernel_type(type);
  kernel.line("constexpr int W = ", lanes, ", pieces = ", to / lanes, ";");
  kernel.line("for_items(WEFT_LAUNCH, ", count, ", [&](i64 item) WEFT_LAMBDA {");
  kernel.line("  [[maybe_unused]] const i64 pixel = item / pieces, channel = item % pieces * W;");
  kernel.line("  const i64 first = ", offset, " + ", at_pixel, " + channel * ", stride, ";");
  kernel.line("  Vec<", t, ", W> v{};");
  kernel.line("  WEFT_UNROLL for (int c = 0; c < W; c++) {");
  kernel.line("    if (channel + c < ", channels, ") set_lane(v, c, convert<", t, ">(", x, "[first + c * ", stride,
              "]));");
  kernel.line("  }");
  kernel.line("  store(", y, " + item * W, v, Full{});");
  kernel.line("});");
  lowering.set_items(kernel, items, "1");
  PlanStep step = kernel.finish(lowering.plan(), cat("pad_channels_", type));
  step.source = value.source();
  step.bytes = pixels * Dim(to * (bits(type) / 8 + bits(from.dtype) / 8));
  lowering.add_step(std::move(step), "pads channels to 16 bytes, so that no copy crosses a tap", load_time);
  View result{lowering.shared(out).buffer, type, from.dims, {}, 0};
  result.dims.back() = to;
  result.strides = contiguous_strides(result.dims);
  return result;
}

/// Returns a view of the padding value repeated `lanes` times; nothing if it is zero.
std::optional<View> outside_vector(Lowering& lowering, const Instruction& convolution, int lanes) {
  if (convolution.inputs.size() < 3) return std::nullopt;
  Value value = convolution.inputs[2];
  View one = lowering.view_of(value);
  return lowering.copy_of({one.buffer, one.dtype, {lanes}, {0}, one.offset}, value, "a vector of the zero point");
}

/// The operands and parameters of a convolution kernel.
struct GpuConvolution {
  Window w;
  DirectConvolution operands;
  bool whole, direct;
  std::optional<View> outside;
};

/// Returns "3x3 stride 2x2 of 56x56": what affects a convolution's time besides the sizes of its matrix product.
std::string geometry_text(const Window& w) {
  auto text = [](const Dims& sizes) {
    std::string line;
    for (const Dim& size : sizes) line += cat(line.empty() ? "" : "x", typical_size(size));
    return line;
  };
  std::string dilation = text(w.dilation);
  bool is_dilated = dilation.find_first_not_of("1x") != dilation.npos;
  return cat(text(w.kernel), " stride ", text(w.stride), is_dilated ? cat(" dilation ", dilation) : "", " of ",
             text(w.in), w.transposed ? " transposed" : "");
}

Iteration iteration_of(const Region& region, const Window& w) {
  return {.dims = region.dims,
          .group_begin = {0, region.dims.size() - 1},
          .coordinates = {"row", "channel"},
          .whole_vectors = known_equal(w.groups, 1) || w.channels_out.is_multiple_of(8)};
}

/// Returns the columns per call of the epilogue; eight columns of f64 may need too many registers.
int epilogue_lanes(const Lowering& lowering, const Region& region) {
  auto is_wide = [](Instruction* i) { return i->result().dtype() == DType::f64; };
  return std::ranges::any_of(region.epilogue, is_wide) ? lowering.gpu().f64_lanes : 8;
}

/// Returns the call of conv_gpu with its template arguments.
std::string call_text(const GpuConvolution& c, const BlockTile& tile) {
  bool many = tile.groups && c.w.channels_in.is_constant() && c.w.channels_in.value() >= tile.depth;
  return cat("conv_gpu<", kernel_type(c.operands.type), ", ", tile_text(tile), ", ", c.whole, ", ", !many, ", ",
             c.outside.has_value(), ", W>");
}

PlanStep launch_of(Lowering& lowering, KernelBuilder& kernel, const GpuConvolution& c, const BlockTile& tile) {
  const Window& w = c.w;
  kernel.set_grid(tile_blocks(lowering, tile, c.operands.type, w.groups, w.rows(), w.channels_out),
                  tile.threads(lowering.gpu().wave), tasks::shared_bytes(tile, bits(c.operands.type)),
                  adds_parts(lowering.gpu(), tile) ? 1 : tile.split);
  if (tile.ahead) kernel.set_waits_itself();
  PlanStep step = kernel.finish(lowering.plan(), cat("conv_", c.operands.type));
  step.flops = w.rows() * w.groups * w.channels_out * w.channels_in * w.taps() * Dim(2);
  return step;
}

/// Makes the launch that computes the convolution and the epilogue of `region`, or with `parts` only stores the partial
/// sums of split k.
PlanStep convolution_step(Lowering& lowering, const Region& region, const GpuConvolution& c, const TileChoice& chosen,
                          const SplitKSums* parts = nullptr) {
  const auto& [type, x, weights] = c.operands;
  KernelBuilder kernel("conv_gpu.h");
  std::string a = kernel.buffer(x.buffer, x.dtype, false), b = kernel.buffer(weights.buffer, weights.dtype, false);
  kernel.line("constexpr int W = ", parts ? tasks::gemm_lanes : epilogue_lanes(lowering, region), ";");
  kernel.line("const ConvSizes s", window_text(kernel, c.w), ";");
  kernel.line(call_text(c, chosen.tile), "(WEFT_LAUNCH, s, raw(", a, ") + ", kernel.size(x.offset), ", raw(", b, "),");
  kernel.line(parts ? "    [&](" : "    epilogue([&](", "[[maybe_unused]] i64 at, [[maybe_unused]] i64 row, i64 col, ",
              parts ? "auto acc, " : "", "auto lanes) WEFT_LAMBDA {");
  kernel.line("  [[maybe_unused]] const i64 channel = at * s.channels_out + col;");
  if (parts) {
    store_part(kernel, *parts);
  } else {
    Iteration iteration = iteration_of(region, c.w);
    iteration.after_loads = epilogue_end;
    lowering.emit_epilogue(kernel, region, std::move(iteration), "acc", sum_type(type));
  }
  kernel.line(parts ? "}" : "  }; })",
              c.outside ? cat(", raw(", kernel.buffer(c.outside->buffer, c.outside->dtype, false), "));") : ");");
  auto with_tile = [&](const BlockTile& tile) {
    KernelBuilder same = kernel;
    same.replace(call_text(c, chosen.tile), call_text(c, tile));
    return launch_of(lowering, same, c, tile);
  };
  KernelBuilder own = kernel;
  return with_variants(launch_of(lowering, own, c, chosen.tile), chosen, with_tile);
}

/// Returns the operands in the kernel's layout; copies them if necessary.
GpuConvolution convolution_of(Lowering& lowering, const Instruction& i, Window w) {
  DType type = lowering.product_type(i);
  int lanes = tasks::vector_bits / bits(type);
  View weights = weights_by_tap(lowering, w, i.inputs[1], type), x;
  bool is_narrow =
      (bits(type) <= 16 && type != DType::i16) ||
      (type == DType::f32 && lowering.gpu().matrix == MatrixUnit::mma);  // the matrix unit supports the type
  int64_t channels = w.channels_in.constant().value_or(lanes);
  bool is_torn = is_narrow && known_equal(w.groups, 1) &&
                 (channels == 0 || channels % lanes != 0);  // a vector would span two taps
  if (is_torn) {
    int64_t whole_channels = (std::max<int64_t>(channels, 1) + lanes - 1) / lanes * lanes;
    x = padded_channels(lowering, lowering.view_of(i.inputs[0]), i.inputs[0], whole_channels, lanes, type);
    weights = padded_channels(lowering, weights, i.inputs[1], whole_channels, lanes, type);
    w.channels_in = whole_channels;
  } else {
    x = lowering.pixel_view_of(i.inputs[0]);
  }
  w.pixel = pixel_stride(x);
  bool whole = w.channels_in.is_multiple_of(lanes) && w.pixel.is_multiple_of(lanes) && x.offset.is_multiple_of(lanes);
  bool direct = whole && x.dtype == type && weights.dtype == type;
  return {std::move(w), {type, x, weights}, whole, direct, outside_vector(lowering, i, lanes)};
}

}  // namespace

void lower_convolution_on_gpu(Lowering& lowering, const Region& region, Window window) {
  const Instruction& i = *region.anchor;
  if (!window.rows().is_constant() || window.rows().value() > INT32_MAX) {
    lowering.add_check({.equal = false,
                        .a = window.rows(),
                        .b = INT32_MAX,
                        .source = i.source,
                        .what = "pixels that one convolution makes on a GPU"});
  }
  GpuConvolution c = convolution_of(lowering, i, std::move(window));
  const Window& w = c.w;
  DType type = c.operands.type;
  Dims sums_of{w.groups, w.rows(), w.channels_out};
  Dim k = w.channels_in * product(w.kernel);
  std::vector<LibraryOffer> offers;
  if (c.direct) offers = convolution_offers(lowering, region, w, c.operands);
  TileChoice chosen = choose_tile(lowering, {.type = type,
                                             .direct = c.direct,
                                             .batch = w.groups,
                                             .m = w.rows(),
                                             .n = w.channels_out,
                                             .k = k,
                                             .ahead = is_constant(lowering, c.operands.weights),
                                             .family = cat("convolution ", geometry_text(w)),
                                             .epilogue = epilogue_text(lowering, region),
                                             .offers = std::move(offers),
                                             .may_share = k.is_constant() && may_split_k(lowering, region, sums_of)});
  const BlockTile& tile = chosen.tile;
  auto spare = [&](const Region& part) { return convolution_step(lowering, part, c, {tile}); };
  if (chosen.offer) return lower_library_convolution(lowering, region, c.operands, *chosen.offer, spare);
  std::optional<SplitKSums> parts;
  if (adds_parts(lowering.gpu(), tile)) parts = new_split_k_sums(lowering, region, sum_type(type), tile, sums_of);
  lowering.add_step(convolution_step(lowering, region, c, chosen, parts ? &*parts : nullptr),
                    cat("implicit matrix product in ", describe(chosen)));
  if (parts) add_parts(lowering, region, *parts, iteration_of(region, w));
}

}  // namespace weft
