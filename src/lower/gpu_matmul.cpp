// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/error.h"
#include "lower/gpu.h"
#include "lower/product.h"
#include "ops/dot.h"

namespace weft {
namespace {

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

/// The kernel of a product: its header and call, and how it is launched.
struct ProductKernel {
  std::string header, call;
  Dim blocks = 0;
  int threads = 256, shared = 0, cluster = 1;
  bool waits_itself = false;
  std::string reason = {};
};

/// Up to four rows, for operands that lie in memory as they are multiplied: as fast as B can be read. Several waves
/// share the k of a column where there are too few columns to keep memory busy.
std::optional<ProductKernel> few_rows_kernel(const Lowering& lowering, const GpuProduct& p) {
  if (!p.direct || !p.m.is_constant() || p.m.value() > 4 || !p.k.is_multiple_of(128 / bits(p.type)))
    return std::nullopt;
  int wave = lowering.wave(), waves = compute_units(lowering.chip()) * 16;
  int64_t pairs = typical_size(p.batch * p.n) / 2;
  int ways = pairs >= waves || wave == 64 ? 1 : pairs >= waves / 2 || typical_size(p.k) < 1024 ? 2 : 4;
  int threads = ways == 4 ? 512 : 256, columns = threads / wave / ways * 2;
  return ProductKernel{.header = "gemv_gpu.h",
                       .call = cat("gemv_gpu<", kernel_type(p.type), ", ", p.m.value(), ", ", ways, ", ", p.ahead, ">"),
                       .blocks = p.batch * ceildiv(p.n, columns),
                       .threads = threads,
                       .waits_itself = p.ahead,
                       .reason = cat("few rows: read B once, ", columns, " columns a block")};
}

/// Nothing where the library is to be called.
std::optional<ProductKernel> product_kernel(Lowering& lowering, const GpuProduct& p) {
  if (auto few = few_rows_kernel(lowering, p)) return *few;
  auto chosen = choose_tile(lowering, p);
  if (!chosen) return std::nullopt;
  const GpuTile& tile = *chosen;
  return ProductKernel{.header = "gemm_gpu.h",
                       .call = cat("gemm_gpu<", kernel_type(p.type), ", ", tile_text(tile), ">"),
                       .blocks = tile_blocks(tile, p.batch, p.m, p.n),
                       .threads = tile.threads(lowering.wave()),
                       .shared = shared_bytes(tile, p.type),
                       .cluster = tile.split,
                       .waits_itself = tile.ahead,
                       .reason = cat("matrix product in ", describe(tile))};
}

/// What a library must know of the product, if it can compute it: all sizes fixed, one stride from batch to batch.
std::optional<LibraryProduct> library_product(const Lowering& lowering, const Region& region, const Product& p,
                                              DType type, bool direct) {
  bool is_known = type == DType::f32 || type == DType::f16 || type == DType::bf16;
  if (lowering.product_library().empty() || !direct || !is_known || lowering.is_load_time({region.anchor, 0}))
    return std::nullopt;
  Batch batch = leading(p.a, p.batch_axes);
  std::vector<Dims> strides{batch.strides, leading(p.b, p.batch_axes).strides};
  if (p.batch_axes > 0) collapse_axes(batch.dims, strides);
  else strides = {{0}, {0}};
  Dims sizes{p.batch, p.m, p.n, p.k}, others{row_stride(p), p.b.strides.back(), p.a.offset, p.b.offset};
  bool is_one = strides[0].size() == 1 && all_constant(strides[0]) && all_constant(strides[1]);
  if (!is_one || !all_constant(sizes) || !all_constant(others)) return std::nullopt;
  if (std::ranges::any_of(sizes, [](const Dim& size) { return size.value() < 1; })) return std::nullopt;
  return LibraryProduct{.library = lowering.product_library(),
                        .type = type,
                        .batch = p.batch.value(),
                        .m = p.m.value(),
                        .n = p.n.value(),
                        .k = p.k.value(),
                        .a_row = others[0].value(),
                        .b_row = others[1].value(),
                        .a_batch = strides[0][0].value(),
                        .b_batch = strides[1][0].value(),
                        .a_offset = others[2].value(),
                        .b_offset = others[3].value()};
}

/// The library leaves the sums in f32; a kernel of ours does what comes after them.
void lower_library_product(Lowering& lowering, const Region& region, const Product& p, LibraryProduct product) {
  Dim flops = p.batch * p.m * p.n * p.k * Dim(2);
  View sums = lowering.new_packed(DType::f32, p.batch * p.m * p.n, false, cat("sums of ", region.anchor->source));
  View memory = lowering.new_packed(DType::u8, library_workspace, false, "working memory of a library");
  lowering.add_step({.buffers = {p.a.buffer, p.b.buffer, sums.buffer, memory.buffer},
                     .outputs = {sums.buffer, memory.buffer},
                     .blocks = 1,
                     .flops = flops,
                     .kind = StepKind::library,
                     .product = std::move(product)},
                    "the vendor's library", false);

  constexpr int lanes = 8;
  KernelBuilder kernel("pointwise.h");
  std::string from = kernel.buffer(sums.buffer, DType::f32, false), batch = kernel.size(p.batch), m = kernel.size(p.m),
              n = kernel.size(p.n);
  kernel.line("constexpr int W = ", lanes, ";");
  kernel.line("pointwise<W>(WEFT_LAUNCH, Space<3>{{", batch, ", ", m, ", ", n,
              "}}, [&](const Coords<3>& place, auto lanes) WEFT_LAMBDA {");
  kernel.line("  [[maybe_unused]] const i64 at = place[0], row = place[1], col = place[2];");
  kernel.line("  const auto acc = load<W>(", from, " + (at * ", m, " + row) * ", n, " + col, lanes);");
  lowering.emit_epilogue(kernel, region, result_iteration(region.dims, p.batch_axes), "acc", DType::f32);
  kernel.line("});");
  lowering.set_loop(kernel, {p.batch, p.m}, p.n, lanes);
  lowering.add_step(kernel.finish(lowering.plan(), "after_product"), "what comes after the library's product", false);
}

}  // namespace

bool is_constant(Lowering& lowering, const View& view) {
  BufferKind kind = lowering.plan().buffers[static_cast<size_t>(view.buffer)].kind;
  return kind == BufferKind::constant || kind == BufferKind::persistent;
}

void lower_dot_on_gpu(Lowering& lowering, const Region& region) {
  const Instruction& dot = *region.anchor;
  Product p = as_product(lowering, region);
  DType type = lowering.product_type(dot), sum = is_integer(type) ? DType::i32 : type == DType::f64 ? type : DType::f32;
  p.b = weights_along_k(lowering, p.b, dot.inputs[1], type);
  size_t rank = p.b.dims.size();
  Dim a_rows = row_stride(p), b_rows = p.b.strides[rank - 1];
  bool direct = is_direct(p.a, p.batch_axes, a_rows, p.a.strides.back(), type) &&
                is_direct(p.b, p.batch_axes, b_rows, p.b.strides[rank - 2], type);
  auto library = library_product(lowering, region, p, type, direct);
  auto kernel_for = product_kernel(lowering, {.type = type,
                                              .direct = direct,
                                              .batch = p.batch,
                                              .m = p.m,
                                              .n = p.n,
                                              .k = p.k,
                                              .ahead = is_constant(lowering, p.b),
                                              .library = library ? library->library : "",
                                              .has_epilogue = !region.epilogue.empty()});
  if (!kernel_for) return lower_library_product(lowering, region, p, *library);
  const ProductKernel& main = *kernel_for;

  KernelBuilder kernel(main.header);
  std::string sizes = cat(kernel.size(p.batch), ", ", kernel.size(p.m), ", ", kernel.size(p.n), ", ", kernel.size(p.k));
  std::string a = operand_text(kernel, p.a, p.batch_axes, a_rows, p.a.strides.back(), type),
              b = operand_text(kernel, p.b, p.batch_axes, b_rows, p.b.strides[rank - 2], type);
  kernel.line("constexpr int W = gemm_lanes;");
  kernel.line(main.call, "(WEFT_LAUNCH, {", sizes, "}, ", a, ",");
  kernel.line("    ", b, ",");
  kernel.line(
      "    [&]([[maybe_unused]] i64 at, [[maybe_unused]] i64 row, [[maybe_unused]] i64 col, auto acc, auto lanes) "
      "WEFT_LAMBDA {");
  lowering.emit_epilogue(kernel, region, result_iteration(region.dims, p.batch_axes), "acc", sum);
  kernel.line("});");
  kernel.set_grid(main.blocks, main.threads, main.shared, main.cluster);
  if (main.waits_itself) kernel.set_waits_itself();
  PlanStep step = kernel.finish(lowering.plan(), cat("dot_", type));
  step.flops = p.batch * p.m * p.n * p.k * Dim(2);
  lowering.add_step(std::move(step), main.reason);
}

}  // namespace weft
