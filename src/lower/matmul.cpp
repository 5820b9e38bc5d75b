// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "lower/lowering.h"
#include "lower/mac.h"
#include "ops/dot.h"

namespace weft {
namespace {

/// The leading axes of a view.
struct Batch {
  Dims dims, strides;
};

Batch leading(const View& view, size_t count) {
  auto n = static_cast<std::ptrdiff_t>(count);
  return {{view.dims.begin(), view.dims.begin() + n}, {view.strides.begin(), view.strides.begin() + n}};
}

bool is_repeated(const Batch& batch) {
  for (size_t i = 0; i < batch.dims.size(); ++i) {
    if (!known_equal(batch.strides[i], 0) && !known_equal(batch.dims[i], 1)) return false;
  }
  return true;
}

/// C++ text of the element offset for the flat batch index in the variable `at`.
std::string batch_offset(KernelBuilder& kernel, Batch batch, const std::string& at) {
  std::vector<Dims> strides{batch.strides};
  collapse_axes(batch.dims, strides);
  std::string text = "0", rest = at;
  for (size_t i = batch.dims.size(); i-- > 0;) {
    std::string stride = kernel.size(strides[0][i]), size = kernel.size(batch.dims[i]);
    std::string index = i == 0 ? rest : cat("(", rest, " % ", size, ")");
    if (stride != "0") text += cat(" + ", index, " * ", stride);
    rest = cat("(", rest, " / ", size, ")");
  }
  return text;
}

/// A dot as gemm sees it.
struct Product {
  View a, b;
  size_t batch_axes;  ///< of the result that stay batches; the others are rows
  Dim batch, m, n, k;
  Mac mac;
};

/// True when one stride leads from each row to the next, over all leading axes.
bool rows_are_even(const View& a) {
  Batch rows = leading(a, a.dims.size() - 1);
  std::vector<Dims> strides{rows.strides};
  collapse_axes(rows.dims, strides);
  return rows.dims.size() == 1;
}

/// When all batches share B, they are just more rows of A, which is copied if its strides do not allow that.
Product as_product(Lowering& lowering, const Region& region) {
  const Instruction& dot = *region.anchor;
  Product p{.a = lowering.view_of(dot.inputs[0]),
            .b = lowering.view_of(dot.inputs[1]),
            .batch_axes = 0,
            .batch = 1,
            .m = 1,
            .n = 0,
            .k = 0,
            .mac = mac_for(lowering, dot)};
  size_t rank = p.a.dims.size();
  p.k = p.b.dims[rank - 2].is_constant() ? p.b.dims[rank - 2] : p.a.dims[rank - 1];  // weights say it as a number
  p.n = p.b.dims[rank - 1];
  p.batch_axes = rank - 2;
  if (is_repeated(leading(p.b, rank - 2))) {
    if (!rows_are_even(p.a)) p.a = lowering.contiguous_view_of(dot.inputs[0]);
    p.batch_axes = 0;
  }
  for (size_t i = 0; i + 1 < rank; ++i) (i < p.batch_axes ? p.batch : p.m) *= p.a.dims[i];
  return p;
}

/// The row stride of A when rows of all row axes follow each other evenly.
Dim row_stride(const Product& p) {
  Batch rows = leading(p.a, p.a.dims.size() - 1);
  auto first = static_cast<std::ptrdiff_t>(p.batch_axes);
  Dims dims(rows.dims.begin() + first, rows.dims.end());
  std::vector<Dims> strides{{rows.strides.begin() + first, rows.strides.end()}};
  collapse_axes(dims, strides);
  return strides[0].back();
}

/// Rows of whole units: their elements side by side, every row beginning at a multiple of the group.
bool reads_in_place(const Product& p) {
  bool unit = known_equal(p.a.strides.back(), 1) || (known_equal(p.k, 1) && p.mac.group == 1);
  bool whole = p.k.is_multiple_of(p.mac.group) && p.a.offset.is_multiple_of(p.mac.group);
  for (size_t i = 0; i + 1 < p.a.strides.size(); ++i) whole &= p.a.strides[i].is_multiple_of(p.mac.group);
  return unit && whole && p.a.dtype == p.mac.direct;
}

/// Packs B into panels; once, when the program is loaded, if B is constant.
View packed_b(Lowering& lowering, const Product& p, Value value) {
  size_t rank = p.b.dims.size();
  Batch batch = leading(p.b, rank - 2);
  bool shared = is_repeated(batch);
  std::vector<Dims> strides{batch.strides};
  Dims dims = shared ? Dims{} : batch.dims;
  if (shared) strides = {{}};
  View from = p.b;
  collapse_axes(dims, strides);
  if (dims.size() > 1) {  // no single stride leads from batch to batch
    from = lowering.contiguous_view_of(value);
    dims = {product(dims)};
    strides = {{from.dims[rank - 2] * from.dims[rank - 1]}};
  }
  Dim count = shared ? Dim(1) : dims[0];
  bool is_fixed = all_constant({count, p.n, p.k, from.offset, from.strides[rank - 2], from.strides[rank - 1]});
  bool load_time = is_fixed && lowering.is_load_time(value);
  tasks::GemmTile tile = p.mac.tile;
  Dim panels = ceildiv(p.n, tile.nr());
  Dim elements = count * panels * Dim(tile.nr() * p.mac.group) * ceildiv(p.k, p.mac.group);
  View to = lowering.new_packed(p.mac.packed, elements, load_time, cat("packed ", value.source()));
  KernelBuilder kernel("pack.h");
  std::string src = kernel.buffer(from.buffer, from.dtype, false), offset = kernel.number(from.offset);
  std::string out = kernel.buffer(to.buffer, p.mac.packed, true);
  kernel.line("const PackB p{.batch = ", kernel.size(count), ", .n = ", kernel.number(p.n),
              ", .k = ", kernel.number(p.k), ", .stride_batch = ", shared ? "0" : kernel.size(strides[0][0]),
              ", .stride_k = ", kernel.number(from.strides[rank - 2]),
              ", .stride_n = ", kernel.number(from.strides[rank - 1]), "};");
  kernel.line("pack_b<", p.mac.name, ", ", p.mac.tile_name, ">(WEFT_LAUNCH, p, raw(", src, ") + ", offset, ", raw(",
              out, "));");
  kernel.set_tasks(cat(kernel.size(count), " * tasks::ceil_div(", kernel.number(p.n), ", ", tile.nr(), ")"));
  PlanStep step = kernel.finish(lowering.plan(), cat("pack_", p.mac.packed));
  step.source = value.source();
  step.bytes = elements * Dim(bits(p.mac.packed) / 8 * 2);
  lowering.add_step(std::move(step),
                    load_time ? "weights packed once" : "operand packed in panels for the matrix kernel", load_time);
  return to;
}

/// `DirectRows{...}` or `FilledRows{...}`: how the kernel gets at A.
std::string rows_of_a(KernelBuilder& kernel, const Product& p, bool in_place) {
  std::string a = kernel.buffer(p.a.buffer, p.a.dtype, false);
  std::string base =
      cat("raw(", a, ") + ", kernel.number(p.a.offset), " + ", batch_offset(kernel, leading(p.a, p.batch_axes), "at"));
  if (in_place) {
    return cat("DirectRows{[&](i64 at) WEFT_LAMBDA { return ", p.mac.units_at(base), "; }, ",
               kernel.size(*exact_divide(row_stride(p), p.mac.group)), "}");
  }
  std::string row =
      cat(a, " + ", kernel.number(p.a.offset), " + ", batch_offset(kernel, leading(p.a, p.batch_axes), "at"),
          " + row * ", kernel.size(row_stride(p)));
  std::string stride = kernel.size(p.a.strides.back());
  std::string load = stride == "1" ? cat("load<F>(", row, " + k, lanes)")
                                   : cat("load_strided<F>(", row, " + k * ", stride, ", ", stride, ", lanes)");
  kernel.line("constexpr int F = fill_lanes<", p.mac.name, ">;");
  return cat("FilledRows{[&]([[maybe_unused]] i64 at, i64 row, i64 k, auto lanes) WEFT_LAMBDA { return ", load, "; }}");
}

}  // namespace

void lower_dot(Lowering& lowering, const Region& region) {
  const Instruction& dot = *region.anchor;
  Product p = as_product(lowering, region);
  bool in_place = reads_in_place(p);
  View packed = packed_b(lowering, p, dot.inputs[1]);
  Dim packed_batch =
      is_repeated(leading(p.b, p.batch_axes))
          ? Dim(0)
          : ceildiv(p.n, p.mac.tile.nr()) * Dim(p.mac.tile.nr() * p.mac.group) * ceildiv(p.k, p.mac.group);

  KernelBuilder kernel("gemm.h");
  std::string batch = kernel.size(p.batch), m = kernel.number(p.m), n = kernel.number(p.n), k = kernel.number(p.k);
  std::string a = rows_of_a(kernel, p, in_place), b = kernel.buffer(packed.buffer, p.mac.packed, false);
  kernel.line("constexpr auto tile = ", p.mac.tile_name, ";");
  kernel.line("constexpr int W = tile.lanes;");
  kernel.line("gemm<", p.mac.name, ", tile>(WEFT_LAUNCH, {", batch, ", ", m, ", ", n, ", ", k, "}, ", a, ",");
  kernel.line("    [&](i64 at) WEFT_LAMBDA { return raw(", b, ") + at * ", kernel.size(packed_batch), "; },");
  kernel.line(
      "    [&]([[maybe_unused]] i64 at, [[maybe_unused]] i64 row, i64 col, auto acc, auto lanes) WEFT_LAMBDA {");
  size_t rank = region.dims.size();
  std::vector<size_t> groups{p.batch_axes, rank - 1};
  std::vector<std::string> names{"row", "col"};
  if (p.batch_axes > 0) {
    groups.insert(groups.begin(), 0);
    names.insert(names.begin(), "at");
  }
  lowering.emit_epilogue(kernel, region, {.dims = region.dims, .group_begin = groups, .coordinates = names}, "acc",
                         p.mac.sum);
  kernel.line("});");
  std::string arguments = cat("(", p.mac.tile_name, ", ", batch, ", ", m, ", ", n, ", tasks::gemm_units(", k, ", ",
                              p.mac.group, "), ", !in_place);
  kernel.set_tasks(cat("tasks::gemm_blocks", arguments, ").tasks"),
                   cat("tasks::gemm_scratch", arguments, ", ", bits(p.mac.sum) / 8, ")"));
  PlanStep step = kernel.finish(lowering.plan(), cat("dot_", p.mac.packed));
  step.flops = p.batch * p.m * p.n * p.k * Dim(2);
  lowering.add_step(std::move(step), in_place ? "packed B, A read in place" : "packed B, A converted block by block");
}

}  // namespace weft
