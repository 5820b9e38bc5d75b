// SPDX-License-Identifier: Apache-2.0
// Lowers gathers and scatters of single elements, and by coordinates; data_movement.cpp lowers gathers of slices.
#include "ops/indexed.h"

#include "lower/axes.h"
#include "lower/lowering.h"

namespace weft {
namespace {

/// Adds checks that, along all axes but `axis`, the size of the indices is at most that of x.
void check_other_axes(Lowering& lowering, const Instruction& i, size_t axis) {
  const Dims &x = i.inputs[0].dims(), &indices = i.inputs[1].dims();
  for (size_t a = 0; a < x.size(); ++a) {
    if (a == axis || known_equal(x[a], indices[a])) continue;
    lowering.add_check(
        {false, indices[a], x[a], i.source,
         cat(i.op.name(), ": axis ", a, " of indices ", i.inputs[1].shape(), " and of ", i.inputs[0].shape())});
  }
}

/// Returns the text `b0[s1 + c0 * s2 + ...]` of an element at coordinates c0, c1 ...; along `axis`, at `along`.
std::string element(KernelBuilder& kernel, const View& view, bool written, size_t axis, const std::string& along) {
  std::string text = cat(kernel.buffer(view.buffer, view.dtype, written), "[", kernel.size(view.offset));
  for (size_t a = 0; a < view.dims.size(); ++a) {
    std::string stride = kernel.size(view.strides[a]);
    if (stride != "0") text += cat(" + ", a == axis ? along : cat("c", a), " * ", stride);
  }
  return text + "]";
}

/// Opens a loop over all lines along `axis` of a tensor of sizes `dims`, and inside a loop over a line's elements. A GPU
/// takes the elements of a line in parallel unless they are `ordered`.
void open_lines(const Lowering& lowering, KernelBuilder& kernel, const Dims& dims, size_t axis, bool ordered) {
  Dims others = dims;
  bool parallel = lowering.on_gpu() && !ordered;
  if (!parallel) others[axis] = 1;
  std::string lines = kernel.size(product(others)), n = kernel.size(dims[axis]);
  kernel.line("for_lines(WEFT_LAUNCH, ", lines, ", ", n, ", [&](i64 line) WEFT_LAMBDA {");
  for (size_t a = dims.size(); a-- > 0;) {
    std::string size = kernel.size(others[a]);
    kernel.line("  [[maybe_unused]] const i64 c", a, " = line % ", size, "; line /= ", size, ";");
  }
  if (parallel) kernel.line("  for (i64 at = c", axis, "; at == c", axis, "; ++at) {");
  else kernel.line("  for (i64 at = 0; at < ", n, "; ++at) {");
  lowering.set_items(kernel, product(others), cat("tasks::row_tasks(", lines, ", ", n, ")"));
}

void close_lines(KernelBuilder& kernel) { kernel.line("  }\n  });"); }

/// Emits code that adds the offsets of `count` coordinates at `index` to `from`, or sets it to -1 if one is invalid.
void emit_places(KernelBuilder& kernel, const View& x, size_t first, int64_t count, const std::string& index) {
  kernel.line("  bool inside = true;");
  for (int64_t c = 0; c < count; ++c) {
    size_t axis = first + c;
    kernel.line("  const i64 p", c, " = place_of(", kernel.launch_noting_faults(), ", ", index, " + ", c, "], ",
                kernel.size(x.dims[axis]), ");");
    kernel.line("  inside = inside && p", c, " >= 0;");
    kernel.line("  from += p", c, " * ", kernel.size(x.strides[axis]), ";");
  }
  kernel.line("  if (!inside) from = -1;");
}

/// Returns the result's view, filled with a copy of x unless x was computed there directly.
View copied_operand(Lowering& lowering, const Region& region) {
  Value result{region.anchor, 0}, x = region.anchor->inputs[0];
  if (lowering.has_view(result) && lowering.has_view(x) &&
      lowering.view_of(x).buffer == lowering.view_of(result).buffer)
    return lowering.view_of(result);
  View y = lowering.new_result({region.anchor, 0});
  lowering.copy_into(region.anchor->inputs[0], y, "operand of a scatter");
  return y;
}

std::string fn_text(ScatterFn fn) { return cat("ScatterFn::", enum_name(fn)); }

}  // namespace

void lower_gather_elements(Lowering& lowering, const Region& region) {
  const Instruction& i = *region.anchor;
  size_t axis = i.as<GatherElements>()->axis;
  check_other_axes(lowering, i, axis);
  View x = lowering.view_of(i.inputs[0]), indices = lowering.view_of(i.inputs[1]);
  View y = lowering.new_result({region.anchor, 0});
  KernelBuilder kernel("indexed.h");
  open_lines(lowering, kernel, y.dims, axis, false);
  kernel.line("  const i64 place = place_of(", kernel.launch_noting_faults(), ", ",
              element(kernel, indices, false, axis, "at"), ", ", kernel.size(x.dims[axis]), ");");
  std::string to = element(kernel, y, true, axis, "at"), from = element(kernel, x, false, axis, "place");
  kernel.line("  if (place >= 0) ", to, " = ", converted(from, x.dtype, y.dtype), ";");
  close_lines(kernel);
  lowering.add_step(kernel.finish(lowering.plan(), "gather_elements"), "element by element");
}

void lower_gather_nd(Lowering& lowering, const Region& region) {
  const Instruction& i = *region.anchor;
  size_t batch_axes = i.as<GatherNd>()->batch;
  View x = lowering.contiguous_view_of(i.inputs[0]), indices = lowering.contiguous_view_of(i.inputs[1]);
  int64_t count = *indices.dims.back().constant();
  size_t slice = batch_axes + count;
  std::string batches, lookups, length, image;
  KernelBuilder kernel("indexed.h");
  batches = kernel.size(size_of(x.dims, 0, batch_axes));
  lookups = kernel.size(size_of(indices.dims, batch_axes, indices.dims.size() - 1));
  image = kernel.size(size_of(x.dims, batch_axes, x.dims.size()));
  length = kernel.size(size_of(x.dims, slice, x.dims.size()));
  std::string lanes = length == "1" ? "1" : cat(lowering.tile().lanes);
  View result = lowering.new_result({region.anchor, 0});
  std::string y = kernel.buffer(result.buffer, result.dtype, true), data = kernel.buffer(x.buffer, x.dtype, false),
              index = kernel.buffer(indices.buffer, indices.dtype, false);
  kernel.line("constexpr int W = ", lanes, ";");
  kernel.line("pointwise<W>(WEFT_LAUNCH, Space<3>{{", batches, ", ", lookups, ", ", length,
              "}}, [&](const Coords<3>& at, auto lanes) WEFT_LAMBDA {");
  kernel.line("  const i64 row = at[0] * ", lookups, " + at[1];");
  kernel.line("  i64 from = at[0] * ", image, ";");
  emit_places(kernel, x, batch_axes, count, cat(index, "[", kernel.size(indices.offset), " + row * ", count));
  std::string load = cat("load<W>(", data, " + ", kernel.size(x.offset), " + from + at[2], lanes)");
  kernel.line("  if (from >= 0) store(", y, " + row * ", length, " + at[2], ", converted(load, x.dtype, result.dtype),
              ", lanes);");
  kernel.line("});");
  lowering.set_loop(kernel,
                    {size_of(x.dims, 0, batch_axes), size_of(indices.dims, batch_axes, indices.dims.size() - 1)},
                    size_of(x.dims, slice, x.dims.size()), length == "1" ? 1 : lowering.tile().lanes);
  lowering.add_step(kernel.finish(lowering.plan(), "gather_nd"), "slices copied whole");
}

/// Lowers a scatter of elements. Updates collide only along `axis`, so lines run in parallel, each in order unless its
/// updates are unique.
void lower_scatter_elements(Lowering& lowering, const Region& region) {
  const Instruction& i = *region.anchor;
  const auto& op = *i.as<ScatterElements>();
  size_t axis = op.axis;
  check_other_axes(lowering, i, axis);
  View indices = lowering.view_of(i.inputs[1]), updates = lowering.view_of(i.inputs[2]);
  View y = copied_operand(lowering, region);
  KernelBuilder kernel("indexed.h");
  open_lines(lowering, kernel, indices.dims, axis, !op.unique);
  kernel.line("  const i64 place = place_of(", kernel.launch_noting_faults(), ", ",
              element(kernel, indices, false, axis, "at"), ", ", kernel.size(y.dims[axis]), ");");
  kernel.line("  if (place < 0) continue;");
  kernel.line("  auto& to = ", element(kernel, y, true, axis, "place"), ";");
  std::string update = element(kernel, updates, false, axis, "at");
  kernel.line("  to = scattered<", fn_text(op.fn), ">(to, ", converted(update, updates.dtype, y.dtype), ");");
  close_lines(kernel);
  lowering.add_step(kernel.finish(lowering.plan(), "scatter_elements"),
                    op.unique ? "element by element" : "lines in parallel, updates in order");
}

/// Lowers a scatter by coordinates. Any two updates may collide, so each task applies all updates to its own columns.
void lower_scatter_nd(Lowering& lowering, const Region& region) {
  const Instruction& i = *region.anchor;
  View indices = lowering.contiguous_view_of(i.inputs[1]), updates = lowering.contiguous_view_of(i.inputs[2]);
  View y = copied_operand(lowering, region);
  int64_t count = *indices.dims.back().constant();
  KernelBuilder kernel("indexed.h");
  std::string writes = kernel.size(size_of(indices.dims, 0, indices.dims.size() - 1)),
              length = kernel.size(size_of(y.dims, count, y.dims.size()));
  std::string to = kernel.buffer(y.buffer, y.dtype, true), index = kernel.buffer(indices.buffer, indices.dtype, false),
              from = kernel.buffer(updates.buffer, updates.dtype, false);
  kernel.line("scatter_slices<", fn_text(i.as<ScatterNd>()->fn), ">(WEFT_LAUNCH, ", writes, ", ", length, ", ", to,
              ", ", from, " + ", kernel.size(updates.offset), ", [&](i64 i) WEFT_LAMBDA {");
  kernel.line("  i64 from = 0;");
  emit_places(kernel, y, 0, count, cat(index, "[", kernel.size(indices.offset), " + i * ", count));
  kernel.line("  return from;");
  kernel.line("});");
  lowering.set_items(kernel, size_of(y.dims, count, y.dims.size()), cat("tasks::ceil_div(", length, ", 1024)"));
  lowering.add_step(kernel.finish(lowering.plan(), "scatter_nd"), "columns of slices in parallel, updates in order");
}

}  // namespace weft
