// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "base/error.h"
#include "lower/lowering.h"
#include "lower/window.h"
#include "ops/dot.h"

namespace weft {
namespace {

Dims as_dims(const std::vector<int64_t>& numbers) { return {numbers.begin(), numbers.end()}; }

Window window_of(const Instruction& i) {
  const auto& op = *i.as<Pool>();
  const Dims &x = i.inputs[0].dims(), &y = i.types[0].shape.dims;
  return {.batch = x[0],
          .channels_in = x.back(),
          .in = {x.begin() + 1, x.end() - 1},
          .out = {y.begin() + 1, y.end() - 1},
          .kernel = as_dims(op.kernel),
          .stride = as_dims(op.strides),
          .dilation = as_dims(op.dilations),
          .pad = op.pads_begin,
          .pixel = x.back()};
}

std::string acc_text(const Pool& op, DType acc) {
  std::string type = kernel_type(acc);
  if (op.fn != PoolFn::max) return cat(type, "(0)");
  if (is_float(acc)) return number_text(acc, -INFINITY);
  return cat("lowest<", type, ">()");
}

/// `combine(acc, x)`: x has been raised to the power p already.
const char* combine_text(PoolFn fn) { return fn == PoolFn::max ? "pool_max(a, b)" : "a + b"; }

}  // namespace

void lower_pool(Lowering& lowering, const Region& region) {
  const Instruction& i = *region.anchor;
  const auto& op = *i.as<Pool>();
  if (op.indices || op.fn == PoolFn::lp || bits(compute_type(i.inputs[0].dtype())) != 32) {
    throw Error({.kind = ErrorKind::unsupported,
                 .code = "E402",
                 .what = "the cpu target has no kernel for this pooling",
                 .where = i.source,
                 .why = cat(names(op.fn)[static_cast<size_t>(op.fn)], op.indices ? " with indices" : "", " of ",
                            i.inputs[0].shape())});
  }
  check(op.layout == Layout::channels_last, "pooling is channels-last when it is lowered");
  Window w = window_of(i);
  check_spatial_rank(w.in.size(), "pooling");
  View x = lowering.pixel_view_of(i.inputs[0]);
  w.pixel = x.strides[x.dims.size() - 2];
  DType acc = compute_type(x.dtype);
  KernelBuilder kernel("pool.h");
  std::string a = kernel.buffer(x.buffer, x.dtype, false), type = kernel_type(acc);
  kernel.line("constexpr int W = native_lanes;");
  kernel.line("const PoolSizes p{.window = ", window_text(kernel, w), ", .pad_end = ", triple(kernel, op.pads_end, "0"),
              ", .include_pad = ", op.count_include_pad, "};");
  kernel.line("pool(WEFT_LAUNCH, p, ", acc_text(op, acc), ",");
  kernel.line("    [&](i64 at, auto lanes) WEFT_LAMBDA { return convert<", type, ">(load<W>(", a, " + ",
              kernel.size(x.offset), " + at, lanes)); },");
  kernel.line("    [](auto a, auto b) WEFT_LAMBDA { return ", combine_text(op.fn), "; },");
  kernel.line(
      "    [&]([[maybe_unused]] i64 row, [[maybe_unused]] i64 channel, auto sum, [[maybe_unused]] i64 count, auto "
      "lanes) WEFT_LAMBDA {");
  kernel.line("  const auto acc = ",
              op.fn == PoolFn::average ? cat("sum / splat<", type, ", W>(", type, "(count))") : "sum", ";");
  size_t rank = region.dims.size();
  lowering.emit_epilogue(kernel, region,
                         {.dims = region.dims, .group_begin = {0, rank - 1}, .coordinates = {"row", "channel"}}, "acc",
                         acc);
  kernel.line("});");
  kernel.set_tasks(cat("tasks::window_tasks(", rows_text(kernel, w), ", ", kernel.size(w.channels_in), ", ",
                       taps_text(kernel, w), ")"));
  PlanStep step = kernel.finish(lowering.plan(), cat("pool_", names(op.fn)[static_cast<size_t>(op.fn)]));
  step.flops = w.rows() * w.taps() * w.channels_in;
  lowering.add_step(std::move(step), "windows, vectors along the channels");
}

}  // namespace weft
