// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "lower/lowering.h"
#include "lower/window.h"
#include "ops/dot.h"

namespace weft {
namespace {

Window pool_window(const Instruction& i) {
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

std::string power_text(const std::string& x, const std::string& type, double exponent) {
  return cat("fn::op_pow(", x, ", splat<", type, ", W>(", type, "(", exponent, ")))");
}

/// Returns the expression of an element before it is combined with others: for Lp, the power of the element x.
std::string element_text(const Pool& op, const std::string& type) {
  if (op.fn != PoolFn::lp) return "x";
  if (op.p == 1) return "fn::op_abs(x)";
  return op.p == 2 ? "x * x" : power_text("fn::op_abs(x)", type, static_cast<double>(op.p));
}

/// Returns the expression of a window's result from the combined elements.
std::string result_text(const Pool& op, const std::string& type) {
  if (op.fn == PoolFn::average) return cat("sum / splat<", type, ", W>(", type, "(count))");
  if (op.fn != PoolFn::lp || op.p == 1) return "sum";
  return op.p == 2 ? "fn::op_sqrt(sum)" : power_text("sum", type, 1 / static_cast<double>(op.p));
}

/// A pooling kernel under construction: its source, its window, and its accumulator type.
struct PoolKernel {
  KernelBuilder kernel{"pool.h"};
  Window window;
  DType acc;
  int gpu_lanes = tasks::gpu_lanes;
};

PoolKernel begin_kernel(Lowering& lowering, const Instruction& i) {
  const auto& op = *i.as<Pool>();
  View x = lowering.pixel_view_of(i.inputs[0]);
  PoolKernel k{.window = pool_window(i), .acc = compute_type(i.inputs[0].dtype())};
  check_spatial_rank(k.window.in.size(), "pooling");
  k.window.pixel = pixel_stride(x);
  auto is_whole = [&](int lanes) {
    return k.window.channels_in.is_multiple_of(lanes) && k.window.pixel.is_multiple_of(lanes) &&
           x.offset.is_multiple_of(lanes);
  };
  bool on_gpu = lowering.on_gpu();
  if (on_gpu && op.fn == PoolFn::max && !op.indices && x.dtype == DType::f16) k.acc = x.dtype;
  if (int most = lowering.lanes_for(bits(x.dtype)); !op.indices && is_whole(most)) k.gpu_lanes = most;
  std::string a = k.kernel.buffer(x.buffer, x.dtype, false),
              cpu_lanes = op.indices ? "native_lanes" : cat("whole_lanes<", kernel_type(k.acc), ">");
  k.kernel.line("constexpr int W = ", on_gpu ? cat(k.gpu_lanes) : cpu_lanes, ";");
  k.kernel.line("const PoolSizes p{.window = ", window_text(k.kernel, k.window),
                ", .pad_end = ", triple(k.kernel, op.pads_end, "0"), ", .include_pad = ", op.count_include_pad, "};");
  k.kernel.line("const auto read = [&](i64 at, auto lanes) WEFT_LAMBDA { return convert<", kernel_type(k.acc), ">(",
                on_gpu && is_whole(k.gpu_lanes) ? "load_whole" : "load", "<W>(", a, " + ", k.kernel.number(x.offset),
                " + at, lanes)); };");
  return k;
}

void finish_kernel(Lowering& lowering, PoolKernel& k, const std::string& name) {
  const Window& w = k.window;
  set_pixel_grid(lowering, k.kernel, w, w.channels_in, k.gpu_lanes);
  PlanStep step = k.kernel.finish(lowering.plan(), name);
  step.flops = w.rows() * w.taps() * w.channels_in;
  lowering.add_step(std::move(step), "windows, vectors along the channels");
}

void lower_pool_with_positions(Lowering& lowering, const Region& region) {
  const Instruction& i = *region.anchor;
  PoolKernel k = begin_kernel(lowering, i);
  std::string stored = kernel_type(i.inputs[0].dtype()), channels = k.kernel.size(k.window.channels_in);
  View values = lowering.new_result({region.anchor, 0}), positions = lowering.new_result({region.anchor, 1});
  std::string y = k.kernel.buffer(values.buffer, values.dtype, true),
              at = k.kernel.buffer(positions.buffer, DType::i64, true);
  k.kernel.line("pool_with_positions<W, ", kernel_type(k.acc), ">(WEFT_LAUNCH, p, read,");
  k.kernel.line("    [&](i64 row, i64 channel, auto v, auto found, auto lanes) WEFT_LAMBDA {");
  k.kernel.line("  store(", y, " + row * ", channels, " + channel, convert<", stored, ">(v), lanes);");
  k.kernel.line("  store(", at, " + row * ", channels, " + channel, found, lanes);");
  k.kernel.line("});");
  finish_kernel(lowering, k, "pool_max_positions");
}

}  // namespace

void lower_pool(Lowering& lowering, const Region& region) {
  const Instruction& i = *region.anchor;
  const auto& op = *i.as<Pool>();
  check(op.layout == Layout::channels_last, "pooling is channels-last when it is lowered");
  if (op.indices) return lower_pool_with_positions(lowering, region);
  PoolKernel k = begin_kernel(lowering, i);
  KernelBuilder& kernel = k.kernel;
  std::string type = kernel_type(k.acc);
  bool notes_nan = op.fn == PoolFn::max && is_float(k.acc);
  kernel.line(notes_nan ? "pool<W, true>" : "pool<W>", "(WEFT_LAUNCH, p, ", acc_text(op, k.acc), ",");
  kernel.line("    [&](i64 at, auto lanes) WEFT_LAMBDA { const auto x = read(at, lanes); return ",
              element_text(op, type), "; },");
  kernel.line("    [](auto a, auto b) WEFT_LAMBDA { return ", op.fn == PoolFn::max ? "pool_max(a, b)" : "a + b",
              "; },");
  kernel.line(
      "    [&]([[maybe_unused]] i64 row, [[maybe_unused]] i64 channel, auto sum, [[maybe_unused]] i64 count, auto "
      "lanes) WEFT_LAMBDA {");
  DType computed = compute_type(i.inputs[0].dtype());
  kernel.line("  const auto acc = convert<", kernel_type(computed), ">(", result_text(op, type), ");");
  size_t rank = region.dims.size();
  lowering.emit_epilogue(kernel, region,
                         {.dims = region.dims, .group_begin = {0, rank - 1}, .coordinates = {"row", "channel"}}, "acc",
                         computed);
  kernel.line("});");
  finish_kernel(lowering, k, cat("pool_", enum_name(op.fn)));
}

}  // namespace weft
