// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "base/error.h"
#include "lower/gpu.h"
#include "lower/product.h"
#include "ops/dot.h"

namespace weft {
namespace {

/// Tiles that divide among their threads (kernels/gemm_gpu.h: Stage), largest first.
std::vector<GpuTile> tiles_for(DType type, int wave) {
  int bytes = bits(type) / 8, waves_n = wave == 64 ? 2 : 4;
  if (bytes >= 4) return {{64, 64, 64 / bytes, 2, waves_n}};
  int depth = 64 / bytes;  // small tiles take long steps: each costs a barrier and a part of the memory's latency
  return {{128, 128, depth, 2, waves_n},   {128, 64, depth, 2, waves_n}, {64, 64, 2 * depth, 2, waves_n},
          {32, 64, 4 * depth, 1, waves_n}, {32, 32, 4 * depth, 1, 2},    {16, 64, 4 * depth, 1, waves_n}};
}

/// A number for a size that may be symbolic, to choose by: with 16 for each symbol, or the bound next to it.
int64_t typical(const Dim& size) {
  return size.evaluate([](const Symbol& s) { return std::clamp<int64_t>(16, std::max<int64_t>(s.min, 1), s.max); });
}

/// Whether the operand lies in memory as it is multiplied, with k side by side and rows on multiples of 16 bytes.
bool is_direct(const View& view, size_t batch_axes, const Dim& rows, const Dim& inner, DType type) {
  int64_t lanes = 128 / bits(type);
  auto aligned = [&](const Dim& d) { return d.is_multiple_of(lanes); };
  Dims strides = leading(view, batch_axes).strides;
  return view.dtype == type && known_equal(inner, 1) && aligned(rows) && aligned(view.offset) &&
         std::ranges::all_of(strides, aligned);
}

/// The text of an operand: direct_rows where it can be, else along_k or along_rows of a lambda that loads
/// `stage_lanes<T>` elements. `rows` is the row stride, `inner` that of k.
std::string operand_text(KernelBuilder& kernel, const View& view, size_t batch_axes, const Dim& rows, const Dim& inner,
                         DType type) {
  if (is_direct(view, batch_axes, rows, inner, type)) {
    return cat("direct_rows<", kernel_type(type), ">([&]([[maybe_unused]] i64 at, i64 row) WEFT_LAMBDA { return raw(",
               kernel.buffer(view.buffer, view.dtype, false), ") + ", kernel.size(view.offset), " + ",
               batch_offset(kernel, leading(view, batch_axes), "at"), " + row * ", kernel.size(rows), "; })");
  }
  std::string base = cat(kernel.buffer(view.buffer, view.dtype, false), " + ", kernel.size(view.offset), " + ",
                         batch_offset(kernel, leading(view, batch_axes), "at"));
  std::string row_stride = kernel.size(rows), k_stride = kernel.size(inner), t = kernel_type(type);
  auto converted = [&](const std::string& loaded) {
    return cat("WEFT_LAMBDA { return convert<", t, ">(", loaded, "); })");
  };
  if (row_stride == "1" && k_stride != "1") {
    return cat("along_rows([&]([[maybe_unused]] i64 at, i64 k, i64 row, auto lanes) ",
               converted(cat("load<stage_lanes<", t, ">>(", base, " + k * ", k_stride, " + row, lanes)")));
  }
  std::string start = cat("along_k([&]([[maybe_unused]] i64 at, i64 row, i64 k, auto lanes) ");
  if (k_stride == "1") {
    return start + converted(cat("load<stage_lanes<", t, ">>(", base, " + row * ", row_stride, " + k, lanes)"));
  }
  return start + converted(cat("load_strided<stage_lanes<", t, ">>(", base, " + row * ", row_stride, " + k * ",
                               k_stride, ", ", k_stride, ", lanes)"));
}

/// Weights with k side by side in the type of the product, turned once when the program is loaded.
View weights_along_k(Lowering& lowering, const View& b, Value value, DType type) {
  size_t rank = b.dims.size();
  bool good = known_equal(b.strides[rank - 2], 1) && b.dtype == type;
  bool fixed = all_constant({b.dims[rank - 2], b.dims[rank - 1], b.strides[rank - 2], b.strides[rank - 1], b.offset});
  if (good || !fixed || !lowering.is_load_time(value) || !is_repeated(leading(b, rank - 2))) return b;
  View turned{
      b.buffer, b.dtype, {b.dims[rank - 1], b.dims[rank - 2]}, {b.strides[rank - 1], b.strides[rank - 2]}, b.offset};
  View copy = lowering.copy_of(turned, value, "weights with the inner dimension side by side", type);
  View result = b;
  result.buffer = copy.buffer;
  result.dtype = type;
  result.offset = 0;
  result.strides[rank - 1] = copy.strides[0];
  result.strides[rank - 2] = 1;
  return result;
}

}  // namespace

std::string tile_text(const GpuTile& t) {
  return cat("BlockTile{", t.rows, ", ", t.cols, ", ", t.depth, ", ", t.waves_m, ", ", t.waves_n, ", ", t.stages, "}");
}

int shared_bytes(const GpuTile& t, DType type) {
  return t.stages == 1 ? 0 : t.stages * (t.rows + t.cols) * (t.depth * bits(type) / 8 + 16);
}

GpuTile with_stages(const Lowering& lowering, GpuTile tile, DType type) {
  if (lowering.chip().kind == ChipKind::nvidia && bits(type) <= 16 && type != DType::i16) tile.stages = 4;
  return tile;
}

int compute_units(const Chip& chip) {
  struct Units {
    std::string_view arch;
    int count;
  };
  constexpr Units known[] = {{"sm_90a", 132}, {"sm_80", 108},  {"gfx90a", 104}, {"gfx942", 304},
                             {"gfx1030", 80}, {"gfx1100", 96}, {"gfx1151", 40}, {"gfx1201", 64}};
  const auto* found = std::ranges::find(known, std::string_view(chip.arch), &Units::arch);
  return found == std::end(known) ? 64 : found->count;
}

Dim tile_blocks(const GpuTile& tile, const Dim& batch, const Dim& m, const Dim& n) {
  return batch * ceildiv(m, tile.rows) * ceildiv(n, tile.cols);
}

GpuTile choose_tile(const Lowering& lowering, DType type, const Dim& batch, const Dim& m, const Dim& n) {
  std::vector<GpuTile> tiles = tiles_for(type, lowering.wave());
  int64_t rows = typical(m), cols = typical(n), batches = typical(batch);
  for (const GpuTile& tile : tiles) {
    bool wasteful = tile.rows >= 2 * rows || tile.cols >= 2 * cols;
    if (!wasteful && typical(tile_blocks(tile, batches, rows, cols)) >= compute_units(lowering.chip())) return tile;
  }
  // Too little work for the chip: the tile that gives most blocks, without making rows that are not there.
  auto blocks = [&](const GpuTile& t) { return t.rows >= 2 * rows ? 0 : typical(tile_blocks(t, batches, rows, cols)); };
  auto most = std::ranges::max_element(tiles, {}, blocks);
  return rows <= 16 || blocks(*most) == 0 ? tiles.back() : *most;
}

void lower_dot_on_gpu(Lowering& lowering, const Region& region) {
  const Instruction& dot = *region.anchor;
  Product p = as_product(lowering, region);
  DType type = lowering.product_type(dot), sum = is_integer(type) ? DType::i32 : type == DType::f64 ? type : DType::f32;
  p.b = weights_along_k(lowering, p.b, dot.inputs[1], type);
  size_t rank = p.b.dims.size();
  GpuTile tile = choose_tile(lowering, type, p.batch, p.m, p.n);

  Dim a_rows = row_stride(p), b_rows = p.b.strides[rank - 1];
  bool direct = is_direct(p.a, p.batch_axes, a_rows, p.a.strides.back(), type) &&
                is_direct(p.b, p.batch_axes, b_rows, p.b.strides[rank - 2], type);
  if (direct) tile = with_stages(lowering, tile, type);

  KernelBuilder kernel("gemm_gpu.h");
  std::string sizes = cat(kernel.size(p.batch), ", ", kernel.size(p.m), ", ", kernel.size(p.n), ", ", kernel.size(p.k));
  std::string a = operand_text(kernel, p.a, p.batch_axes, a_rows, p.a.strides.back(), type),
              b = operand_text(kernel, p.b, p.batch_axes, b_rows, p.b.strides[rank - 2], type);
  kernel.line("constexpr int W = gemm_lanes;");
  kernel.line("gemm_gpu<", kernel_type(type), ", ", tile_text(tile), ">(WEFT_LAUNCH, {", sizes, "}, ", a, ",");
  kernel.line("    ", b, ",");
  kernel.line(
      "    [&]([[maybe_unused]] i64 at, [[maybe_unused]] i64 row, [[maybe_unused]] i64 col, auto acc, auto lanes) "
      "WEFT_LAMBDA {");
  lowering.emit_epilogue(kernel, region, result_iteration(region.dims, p.batch_axes), "acc", sum);
  kernel.line("});");
  kernel.set_grid(tile_blocks(tile, p.batch, p.m, p.n), tile.threads(lowering.wave()), shared_bytes(tile, type));
  PlanStep step = kernel.finish(lowering.plan(), cat("dot_", type));
  step.flops = p.batch * p.m * p.n * p.k * Dim(2);
  lowering.add_step(std::move(step), cat("matrix product in blocks of ", tile.rows, " x ", tile.cols));
}

}  // namespace weft
