// SPDX-License-Identifier: Apache-2.0
// Lowers operators that depend on the order of elements along one axis: arg-reduce, scan, top-k.
#include "lower/axes.h"
#include "lower/gpu/row_parts.h"
#include "lower/lowering.h"
#include "lower/rows.h"
#include "ops/reduce.h"

namespace weft {
namespace {

/// The operand's view; its sizes before, along and after the axis; the C++ texts of these sizes and of its address.
struct Along {
  View x;
  AroundAxis around;
  std::string outer, n, inner, data;
  bool is_last;  ///< all later axes have size 1
};

Along along_axis(Lowering& lowering, KernelBuilder& kernel, const Instruction& i, int64_t axis) {
  Along a{.x = lowering.contiguous_view_of(i.inputs[0]),
          .around = around_axis(i.inputs[0].dims(), axis),
          .outer = {},
          .n = {},
          .inner = {},
          .data = {},
          .is_last = false};
  a.outer = kernel.size(a.around.outer);
  a.n = kernel.size(a.around.n);
  a.inner = kernel.size(a.around.inner);
  a.data = cat(kernel.buffer(a.x.buffer, a.x.dtype, false), " + ", kernel.size(a.x.offset));
  a.is_last = known_equal(a.around.inner, 1);
  return a;
}

void add_step(Lowering& lowering, KernelBuilder& kernel, const std::string& name, const Along& a, const char* reason) {
  PlanStep step = kernel.finish(lowering.plan(), name);
  step.flops = product(a.x.dims);
  lowering.add_step(std::move(step), reason);
}

/// Lowers an arg-reduce of few long rows on a GPU: blocks share each row; a second launch compares their results.
void lower_arg_parts(Lowering& lowering, const Region& region, const std::string& rule, DType type, const RowCut& cut) {
  KernelBuilder first("row_parts.h"), second("row_parts.h");
  Along a = along_axis(lowering, first, *region.anchor, region.anchor->as<ArgReduce>()->axis);
  FoundParts values = new_parts(lowering, region, type, a.around.outer, cut.parts),
             places = new_parts(lowering, region, DType::i32, a.around.outer, cut.parts);
  auto pointers = [&](KernelBuilder& kernel, bool written) {
    return std::pair{kernel.buffer(values.view.buffer, type, written),
                     kernel.buffer(places.view.buffer, DType::i32, written)};
  };
  std::string acc = kernel_type(type), parts = first.size(cut.parts);
  auto [value, place] = pointers(first, true);
  first.line("constexpr int W = ", register_lanes_text(type), ";");
  first.line("arg_row_parts<", rule, ", ", acc, ", W>(WEFT_LAUNCH, ", a.outer, ", ", a.n, ", ", parts, ",");
  first.line("    [&](i64 row, i64 col, auto lanes) WEFT_LAMBDA { return convert<", acc, ">(load<W>(", a.data,
             " + row * ", a.n, " + col, lanes)); },");
  first.line("    [&](i64 at, auto best) WEFT_LAMBDA { ", value, "[at] = best.value, ", place,
             "[at] = best.index; });");
  first.set_grid(a.around.outer * cut.parts);
  add_step(lowering, first, "arg_parts", a, "few long rows: blocks share each row");

  std::string rows = second.size(a.around.outer), count = second.size(cut.parts),
              y = second.buffer(lowering.new_result({region.anchor, 0}).buffer, DType::i64, true);
  std::tie(value, place) = pointers(second, false);
  second.line("finish_arg_row_parts<", rule, ", ", acc, ">(WEFT_LAUNCH, ", rows, ", ", count, ",");
  second.line("    [&](i64 at) WEFT_LAMBDA { return Found<", acc, ">{", value, "[at], ", place, "[at]}; },");
  second.line("    [&](i64 row, i64 at) WEFT_LAMBDA { ", y, "[row] = most(at, 0); });");
  second.set_grid(a.around.outer);
  lowering.add_step(second.finish(lowering.plan(), "arg_best"), "second launch: the best of all blocks' results");
}

}  // namespace

void lower_arg_reduce(Lowering& lowering, const Region& region) {
  const Instruction& i = *region.anchor;
  const auto& op = *i.as<ArgReduce>();
  AroundAxis around = around_axis(i.inputs[0].dims(), op.axis);
  const Dim& n = around.n;
  if (!all_constant({n})) {
    lowering.add_check(
        {false, n, Dim(int64_t{1} << 31) - 1, i.source, "arg_reduce: positions have 32 bits in its kernel"});
  }
  DType acc = compute_type(i.inputs[0].dtype());
  std::string best = cat("Best<", op.largest ? "true" : "false", ", ", op.last ? "true" : "false", ">");
  if (known_equal(around.inner, 1) && !lowering.is_load_time({region.anchor, 0})) {
    RowCut cut = row_cut(lowering, around.outer, n, gpu_lanes(acc));
    if (cut.is_cut()) return lower_arg_parts(lowering, region, best, acc, cut);
  }
  KernelBuilder kernel("reduce.h");
  Along a = along_axis(lowering, kernel, i, op.axis);
  std::string y = kernel.buffer(lowering.new_result({region.anchor, 0}).buffer, DType::i64, true),
              type = kernel_type(acc), lanes = register_lanes_text(acc);
  std::string rule = cat(best, ", ", type, ", W", a.is_last ? team_text(lowering, n) : "", ">");
  std::string load = cat("return convert<", type, ">(load<W>(", a.data);
  kernel.line("constexpr int W = ", lanes, ";");
  if (a.is_last) {
    kernel.line("arg_rows<", rule, "(WEFT_LAUNCH, ", a.outer, ", ", a.n, ",");
    kernel.line("    [&](i64 row, i64 col, auto lanes) WEFT_LAMBDA { ", load, " + row * ", a.n, " + col, lanes)); },");
    kernel.line("    [&](i64 row, i64 at) WEFT_LAMBDA { ", y, "[row] = most(at, 0); });");
    set_row_grid(lowering, kernel, a.around.outer, n);
  } else {
    kernel.line("arg_columns<", rule, "(WEFT_LAUNCH, ", a.outer, ", ", a.n, ", ", a.inner, ",");
    kernel.line("    [&](i64 outer, i64 r, i64 col, auto lanes) WEFT_LAMBDA { ", load, " + (outer * ", a.n, " + r) * ",
                a.inner, " + col, lanes)); },");
    kernel.line("    [&](i64 outer, i64 col, auto at, auto lanes) WEFT_LAMBDA { store(", y, " + outer * ", a.inner,
                " + col, select(at < 0, decltype(at)(0), at), lanes); });");
    set_column_grid(lowering, kernel, {a.around.outer, n, a.around.inner, lanes, gpu_lanes(acc)});
  }
  add_step(lowering, kernel, op.largest ? "arg_max" : "arg_min", a,
           a.is_last ? "vectors along the row" : "vectors along the axes that stay");
}

/// Lowers a scan. Floats are accumulated in f64, so that long rows lose no precision. On GPUs a block shares a row.
void lower_scan(Lowering& lowering, const Region& region) {
  const Instruction& i = *region.anchor;
  const auto& op = *i.as<Scan>();
  KernelBuilder kernel("scan.h");
  Along a = along_axis(lowering, kernel, i, op.axis);
  DType acc = is_float(a.x.dtype) ? DType::f64 : compute_type(a.x.dtype);
  View to = lowering.new_result({region.anchor, 0});
  std::string type = kernel_type(acc), stored = kernel_type(to.dtype),
              lanes = a.is_last ? "1" : register_lanes_text(acc);
  std::string y = kernel.buffer(to.buffer, to.dtype, true);
  std::string offset = cat("(outer * ", a.n, " + at) * ", a.inner, " + col");
  bool by_rows = lowering.on_gpu() && a.is_last;
  kernel.line("constexpr int W = ", lanes, ";");
  kernel.line(by_rows ? "scan_rows<" : "scan<", combine_text(op.fn), ", ", type, by_rows ? ", " : ", W, ",
              op.exclusive ? "true" : "false", ", ", op.reverse ? "true" : "false", ">(WEFT_LAUNCH, ", a.outer, ", ",
              a.n, by_rows ? "," : cat(", ", a.inner, ","));
  kernel.line("    [&](i64 outer, i64 at, i64 col, auto lanes) WEFT_LAMBDA { return convert<", type, ">(load<W>(",
              a.data, " + ", offset, ", lanes)); },");
  kernel.line("    [&](i64 outer, i64 at, i64 col, auto v, auto lanes) WEFT_LAMBDA { store(", y, " + ", offset,
              ", convert<", stored, ">(v), lanes); });");
  set_column_grid(lowering, kernel,
                  {a.around.outer, a.around.n, a.around.inner, lanes, a.is_last ? 1 : gpu_lanes(acc)});
  if (by_rows) kernel.set_grid(a.around.outer);
  add_step(lowering, kernel, cat("scan_", enum_name(op.fn)), a,
           by_rows     ? "one block per row"
           : a.is_last ? "rows in parallel"
                       : "vectors along the axes after it");
}

void lower_top_k(Lowering& lowering, const Region& region) {
  const Instruction& i = *region.anchor;
  const auto& op = *i.as<TopK>();
  KernelBuilder kernel("top_k.h");
  Along a = along_axis(lowering, kernel, i, op.axis);
  View best = lowering.new_result({region.anchor, 0});
  std::string type = kernel_type(compute_type(a.x.dtype)), stored = kernel_type(best.dtype), k = kernel.size(op.k),
              rows = cat(a.outer, " * ", a.inner);
  std::string values = kernel.buffer(best.buffer, best.dtype, true),
              indices = kernel.buffer(lowering.new_result({region.anchor, 1}).buffer, DType::i64, true);
  auto offset = [&](const std::string& n) {
    return a.is_last ? cat("row * ", n, " + at")
                     : cat("(row / ", a.inner, " * ", n, " + at) * ", a.inner, " + row % ", a.inner);
  };
  kernel.line("top_k<", type, ", ", op.largest ? "true" : "false", ">(WEFT_LAUNCH, ", rows, ", ", a.n, ", ", k, ",");
  kernel.line("    [&](i64 row, i64 at) WEFT_LAMBDA { return convert<", type, ">(load<1>(", a.data, " + ", offset(a.n),
              ", Full{})); },");
  kernel.line("    [&](i64 row, i64 at, auto value, i64 index) WEFT_LAMBDA {");
  kernel.line("  const i64 to = ", offset(k), ";");
  kernel.line("  ", values, "[to] = convert<", stored, ">(value);");
  kernel.line("  ", indices, "[to] = index;");
  kernel.line("});");
  kernel.set_tasks(cat("tasks::row_tasks(", rows, ", ", a.n, ")"), cat(k, " * 16"));
  if (lowering.on_gpu()) {
    Dim all = a.around.outer * a.around.inner;
    kernel.set_grid(max(all, min(all * ceildiv(a.around.n, tasks::ranked_items), 1024)));
  }
  add_step(lowering, kernel, "top_k", a,
           lowering.on_gpu() ? "counts ranks, or one block per row finds the largest one by one" : "a heap per row");
}

}  // namespace weft
