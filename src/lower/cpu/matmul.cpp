// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "lower/cpu/mac.h"
#include "lower/lowering.h"
#include "lower/product.h"
#include "ops/dot.h"

namespace weft {
namespace {

/// A matrix product with its multiply-accumulate on a CPU.
struct CpuProduct : Product {
  Mac mac;
};

/// True if A can be read in place: its rows have the Mac's type, are dense, and consist of whole units.
bool reads_a_in_place(const CpuProduct& p) {
  bool unit = known_equal(p.a.strides.back(), 1) || (known_equal(p.k, 1) && p.mac.group == 1);
  bool whole = p.k.is_multiple_of(p.mac.group) && p.a.offset.is_multiple_of(p.mac.group);
  for (size_t i = 0; i + 1 < p.a.strides.size(); ++i) whole &= p.a.strides[i].is_multiple_of(p.mac.group);
  return unit && whole && p.a.dtype == p.mac.direct;
}

/// Returns B packed into panels. B is packed once, when the program is loaded, if it and its sizes are constant.
View packed_b(Lowering& lowering, const CpuProduct& p, Value value) {
  size_t rank = p.b.dims.size();
  Batch batch = leading(p.b, rank - 2);
  bool shared = is_repeated(batch);
  std::vector<Dims> strides{batch.strides};
  Dims dims = shared ? Dims{} : batch.dims;
  if (shared) strides = {{}};
  View from = p.b;
  collapse_axes(dims, strides);
  if (dims.size() > 1) {  // the batches have no common stride
    from = lowering.contiguous_view_of(value);
    dims = {product(dims)};
    strides = {{from.dims[rank - 2] * from.dims[rank - 1]}};
  }
  Dim count = shared ? Dim(1) : dims[0];
  bool is_fixed = all_constant({count, p.n, p.k, from.offset, from.strides[rank - 2], from.strides[rank - 1]});
  bool load_time = is_fixed && lowering.is_load_time(value);
  Dim elements = count * p.mac.packed_elements(p.n, ceildiv(p.k, p.mac.group));
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
  kernel.set_tasks(cat(kernel.size(count), " * tasks::ceil_div(", kernel.number(p.n), ", ", p.mac.tile.nr(), ")"));
  PlanStep step = kernel.finish(lowering.plan(), cat("pack_", p.mac.packed));
  step.source = value.source();
  step.bytes = elements * Dim(bits(p.mac.packed) / 8 * 2);
  lowering.add_step(std::move(step),
                    load_time ? "weights packed once" : "operand packed in panels for the matrix kernel", load_time);
  return lowering.shared(to);
}

/// Returns the text of the reader of A: `DirectRows{...}` or `FilledRows{...}`.
std::string rows_of_a(KernelBuilder& kernel, const CpuProduct& p, bool in_place) {
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

/// Returns the text of the packed matrix of batch `at`; for a grouped product, of the matrix that the index selects
/// (null for a negative index).
std::string matrix_at(Lowering& lowering, KernelBuilder& kernel, const Instruction& dot, const std::string& b,
                      const Dim& elements) {
  if (dot.is<Dot>()) return cat("raw(", b, ") + at * ", kernel.size(elements));
  View which = lowering.contiguous_view_of(dot.inputs[2]);
  std::string number = cat(kernel.buffer(which.buffer, DType::i64, false), "[", kernel.size(which.offset), " + at]");
  return cat("chosen_matrix(", kernel.launch_noting_faults(), ", raw(", b, "), ", number, ", ", kernel.size(elements),
             ", ", kernel.size(dot.inputs[1].dims()[0]), ")");
}

}  // namespace

void lower_dot(Lowering& lowering, const Region& region) {
  const Instruction& dot = *region.anchor;
  CpuProduct p{as_product(lowering, dot, dot.inputs[0]), mac_for(lowering, dot)};
  bool in_place = reads_a_in_place(p);
  View packed = packed_b(lowering, p, dot.inputs[1]);
  Dim packed_batch =
      is_repeated(leading(p.b, p.batch_axes)) ? Dim(0) : p.mac.packed_elements(p.n, ceildiv(p.k, p.mac.group));

  KernelBuilder kernel("gemm.h");
  std::string batch = kernel.size(p.batch), m = kernel.number(p.m), n = kernel.number(p.n), k = kernel.number(p.k);
  std::string a = rows_of_a(kernel, p, in_place), b = kernel.buffer(packed.buffer, p.mac.packed, false);
  p.mac.share(kernel);
  kernel.line("constexpr auto tile = ", p.mac.tile_name, ";");
  kernel.line("gemm<", p.mac.name, p.mac.is_short(p.k, region.epilogue.size()) ? ", tile, true" : ", tile",
              ">(WEFT_LAUNCH, {", batch, ", ", m, ", ", n, ", ", k, "}, ", a, ",");
  kernel.line("    [&](i64 at) WEFT_LAMBDA { return ", matrix_at(lowering, kernel, dot, b, packed_batch), "; },");
  kernel.line(
      "    [=]([[maybe_unused]] i64 at, [[maybe_unused]] i64 row, i64 col, auto acc, auto lanes) WEFT_LAMBDA {");
  kernel.line("  constexpr int W = lanes_of<decltype(acc)>;");
  lowering.emit_epilogue(kernel, region, result_iteration(region.dims, p.batch_axes), "acc", p.mac.sum);
  kernel.line("});");
  std::string arguments = cat("(", p.mac.tile_name, ", ", batch, ", ", m, ", ", n, ", tasks::gemm_units(", k, ", ",
                              p.mac.group, "), ", !in_place);
  kernel.set_tasks(cat("tasks::gemm_blocks", arguments, ").tasks"),
                   cat("tasks::gemm_scratch", arguments, ", ", p.mac.scratch_bytes(), ")"));
  PlanStep step = kernel.finish(lowering.plan(), cat(dot.op.name(), "_", p.mac.packed));
  step.flops = p.batch * p.m * p.n * p.k * Dim(2);
  lowering.add_step(std::move(step), in_place ? "packed B, A read in place" : "packed B, A converted block by block");
}

}  // namespace weft
