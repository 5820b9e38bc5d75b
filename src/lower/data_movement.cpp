// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "ir/core_ops.h"
#include "lower/axes.h"
#include "lower/lowering.h"
#include "ops/indexed.h"
#include "ops/views.h"

namespace weft {

static int lanes_of(const Lowering& lowering, DType type) {
  return lowering.lanes_for(bits(lowering.on_gpu() ? type : compute_type(type)));
}

/// Lowers a gather of slices, seen as [before, indices, after]. Vectors run along `after`, or along `indices` if there
/// is no axis after them.
void lower_gather(Lowering& lowering, const Region& given) {
  Region region = given;
  const Instruction& i = *region.anchor;
  size_t axis = i.as<Gather>()->axis;
  View x = lowering.contiguous_view_of(i.inputs[0]), indices = lowering.contiguous_view_of(i.inputs[1]);
  size_t index_end = axis + indices.dims.size();
  Dim before = size_of(x.dims, 0, axis), count = product(indices.dims),
      after = size_of(x.dims, axis + 1, x.dims.size());
  bool has_after = x.dims.size() > axis + 1;
  Iteration iteration = has_after ? Iteration{region.dims, {0, axis, index_end}, {"outer", "row", "col"}}
                                  : Iteration{region.dims, {0, axis}, {"outer", "col"}};
  Region after_it = split_epilogue(lowering, region, iteration);

  KernelBuilder kernel("pointwise.h");
  std::string data = kernel.buffer(x.buffer, x.dtype, false),
              index = kernel.buffer(indices.buffer, indices.dtype, false);
  std::string b = kernel.size(before), n = kernel.size(count), a = kernel.size(after),
              limit = kernel.size(x.dims[axis]);
  std::string first = cat(index, " + ", kernel.size(indices.offset)), base = cat(data, " + ", kernel.size(x.offset));
  int lanes = lanes_of(lowering, x.dtype);
  kernel.line("constexpr int W = ", lanes, ";");
  kernel.line("pointwise<W>(WEFT_LAUNCH, Space<3>{{", b, ", ", has_after ? n : "1", ", ", has_after ? a : n,
              "}}, [&](const Coords<3>& at, auto lanes) WEFT_LAMBDA {");
  std::string compute = kernel_type(compute_type(x.dtype));
  bool is_stored_bool = x.dtype == DType::boolean;
  auto converted = [&](const std::string& text) {
    return is_stored_bool ? text : cat("convert<", compute, ">(", text, ")");
  };
  if (has_after) {
    kernel.line("  [[maybe_unused]] const i64 outer = at[0], row = at[1], col = at[2];");
    kernel.line("  const i64 from = checked_index(", kernel.launch_noting_faults(), ", (", first, ")[row], ", limit,
                ");");
    kernel.line("  const auto acc = ",
                converted(cat("load<W>(", base, " + (outer * ", limit, " + from) * ", a, " + col, lanes)")), ";");
  } else {
    kernel.line("  [[maybe_unused]] const i64 outer = at[0], col = at[2];");
    kernel.line("  const auto acc = ",
                converted(cat("gather_lanes<W>(", kernel.launch_noting_faults(), ", ", base, " + outer * ", limit, ", ",
                              first, " + col, ", limit, ", lanes)")),
                ";");
  }
  lowering.emit_epilogue(kernel, region, std::move(iteration), "acc", compute_type(x.dtype));
  kernel.line("});");
  lowering.set_loop(kernel, {before, has_after ? count : Dim(1)}, has_after ? after : count, lanes);
  lowering.add_step(kernel.finish(lowering.plan(), "gather"), has_after ? "slices copied whole" : "element by element");
  if (!after_it.epilogue.empty()) lower_pointwise(lowering, after_it);
}

void lower_concat(Lowering& lowering, const Region& region) {
  const Instruction& i = *region.anchor;
  size_t axis = i.as<Concat>()->axis;
  Value result{region.anchor, 0};
  View whole = lowering.has_view(result) ? lowering.view_of(result) : lowering.new_result(result);
  Dim start = 0;
  for (const Value& input : i.inputs) {
    const Dim& size = input.dims()[axis];
    View from = lowering.view_of(input), part = part_of(whole, axis, start, size);
    bool in_place = from.buffer == part.buffer && known_equal(from.offset, part.offset);
    if (!in_place) lowering.copy_apart(input, part, "a part of a concatenation");
    start = start + size;
  }
}

void lower_iota(Lowering& lowering, const Region& region) {
  const auto& op = *region.anchor->as<Iota>();
  size_t rank = op.dims.size();
  KernelBuilder kernel("pointwise.h");
  std::string sizes, type = kernel_type(compute_type(op.type));
  int lanes = lanes_of(lowering, DType::i64);
  Iteration iteration{.dims = op.dims, .group_begin = {}, .coordinates = {}};
  for (size_t a = 0; a < rank; ++a) {
    sizes += cat(a ? ", " : "", kernel.size(op.dims[a]));
    iteration.group_begin.push_back(a);
    iteration.coordinates.push_back(cat("at[", a, "]"));
  }
  kernel.line("constexpr int W = ", lanes, ";");
  kernel.line("pointwise<W>(WEFT_LAUNCH, Space<", rank, ">{{", sizes, "}}, [&](const Coords<", rank,
              ">& at, auto lanes) WEFT_LAMBDA {");
  std::string first = cat("splat<", type, ", W>(", type, "(at[", op.axis, "]))");
  bool last_axis = op.axis + 1 == static_cast<int64_t>(rank);
  kernel.line("  const auto acc = ", first, last_axis ? cat(" + iota<", type, ", W>()") : "", ";");
  lowering.emit_epilogue(kernel, region, std::move(iteration), "acc", compute_type(op.type));
  kernel.line("});");
  lowering.set_loop(kernel, {op.dims.begin(), op.dims.end() - 1}, op.dims.back(), lanes);
  lowering.add_step(kernel.finish(lowering.plan(), "iota"), "positions");
}

void lower_sizes(Lowering& lowering, const Region& region) {
  View out = lowering.new_result({region.anchor, 0});
  KernelBuilder kernel("pointwise.h");
  std::string y = kernel.buffer(out.buffer, DType::i64, true);
  const Dims& dims = region.anchor->as<Sizes>()->dims;
  for (size_t i = 0; i < dims.size(); ++i) kernel.line(y, "[", i, "] = ", kernel.size(dims[i]), ";");
  lowering.set_items(kernel, 1, "1");
  lowering.add_step(kernel.finish(lowering.plan(), "sizes"), "sizes as data");
}

}  // namespace weft
