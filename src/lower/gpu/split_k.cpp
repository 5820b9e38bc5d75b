// SPDX-License-Identifier: Apache-2.0
#include "lower/gpu/products.h"
#include "lower/product.h"

namespace weft {

DType sum_type(DType type) { return is_integer(type) ? DType::i32 : type == DType::f64 ? type : DType::f32; }

SplitKSums new_split_k_sums(Lowering& lowering, const Region& region, DType type, const BlockTile& tile,
                            const Dims& sizes) {
  Dim count = product(sizes) * Dim(tile.split);
  View view = lowering.new_packed(type, count, false, cat("parts of the sums of ", region.anchor->source));
  return {.view = view, .type = type, .batch = sizes[0], .m = sizes[1], .n = sizes[2], .parts = tile.split};
}

void store_part(KernelBuilder& kernel, const SplitKSums& sums) {
  std::string to = kernel.buffer(sums.view.buffer, sums.type, true), m = kernel.size(sums.m), n = kernel.size(sums.n);
  kernel.line("  store(", to, " + (at * ", m, " + row) * ", n, " + col, acc, lanes);");
}

void add_parts(Lowering& lowering, const Region& region, const SplitKSums& sums, Iteration iteration,
               const std::vector<size_t>& order) {
  constexpr int lanes = tasks::gemm_lanes;
  KernelBuilder kernel("pointwise.h");
  std::string from = kernel.buffer(sums.view.buffer, sums.type, false), batch = kernel.size(sums.batch),
              m = kernel.size(sums.m), n = kernel.size(sums.n);
  kernel.line("constexpr int W = ", lanes, ";");
  kernel.line("pointwise<W>(WEFT_LAUNCH, Space<3>{{", batch, ", ", m, ", ", n,
              "}}, [&](const Coords<3>& place, auto lanes) WEFT_LAMBDA {");
  kernel.line("  [[maybe_unused]] const i64 at = place[0], row = place[1], col = place[2], channel = at * ", n,
              " + col;");
  kernel.line("  const auto part = [&](i64 p) WEFT_LAMBDA { return load<W>(", from, " + ((at * ", sums.parts,
              " + p) * ", m, " + row) * ", n, " + col, lanes); };");
  kernel.line("  auto acc = part(0);");
  if (sums.parts > 1) kernel.line("  WEFT_UNROLL for (int p = 1; p < ", sums.parts, "; p++) acc = acc + part(p);");
  lowering.emit_epilogue(kernel, region, std::move(iteration), "acc", sums.type, order);
  kernel.line("});");
  lowering.set_loop(kernel, {sums.batch, sums.m}, sums.n, lanes);
  bool is_one = sums.parts == 1;
  lowering.add_step(kernel.finish(lowering.plan(), is_one ? "after_product" : "add_parts"),
                    is_one ? "epilogue of the product" : cat("adds up ", sums.parts, " parts of the sums"), false);
}

}  // namespace weft
