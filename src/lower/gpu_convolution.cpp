// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "lower/gpu.h"
#include "lower/window.h"
#include "ops/dot.h"

namespace weft {
namespace {

/// [group][channel out][tap][channel in], whichever of [out, in / g, taps...] and [in, out / g, taps...] it was.
View turned_weights(Lowering& lowering, const Window& w, Value value, DType type) {
  View from = lowering.contiguous_view_of(value);
  Dim taps = w.taps();
  View turned{from.buffer, from.dtype, {w.groups, w.channels_out, taps, w.channels_in}, {}, from.offset};
  Dim inner = w.transposed ? w.channels_out : w.channels_in;  // the second axis of the source
  Dim first = inner * taps;
  turned.strides =
      w.transposed ? Dims{w.channels_in * first, taps, 1, first} : Dims{w.channels_out * first, first, 1, taps};
  return lowering.copy_of(turned, value, "weights with the channels of a tap side by side",
                          is_float(type) ? type : from.dtype);
}

}  // namespace

void lower_convolution_on_gpu(Lowering& lowering, const Region& region, const Window& w, const View& x) {
  const Instruction& i = *region.anchor;
  if (i.inputs.size() > 2) {
    throw Error({.kind = ErrorKind::unsupported,
                 .code = "E149",
                 .what = "a convolution that pads with a zero point has no kernel on a GPU",
                 .where = i.source});
  }
  DType type = lowering.product_type(i), sum = is_integer(type) ? DType::i32 : type == DType::f64 ? type : DType::f32;
  View weights = turned_weights(lowering, w, i.inputs[1], type);
  GpuTile tile = choose_tile(lowering, type, w.groups, w.rows(), w.channels_out);
  bool whole = w.channels_in.is_multiple_of(128 / bits(type)) && w.pixel.is_multiple_of(128 / bits(type));
  if (whole && x.dtype == type && weights.dtype == type) tile = with_stages(lowering, tile, type);
  KernelBuilder kernel("conv_gpu.h");
  std::string a = kernel.buffer(x.buffer, x.dtype, false), b = kernel.buffer(weights.buffer, weights.dtype, false);
  kernel.line("constexpr int W = gemm_lanes;");
  kernel.line("const ConvSizes s", window_text(kernel, w), ";");
  kernel.line("conv_gpu<", kernel_type(type), ", ", tile_text(tile), ", ", whole, ">(WEFT_LAUNCH, s, raw(", a, ") + ",
              kernel.size(x.offset), ", raw(", b, "),");
  kernel.line(
      "    [&]([[maybe_unused]] i64 group, [[maybe_unused]] i64 row, i64 col, auto acc, auto lanes) WEFT_LAMBDA {");
  kernel.line("  [[maybe_unused]] const i64 channel = group * s.channels_out + col;");
  Iteration iteration{
      .dims = region.dims, .group_begin = {0, region.dims.size() - 1}, .coordinates = {"row", "channel"}};
  lowering.emit_epilogue(kernel, region, std::move(iteration), "acc", sum);
  kernel.line("});");
  kernel.set_grid(tile_blocks(tile, w.groups, w.rows(), w.channels_out), tile.threads(lowering.wave()),
                  shared_bytes(tile, type));
  PlanStep step = kernel.finish(lowering.plan(), cat("conv_", type));
  step.flops = w.rows() * w.groups * w.channels_out * w.channels_in * w.taps() * Dim(2);
  lowering.add_step(std::move(step), cat("implicit matrix product in blocks of ", tile.rows, " x ", tile.cols));
}

}  // namespace weft
