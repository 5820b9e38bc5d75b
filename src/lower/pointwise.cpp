// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "lower/axes.h"
#include "lower/lowering.h"

namespace weft {
namespace {

/// Returns the lanes of a pointwise loop. CPU: two registers of the widest computed type (at least 32 bits). GPU: the
/// elements that a thread loads at once.
int lanes_for(const Lowering& lowering, const std::vector<Instruction*>& instructions, DType type) {
  auto width = [&](DType t) { return bits(lowering.on_gpu() ? lowering.stored_type(t) : compute_type(t)); };
  int widest = width(type);
  for (const Instruction* i : instructions) {
    widest = std::max(widest, width(i->types[0].shape.dtype));
    for (const Value& input : i->inputs) widest = std::max(widest, width(input.dtype()));
  }
  return lowering.lanes_for(widest);
}

/// Reduces the lanes for long chains of instructions on few elements (the cell of a recurrent network). A GPU thread
/// computes its lanes one after another, so fewer lanes give work to more threads. Elements that share a byte stay in
/// one thread.
int fewer_lanes(const Lowering& lowering, const Region& region, int lanes) {
  constexpr size_t long_chain = 8;
  constexpr int64_t enough = 64;  // threads per compute unit
  Dim elements = product(region.dims);
  if (!lowering.on_gpu() || !elements.is_constant() || region.epilogue.size() < long_chain) return lanes;
  bool shares_bytes =
      std::ranges::any_of(region.epilogue, [](const Instruction* i) { return bits(i->types[0].shape.dtype) < 8; });
  int least = shares_bytes ? 2 : 1;
  while (lanes > least && elements.value() / lanes < enough * lowering.compute_units()) lanes /= 2;
  return lanes;
}

/// Returns how many vectors a GPU thread handles: several, for more loads in flight, if all threads still have work.
int chunks_at_once(const Lowering& lowering, const Dim& chunks) {
  constexpr int64_t enough = 1 << 19;
  return lowering.on_gpu() && chunks.is_constant() && chunks.value() >= enough ? 4 : 1;
}

void emit_loop(const Lowering& lowering, KernelBuilder& kernel, FusedBody& body, int lanes) {
  size_t rank = body.axes().size();
  std::string sizes;
  for (size_t a = 0; a < rank; ++a) sizes += cat(a ? ", " : "", kernel.size(body.axes()[a]));
  kernel.line("constexpr int W = ", lanes, ";");
  Dims rows{body.axes().begin(), body.axes().end() - 1};
  Dim chunks = product(rows) * ceildiv(body.axes().back(), lanes);
  int at_once = chunks_at_once(lowering, chunks);
  kernel.line("pointwise<W", at_once > 1 ? cat(", ", at_once) : "", ">(WEFT_LAUNCH, Space<", rank, ">{{", sizes,
              "}}, [&](const Coords<", rank, ">& at, auto lanes) WEFT_LAMBDA {");
  for (size_t a = 0; a < rank; ++a) kernel.line("  [[maybe_unused]] const i64 c", a, " = at[", a, "];");
  body.emit();
  kernel.line("});");
  lowering.set_loop(kernel, rows, body.axes().back(), lanes);
  constexpr int threads = tasks::block_threads;
  if (at_once > 1) kernel.set_grid(ceildiv(chunks, threads * at_once), threads);
}

/// Returns the axis along which the source of a copy is contiguous, if the result is contiguous along another axis and
/// both axes are long enough to transpose blocks in registers.
std::optional<size_t> transposed_axis(const View& from, const View& to) {
  size_t rank = to.dims.size();
  auto is_long = [](const Dim& size) { return size.constant().value_or(tasks::transpose_rows) >= 8; };
  if (rank < 2 || bits(from.dtype) < 8 || bits(to.dtype) < 8 || !known_equal(to.strides.back(), 1)) return {};
  if (known_equal(from.strides.back(), 0) || known_equal(from.strides.back(), 1) || !is_long(to.dims.back())) return {};
  for (size_t axis = 0; axis + 1 < rank; ++axis) {
    if (known_equal(from.strides[axis], 1) && is_long(from.dims[axis])) return axis;
  }
  return {};
}

/// Returns the view of a loop's operand. On CPUs, copies large operands in another layout, as strided loads are slow.
View operand_of(Lowering& lowering, Value value) {
  constexpr int64_t large = 4096;
  View view = lowering.view_of(value);
  View result = contiguous_view({}, {view.dtype, view.dims});
  if (lowering.on_gpu() || value.shape().elements().lower_bound() < large || !transposed_axis(view, result))
    return view;
  return lowering.distinct_copy_of(value, "the loop's other operands lie in another layout");
}

}  // namespace

void lower_pointwise(Lowering& lowering, const Region& region) {
  KernelBuilder kernel("pointwise.h");
  FusedBody body(
      kernel, {.dims = region.dims, .group_begin = {}, .coordinates = {}},
      [&](Value value) { return operand_of(lowering, value); },
      [&](Value value) { return lowering.new_result(value); });
  body.plan(region.epilogue, region.outputs, {});
  int lanes = lanes_for(lowering, region.epilogue, region.epilogue.back()->types[0].shape.dtype);
  emit_loop(lowering, kernel, body, fewer_lanes(lowering, region, lanes));
  PlanStep step = kernel.finish(lowering.plan(), "pointwise");
  step.in_place = body.in_place();
  step.flops = product(region.dims) * Dim(static_cast<int64_t>(region.epilogue.size()));
  lowering.add_step(std::move(step), "elementwise instructions in one loop");
}

/// If the last axis of a copy is short and the source is contiguous along the axes before it (channels-first images),
/// makes the loop run along those axes, with vector loads and strided stores. On CPUs a last axis of size <= 2 needs no
/// contiguous source, because a part of a vector takes as long as a whole vector.
static void turn_short_axis(View& from, View& to, int lanes, bool on_gpu) {
  size_t rank = to.dims.size();
  if (rank < 2) return;
  auto last = to.dims.back().constant();
  const bool is_pair = !on_gpu && last && *last <= 2 && to.dims[rank - 2].lower_bound() >= lanes;
  if (!last || *last >= lanes || !(is_pair || known_equal(from.strides[rank - 2], 1))) return;
  size_t first = rank - 2;  // first contiguous axis
  while (first > 0 && known_equal(from.strides[first - 1], from.strides[first] * from.dims[first])) --first;
  for (View* view : {&from, &to}) {
    auto at = static_cast<std::ptrdiff_t>(first);
    std::rotate(view->dims.begin() + at, view->dims.end() - 1, view->dims.end());
    std::rotate(view->strides.begin() + at, view->strides.end() - 1, view->strides.end());
  }
}

/// Lowers a copy between layouts as transposes of square blocks; returns false for other copies.
static bool lower_transposed(Lowering& lowering, View from, View to, KernelBuilder& kernel) {
  std::vector<Dims> strides{from.strides, to.strides};
  collapse_axes(to.dims, strides);
  from.dims = to.dims, from.strides = strides[0], to.strides = strides[1];
  size_t rank = to.dims.size();
  auto axis = transposed_axis(from, to);
  if (!axis || rank > 6) return false;
  for (Dims* list : {&from.dims, &from.strides, &to.dims, &to.strides}) {
    auto at = list->begin() + static_cast<std::ptrdiff_t>(*axis);
    std::rotate(at, at + 1, list->end() - 1);
  }
  auto strings = [&](const Dims& list) {
    std::string text;
    for (const Dim& dim : list) text += cat(text.empty() ? "" : ", ", kernel.size(dim));
    return text;
  };
  kernel.set_header("transpose.h");
  std::string x = cat(kernel.buffer(from.buffer, from.dtype, false), " + ", kernel.size(from.offset));
  std::string y = cat(kernel.buffer(to.buffer, to.dtype, true), " + ", kernel.size(to.offset));
  int lanes = lowering.on_gpu() ? lowering.lanes_for(std::max(bits(from.dtype), bits(to.dtype)))
                                : (lowering.tile().lanes >= 16 ? 16 : 8);
  kernel.line("transposed_copy<", lanes, ", ", rank, ">(WEFT_LAUNCH, {{", strings(to.dims), "}}, ", x, ", {{",
              strings(from.strides), "}}, ", y, ", {{", strings(to.strides), "}});");
  Dim outer = product({to.dims.begin(), to.dims.end() - 2}), rows = to.dims[rank - 2], cols = to.dims[rank - 1];
  lowering.set_items(
      kernel, outer * ceildiv(rows, lanes) * ceildiv(cols, 4 * lanes) * Dim(4),
      cat("tasks::transpose_tasks(", kernel.size(outer), ", ", kernel.size(rows), ", ", kernel.size(cols), ")"));
  return true;
}

void lower_copy(Lowering& lowering, View from, View to, Value value, KernelBuilder& kernel) {
  if (lower_transposed(lowering, from, to, kernel)) return;
  turn_short_axis(from, to, lowering.tile().lanes, lowering.on_gpu());
  FusedBody body(
      kernel, {.dims = to.dims, .group_begin = {}, .coordinates = {}}, [&](Value) { return from; },
      [&](Value) { return to; });
  body.plan({}, {value}, {}, {value});
  emit_loop(lowering, kernel, body, lanes_for(lowering, {}, from.dtype));
}

}  // namespace weft
