// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "base/error.h"
#include "lower/gpu/products.h"
#include "lower/product.h"
#include "lower/window.h"
#include "ops/dot.h"

namespace weft {
namespace {

/// Weights [out, in / groups, taps...], or if transposed [in, out / groups, taps...], seen as
/// [group][channel out][tap][channel in].
View weights_by_tap(const View& from, const Window& w) {
  Dim taps = w.taps();
  View by_tap{from.buffer, from.dtype, {w.groups, w.channels_out, taps, w.channels_in}, {}, from.offset};
  Dim inner = w.transposed ? w.channels_out : w.channels_in;  // second axis of the source
  Dim first = inner * taps;
  by_tap.strides =
      w.transposed ? Dims{w.channels_in * first, taps, 1, first} : Dims{w.channels_out * first, first, 1, taps};
  return by_tap;
}

/// Returns how many neighbouring groups become one group whose weights are zero between the old ones: as many as a step
/// of k has channels for. Without that, the step and the columns of a tile would be almost empty.
int64_t joined_groups(const Lowering& lowering, const Window& w, Value weights, int lanes, bool is_narrow) {
  bool is_known = w.groups.is_constant() && w.channels_in.is_constant() && w.channels_out.is_constant();
  if (!is_narrow || !is_known || !lowering.is_load_time(weights)) return 1;
  int64_t groups = w.groups.value(), most = std::max(w.channels_in.value(), w.channels_out.value()), joined = 1,
          room = (lowering.gpu().warp_groups ? 8 : 4) * lanes;
  for (int64_t count = 2; count <= groups && count * most <= room; ++count) {
    if (groups % count == 0 && count * w.channels_in.value() % lanes == 0) joined = count;
  }
  return joined;
}

/// Copies weights by tap for groups that are `joined`.
View weights_of_joined(Lowering& lowering, const View& by_tap, Value value, int64_t joined, DType type) {
  const Dim &groups = by_tap.dims[0], &out = by_tap.dims[1], &taps = by_tap.dims[2], &in = by_tap.dims[3];
  Dim row = in * Dim(joined), all = groups * out * taps * row;
  View result = lowering.new_packed(type, all, true, cat("joined groups of ", value.source()));
  KernelBuilder kernel("pointwise.h");
  std::string x = kernel.buffer(by_tap.buffer, by_tap.dtype, false), y = kernel.buffer(result.buffer, type, true),
              t = kernel_type(type), channels = kernel.number(in);
  kernel.line("for_items(WEFT_LAUNCH, ", kernel.size(all), ", [&](i64 item) WEFT_LAMBDA {");
  kernel.line("  const Division channel = divide_index(item, ", kernel.number(row), ");");
  kernel.line("  const Division tap = divide_index(channel.quotient, ", kernel.number(taps), ");");
  kernel.line("  const Division group = divide_index(tap.quotient, ", kernel.number(out), ");");
  kernel.line("  const i64 from = channel.rest - group.quotient % ", joined, " * ", channels, ";");
  kernel.line("  const bool is_own = u64(from) < u64(", channels, ");");
  std::string place = kernel.number(by_tap.offset);
  for (auto [at, axis] :
       {std::pair{"group.quotient", 0}, {"group.rest", 1}, {"tap.rest", 2}, {"(is_own ? from : 0)", 3}})
    place += cat(" + ", at, " * ", kernel.number(by_tap.strides[axis]));
  kernel.line("  const ", t, " value = convert<", t, ">(", x, "[", place, "]);");
  kernel.line("  ", y, "[item] = is_own ? value : ", t, "(0);");
  kernel.line("});");
  lowering.set_items(kernel, all, "1");
  PlanStep step = kernel.finish(lowering.plan(), "joined_groups");
  step.source = value.source();
  lowering.add_step(std::move(step), cat("weights of ", joined, " groups side by side, with zeros between"), true);
  Dims dims{floordiv(groups, joined), out * Dim(joined), taps, row};
  return {lowering.shared(result).buffer, type, dims, contiguous_strides(dims), 0};
}

/// Space to depth along each spatial axis: the channels of `block` neighbouring pixels become the channels of one
/// pixel. The `count` blocks cover the image and `pad` pixels before it.
struct PixelBlocks {
  std::vector<int64_t> block;
  Dims pad, count;
};

/// Copies pixels [batch, ..., channels] to a dense view of blocks of pixels, of element type `type`. The channels of a
/// block are padded with zeros to `to` channels, a multiple of `lanes`; pixels outside the image are zeros. A GPU
/// thread writes a block, or one vector of a large block.
View blocks_of_pixels(Lowering& lowering, const View& from, Value value, const PixelBlocks& blocks, int64_t to,
                      int lanes, DType type) {
  bool load_time = lowering.is_load_time(value) && is_fixed(from);
  size_t axes = blocks.count.size();
  int64_t channels = std::max<int64_t>(from.dims.back().value(), 1), pieces = to / lanes;
  bool is_large = pieces > 4;
  Dim all = from.dims[0] * product(blocks.count), items = is_large ? all * Dim(pieces) : all;
  View out = lowering.new_packed(type, all * Dim(to), load_time, cat("blocks of ", value.source()));
  KernelBuilder kernel("pointwise.h");
  std::string count = kernel.size(items), x = kernel.buffer(from.buffer, from.dtype, false),
              y = kernel.buffer(out.buffer, type, true), t = kernel_type(type);
  std::string place = kernel.number(from.offset), inside, pixel, is_filled = cat(from.dims.back().value(), " > 0");
  kernel.line("for_items(WEFT_LAUNCH, ", count, ", [&](i64 item) WEFT_LAMBDA {");
  kernel.line("  i64 batch = item", is_large ? cat(" / ", pieces) : "", ";");
  for (size_t a = axes; a-- > 0;) {
    kernel.line("  const Division by", a, " = divide_index(batch, ", kernel.number(blocks.count[a]), ");");
    kernel.line("  const i64 first", a, " = by", a, ".rest * ", blocks.block[a], " - ", kernel.number(blocks.pad[a]),
                ";");
    kernel.line("  batch = by", a, ".quotient;");
    pixel += cat(" const i64 at", a, " = first", a, " + left % ", blocks.block[a], "; left /= ", blocks.block[a], ";");
    std::string size = kernel.number(from.dims[a + 1]);
    inside += cat(a + 1 < axes ? " && " : "", "u64(at", a, ") < u64(", size, ")");
    is_filled += cat(" && ", size, " > 0");
    place += cat(" + most(least(at", a, ", ", size, " - 1), 0) * ", kernel.number(from.strides[a + 1]));
  }
  int held = is_large ? 1 : static_cast<int>(pieces);  // vectors of a thread
  kernel.line("  Vec<", t, ", ", lanes, "> v[", held, "] = {};");
  kernel.line("  const int first = ", is_large ? cat("int(item % ", pieces, ") * ", lanes) : "0", ";");
  kernel.line("  if (", is_filled, ") WEFT_UNROLL for (int c = 0; c < ", held * lanes, "; c++) {");
  kernel.line("    int left = first + c, channel = left % ", channels, ";");
  kernel.line("    left /= ", channels, ";", pixel);
  kernel.line("    if (left > 0) continue;");
  // For a pixel outside, the nearest inside is loaded: no load has a condition, so all are in flight.
  kernel.line("    const i64 place = ", place, " + batch * ", kernel.number(from.strides[0]), " + channel * ",
              kernel.number(from.strides.back()), ";");
  kernel.line("    const ", t, " value = convert<", t, ">(", x, "[place]);");
  kernel.line("    set_lane(v[c / ", lanes, "], c % ", lanes, ", ", inside, " ? value : ", t, "(0));");
  kernel.line("  }");
  kernel.line("  WEFT_UNROLL for (int piece = 0; piece < ", held, "; piece++) store_whole(", y, " + (item * ", held,
              " + piece) * ", lanes, ", v[piece], Full{});");
  kernel.line("});");
  lowering.set_items(kernel, items, "1");
  PlanStep step = kernel.finish(lowering.plan(), cat("pixel_blocks_", type));
  step.source = value.source();
  step.bytes = all * Dim(to * bits(type) / 8) + product(from.dims) * Dim(bits(from.dtype) / 8);
  lowering.add_step(std::move(step), "channels of blocks of pixels, so that no copy of 16 bytes crosses a tap",
                    load_time);
  View result{lowering.shared(out).buffer, type, {from.dims[0]}, {}, 0};
  result.dims.insert(result.dims.end(), blocks.count.begin(), blocks.count.end());
  result.dims.emplace_back(to);
  result.strides = contiguous_strides(result.dims);
  return result;
}

/// The operands and window of a convolution of few channels after space to depth.
struct BlockedConvolution {
  View x, weights;
  Window w;
};

/// Space to depth: makes whole vectors out of few channels, where a vector would span two taps. If possible, blocks are
/// as large as the stride, unless blocks of one pixel need fewer products. Channels are padded with zeros.
BlockedConvolution blocked(Lowering& lowering, const Instruction& i, Window w, int lanes, DType type) {
  auto is_known = [](const Dims& sizes) { return std::ranges::all_of(sizes, &Dim::is_constant); };
  auto is_one = [](const Dim& size) { return known_equal(size, 1); };
  auto whole = [&](int64_t channels) { return (std::max<int64_t>(channels, 1) + lanes - 1) / lanes * lanes; };
  size_t axes = w.in.size();
  int64_t channels = w.channels_in.value(), block = 1;
  bool is_plain = !w.transposed && i.inputs.size() == 2 && is_known(w.kernel) && is_known(w.stride) &&
                  std::ranges::all_of(w.dilation, is_one);
  for (size_t a = 0; a < axes; ++a) is_plain = is_plain && w.kernel[a].value() >= w.stride[a].value();
  PixelBlocks pixels{std::vector<int64_t>(axes, 1), Dims(axes, 0), w.in}, taps{pixels.block, pixels.pad, w.kernel};
  if (is_plain) {
    Dims fewer;
    for (size_t a = 0; a < axes; ++a) {
      fewer.push_back(ceildiv(w.kernel[a], w.stride[a]));
      block *= w.stride[a].value();
    }
    bool is_cheaper = product(fewer).value() * whole(channels * block) <= product(w.kernel).value() * whole(channels);
    for (size_t a = 0; a < axes; ++a) {
      if (is_cheaper) pixels.block[a] = taps.block[a] = w.stride[a].value();
      if (is_cheaper) w.stride[a] = 1, w.kernel[a] = fewer[a];
      pixels.count[a] = (w.out[a] - Dim(1)) * w.stride[a] + w.kernel[a];
    }
    pixels.pad = std::exchange(w.pad, Dims(axes, 0));
    taps.count = w.kernel, w.in = pixels.count;
    channels *= is_cheaper ? block : 1;
  }
  View image = lowering.view_of(i.inputs[0]), weights = lowering.view_of(i.inputs[1]);
  // With one group, a symbolic number of image channels is taken from the weights.
  if (known_equal(w.groups, 1) && !image.dims.back().is_constant()) image.dims.back() = w.channels_in;
  // Permutes [out, in, taps...] or [in, out, taps...] to [out, taps..., in].
  for (Dims* sizes : {&weights.dims, &weights.strides}) {
    if (w.transposed) std::swap((*sizes)[0], (*sizes)[1]);
    std::rotate(sizes->begin() + 1, sizes->begin() + 2, sizes->end());
  }
  w.channels_in = w.pixel = whole(channels);
  View x = blocks_of_pixels(lowering, image, i.inputs[0], pixels, whole(channels), lanes, type);
  weights = blocks_of_pixels(lowering, weights, i.inputs[1], taps, whole(channels), lanes, type);
  return {x, weights, std::move(w)};
}

/// Treats a line of taps as one tap if the pixels of a line are contiguous and always inside the image.
Window with_whole_lines(Window w) {
  bool is_line = !w.transposed && known_equal(w.groups, 1) && known_equal(w.pixel, w.channels_in) &&
                 known_equal(w.dilation.back(), 1) && known_equal(w.pad.back(), 0) &&
                 known_equal(w.in.back(), (w.out.back() - Dim(1)) * w.stride.back() + w.kernel.back());
  if (is_line) w.channels_in = w.channels_in * std::exchange(w.kernel.back(), Dim(1));
  return w;
}

/// Returns a view of the padding value repeated `lanes` times; nothing if the padding is zero.
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

bool takes_direct(const GpuConvolution& c) { return c.direct && !c.w.transposed && !c.outside; }

/// True if the convolution is a plain product of its pixels.
bool takes_pixels(const GpuConvolution& c) {
  const Window& w = c.w;
  auto all = [](const Dims& sizes, int64_t value) {
    return std::ranges::all_of(sizes, [&](const Dim& size) { return known_equal(size, value); });
  };
  return takes_direct(c) && all(w.kernel, 1) && all(w.stride, 1) && all(w.pad, 0) && w.in == w.out;
}

/// Returns how the threads of a block advance along k: the name of a ConvWalk.
std::string_view walk_of(const GpuConvolution& c, const BlockTile& tile) {
  if (takes_pixels(c)) return "pixels";
  int64_t channels = c.w.channels_in.constant().value_or(0), most = tasks::most_piece_taps,
          taps = c.w.taps().constant().value_or(most + 1);
  if (takes_direct(c) && tile.groups && taps <= most && channels > 0 && channels % tile.depth == 0) return "pieces";
  return tile.groups && channels >= tile.depth ? "taps" : "any";
}

/// Returns the call of conv_gpu with its template arguments.
std::string call_text(const GpuConvolution& c, const BlockTile& tile) {
  return cat("conv_gpu<", kernel_type(c.operands.type), ", ", tile_text(tile), ", ", c.whole,
             ", ConvWalk::", walk_of(c, tile), ", ", c.outside.has_value(), ", W>");
}

PlanStep convolution_launch(Lowering& lowering, KernelBuilder& kernel, const GpuConvolution& c, const BlockTile& tile) {
  const Window& w = c.w;
  kernel.set_grid(tile_blocks(lowering, tile, c.operands.type, w.groups, w.rows(), w.channels_out),
                  tile.threads(lowering.gpu().wave), tasks::shared_bytes(tile, bits(c.operands.type)),
                  adds_parts(lowering.gpu(), tile) ? 1 : tile.split);
  kernel.set_occupancy(tile_occupancy(tile, c.operands.type));
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
    return convolution_launch(lowering, same, c, tile);
  };
  KernelBuilder own = kernel;
  return with_variants(convolution_launch(lowering, own, c, chosen.tile), chosen, with_tile);
}

/// Returns the operands in the kernel's layout; copies them if necessary.
GpuConvolution convolution_of(Lowering& lowering, const Instruction& i, Window w) {
  DType type = lowering.product_type(i);
  int lanes = tasks::vector_bits / bits(type);
  bool is_narrow =
      (bits(type) <= 16 && type != DType::i16) ||
      (type == DType::f32 && lowering.gpu().matrix == MatrixUnit::mma);  // the matrix unit supports the type
  int64_t channels = w.channels_in.constant().value_or(lanes);
  bool is_torn = is_narrow && known_equal(w.groups, 1) &&
                 (channels == 0 || channels % lanes != 0);  // a vector would span two taps
  BlockedConvolution c;
  if (is_torn) {
    c = blocked(lowering, i, std::move(w), lanes, type);
  } else {
    Value value = i.inputs[1];
    View x = lowering.pixel_view_of(i.inputs[0]), by_tap = weights_by_tap(lowering.contiguous_view_of(value), w);
    if (int64_t joined = joined_groups(lowering, w, value, lanes, is_narrow); joined > 1) {
      by_tap = weights_of_joined(lowering, by_tap, value, joined, type);
      w.groups = by_tap.dims[0], w.channels_out = by_tap.dims[1], w.channels_in = by_tap.dims[3];
    } else {
      by_tap = lowering.copy_of(by_tap, value, "weights with the channels of a tap side by side",
                                is_float(type) ? type : by_tap.dtype);
    }
    c = {x, by_tap, std::move(w)};
    c.w.pixel = pixel_stride(c.x);
  }
  bool whole =
      c.w.channels_in.is_multiple_of(lanes) && c.w.pixel.is_multiple_of(lanes) && c.x.offset.is_multiple_of(lanes);
  bool direct = whole && c.x.dtype == type && c.weights.dtype == type;
  return {std::move(c.w), {type, c.x, c.weights}, whole, direct, outside_vector(lowering, i, lanes)};
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
  c.w = with_whole_lines(std::move(c.w));
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
                                             .may_share = k.is_constant() && may_split_k(lowering, region, sums_of),
                                             .has_windows = !takes_pixels(c),
                                             .reads_matrix = reads_matrix(lowering, region)});
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
