// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>
#include <variant>

#include "base/error.h"
#include "lower/gpu/gemv.h"
#include "lower/gpu/products.h"
#include "lower/product.h"
#include "ops/dot.h"

namespace weft {

bool is_direct(const View& view, size_t batch_axes, const Dim& rows, const Dim& inner, DType type) {
  int64_t lanes = tasks::vector_bits / bits(type);
  auto aligned = [&](const Dim& d) { return d.is_multiple_of(lanes); };
  bool direct = view.dtype == type && known_equal(inner, 1) && aligned(rows) && aligned(view.offset);
  for (size_t axis = 0; axis < batch_axes; ++axis)
    direct &= aligned(view.strides[axis]) || known_equal(view.dims[axis], 1);
  return direct;
}

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

/// Chooses the shape: each thread keeps up to 16 vectors of B in flight. Blocks have few threads if k is short, and as
/// many columns as possible while there are still enough blocks. The numbers were measured on an H200.
GemvShape gemv_shape(const Lowering& lowering, int64_t n, int64_t k, int lanes) {
  constexpr int64_t max_at_once = 4;
  GemvShape f{.columns = 4, .threads = 64};
  if (n < int64_t{8} * lowering.compute_units()) f.columns = 2;
  f.at_once = static_cast<int>(std::clamp<int64_t>(k / (f.threads * lanes), 1, max_at_once));
  while (f.threads < tasks::block_threads && f.at_once * f.threads * lanes < k) f.threads *= 2;
  return f;
}

namespace {

/// Copies B with k contiguous and rows aligned to 16 bytes. If all batches share B, copies it once.
View copied_along_k(Lowering& lowering, const View& b, Value value, DType type) {
  View from = b;
  for (Dims* sizes : {&from.dims, &from.strides}) {
    std::iter_swap(sizes->end() - 1, sizes->end() - 2);
    if (is_repeated(leading(b, b.dims.size() - 2))) sizes->erase(sizes->begin(), sizes->end() - 2);
  }
  View to = lowering.copy_of(from, value, "its product loads vectors along the inner dimension", type,
                             tasks::vector_bits / bits(type));
  std::iter_swap(to.strides.end() - 1, to.strides.end() - 2);
  to.strides.insert(to.strides.begin(), b.dims.size() - to.strides.size(), 0);
  to.dims = b.dims;
  return to;
}

/// True if the view may be copied as `type`: the types are equal or both floats, and no axis from number `first` on
/// repeats elements.
bool can_copy(const View& view, size_t first, DType type) {
  for (size_t axis = first; axis < view.dims.size(); ++axis) {
    if (known_equal(view.strides[axis], 0) && !known_equal(view.dims[axis], 1)) return false;
  }
  return view.dtype == type || (is_float(view.dtype) && is_float(type));
}

/// Copies operands that are not direct if a copy gains more than it costs: with asynchronous copies, products of direct
/// operands are two to ten times as fast. Weights are copied once, when the program is loaded.
void make_direct(Lowering& lowering, const Instruction& dot, Product& p, DType type) {
  constexpr int64_t least_reuse = 32, least_work = int64_t{1} << 23;
  size_t rank = p.b.dims.size();
  int64_t lanes = tasks::vector_bits / bits(type);
  const Dim &b_rows = p.b.strides[rank - 1], &b_inner = p.b.strides[rank - 2];
  int64_t m = typical_size(p.m), n = typical_size(p.n), work = m * n * typical_size(p.k * p.batch);
  bool gains = lowering.gpu().async_copy && m > max_gemv_rows && n >= least_reuse,
       is_a_direct = is_direct(p.a, p.batch_axes, row_stride(p), p.a.strides.back(), type),
       copies_a = !is_a_direct && gains && can_copy(p.a, 0, type), has_direct_a = is_a_direct || copies_a;
  bool is_along_k = p.b.dtype == type && known_equal(b_inner, 1),
       is_weights = all_constant({p.n, p.k, b_rows, b_inner, p.b.offset}) && lowering.is_load_time(dot.inputs[1]) &&
                    is_repeated(leading(p.b, rank - 2)),
       packs_b = is_weights && (has_direct_a || !is_along_k || p.k.is_multiple_of(lanes)),
       copies_b = gains && has_direct_a && m >= least_reuse && work >= least_work &&
                  can_copy(p.b, p.batch_axes == 0 ? rank - 2 : 0, type);
  bool is_b_direct = is_direct(p.b, p.batch_axes, b_rows, b_inner, type);
  if (!is_b_direct && (packs_b || copies_b)) p.b = copied_along_k(lowering, p.b, dot.inputs[1], type);
  if (copies_a && (is_b_direct || packs_b || copies_b))
    p.a = lowering.copy_of(p.a, dot.inputs[0], "its product loads vectors of aligned rows", type, lanes);
}

/// Returns the order of axes in which the readers of the transposed result would need no copy, if nothing else reads it.
std::vector<size_t> order_of_reader(const Region& region) {
  Value result = region.outputs.size() == 1 ? region.outputs[0] : Value{};
  Instruction* reader = result && result.def->users.size() == 1 ? result.def->users[0] : nullptr;
  const auto* turn = reader ? reader->as<Transpose>() : nullptr;
  if (!turn || result.def->parent->is_result(result)) return {};
  View turned = *apply_view(contiguous_view(BufferId(0), result.shape()), *reader);
  bool is_dense = known_equal(turned.strides.back(), 1);
  auto reads_rows = [](const Instruction* user, const Instruction* rows) {
    return user->is<Dot>() && user->inputs[0].def == rows;
  };
  auto needs_copy = [&](const Instruction* user) {
    if (!user->is<Reshape>()) return !is_dense && reads_rows(user, reader);
    auto is_row_reader = [&](const Instruction* next) { return reads_rows(next, user); };
    return !apply_view(turned, *user) || (!is_dense && std::ranges::any_of(user->users, is_row_reader));
  };
  if (!std::ranges::any_of(reader->users, needs_copy)) return {};
  return {turn->permutation.begin(), turn->permutation.end()};
}

/// Lets the kernel store its result as the reader wants it. If rows become the last axis, multiplies B^T by A^T.
void store_as_read(const Lowering& lowering, const Region& region, Product& p) {
  std::vector<size_t> wanted = order_of_reader(region);
  size_t rank = p.b.dims.size();
  if (wanted.empty() || !p.order.empty()) return;
  bool turns = wanted.back() == rank - 2,
       is_fixed = std::ranges::any_of(region.anchor->inputs, [&](const Value& input) {
         return lowering.is_load_time(input);  // copies of constants are made early and know their operand by its place
       });
  if (turns && (is_fixed || p.batch_axes + 2 != rank || !known_equal(p.b.strides[rank - 2], 1))) return;
  if (!turns && wanted.back() != rank - 1) return;
  p.stored = std::move(wanted);
  if (!turns) return;
  for (size_t axis = 0; axis < rank; ++axis) p.order.push_back(axis);
  std::swap(p.order[rank - 2], p.order[rank - 1]);
  View rows = permuted(p.b, p.order);
  p.b = permuted(p.a, p.order), p.a = std::move(rows);
  std::swap(p.m, p.n);
}

/// The kernel of a product: header, call and launch parameters.
struct ProductKernel {
  std::string header, call;
  Dim blocks = 0;
  int threads = tasks::block_threads, shared = 0, cluster = 1, occupancy = 0;
  int columns = tasks::gemm_lanes;  ///< columns per call of the epilogue
  bool waits_itself = false;
  std::string reason = {};
  std::optional<BlockTile> split_k = {};  ///< set if its blocks store partial sums
  TileChoice choice = {};                 ///< its tile, and larger tiles for more work
};

/// Returns the GEMV on NVIDIA's matrix unit; nothing if this kernel cannot compute the product, for example if normed
/// rows do not fit in registers.
std::optional<ProductKernel> ring_kernel(const Lowering& lowering, const GpuProduct& p, int64_t rows, int matrices,
                                         bool normed) {
  const int64_t most_normed = 32, least_k = matrices > 2 || rows > max_gemv_rows ? 8 : 512;
  bool is_16_bits = p.type == DType::f16 || p.type == DType::bf16;
  if (!is_16_bits || !known_equal(p.batch, 1) || !p.k.is_constant() || p.k.value() < least_k) return std::nullopt;
  auto shape = ring_shape(lowering, {.n = p.n, .k = p.k.value(), .matrices = matrices}, p.m, rows);
  if (!shape || (normed && shape->steps * shape->rows > most_normed)) return std::nullopt;
  return ProductKernel{.header = "gemv_mma.h",
                       .call = cat("gemv_mma<", kernel_type(p.type), ", ", shape->rows, ", ", shape->stages, ", ",
                                   shape->steps, ", ", p.ahead, ">"),
                       .blocks = shape->blocks,
                       .threads = shape->threads,
                       .shared = shape->shared_bytes,
                       .occupancy = shape->occupancy,
                       .columns = tasks::ring_lanes(matrices),
                       .waits_itself = p.ahead,
                       .reason = "few rows: read B once, on the matrix unit"};
}

/// Returns the gemv kernel that multiplies `rows` rows of direct operands at a time; nothing for other products.
std::optional<ProductKernel> gemv_kernel(const Lowering& lowering, const GpuProduct& p, int64_t rows, int matrices = 1,
                                         bool normed = false) {
  const int64_t most = matrices > 1 ? tasks::ring_rows : max_gemv_rows;
  bool is_few = rows >= 1 && rows <= most;
  if (!p.direct || !is_few || !p.k.is_multiple_of(tasks::vector_bits / bits(p.type))) return std::nullopt;
  if (auto kernel = ring_kernel(lowering, p, rows, matrices, normed)) return kernel;
  GemvShape f = gemv_shape(lowering, typical_size(p.batch * p.n) * matrices, typical_size(p.k),
                           tasks::vector_bits / bits(p.type));
  int columns = std::max(f.columns / matrices, 1);
  return ProductKernel{
      .header = "gemv_gpu.h",
      .call = cat("gemv_gpu<", kernel_type(p.type), ", ", rows, ", ", columns, ", ", f.at_once, ", ", p.ahead, ">"),
      .blocks = p.batch * ceildiv(p.m, rows) * ceildiv(p.n, columns),
      .threads = f.threads,
      .columns = columns,
      .waits_itself = p.ahead,
      .reason = cat("few rows: read B once, ", columns, " columns a block")};
}

ProductKernel tile_kernel(const Lowering& lowering, const GpuProduct& p, const BlockTile& tile) {
  bool adds = adds_parts(lowering.gpu(), tile);
  bool is_odd = tile.groups && tile.split == 1 && p.n.is_constant() &&
                p.n.value() % tasks::gemm_lanes != 0;  // the result's rows are not aligned
  int columns = is_odd ? 1 : tasks::gemm_lanes;
  return ProductKernel{.header = "gemm_gpu.h",
                       .call = cat("gemm_gpu<", kernel_type(p.type), ", ", tile_text(tile), ", ", columns, ">"),
                       .blocks = tile_blocks(lowering, tile, p.type, p.batch, p.m, p.n),
                       .threads = tile.threads(lowering.gpu().wave),
                       .shared = tasks::shared_bytes(tile, bits(p.type)),
                       .cluster = adds ? 1 : tile.split,
                       .occupancy = tile_occupancy(tile, p.type),
                       .columns = columns,
                       .waits_itself = tile.ahead,
                       .split_k = adds ? std::optional(tile) : std::nullopt};
}

/// Returns the gemv kernel for one row, for products with a symbolic number of rows, as in text generation.
std::optional<ProductKernel> one_row_kernel(const Lowering& lowering, GpuProduct p, const TileChoice& chosen) {
  if (chosen.work != p.m || p.m.lower_bound() > 1) return std::nullopt;
  Dim rows = std::exchange(p.m, 1);
  auto kernel = gemv_kernel(lowering, p, 1);
  if (kernel) kernel->blocks = kernel->blocks * min(rows, 1);  // no blocks for no rows
  return kernel;
}

/// Chooses a kernel or a library call for a product.
std::variant<ProductKernel, LibraryOffer> product_kernel(Lowering& lowering, const GpuProduct& p) {
  if (auto few = gemv_kernel(lowering, p, p.m.constant().value_or(0))) return *few;
  TileChoice chosen = choose_tile(lowering, p);
  if (chosen.offer) return *chosen.offer;
  std::string in_tiles = cat("matrix product in ", describe(chosen));
  auto one_row = one_row_kernel(lowering, p, chosen);
  if (one_row) chosen.larger.insert(chosen.larger.begin(), {chosen.tile, 2});
  ProductKernel kernel = one_row ? *one_row : tile_kernel(lowering, p, chosen.tile);
  kernel.reason = one_row ? cat(one_row->reason, "; from work 2 on ", in_tiles) : std::move(in_tiles);
  kernel.choice = std::move(chosen);
  return kernel;
}

}  // namespace

bool is_constant(Lowering& lowering, const View& view) {
  BufferKind kind = lowering.plan().buffers[view.buffer].kind;
  return kind == BufferKind::constant || kind == BufferKind::persistent;
}

namespace {

/// Returns the line that declares W, the columns per call of the epilogue.
std::string columns_text(const ProductKernel& kernel) { return cat("constexpr int W = ", kernel.columns, ";"); }

PlanStep product_launch(Lowering& lowering, KernelBuilder& kernel, const ProductKernel& main, DType type) {
  kernel.set_grid(main.blocks, main.threads, main.shared, main.cluster);
  kernel.set_occupancy(main.occupancy);
  if (main.waits_itself) kernel.set_waits_itself();
  return kernel.finish(lowering.plan(), cat("dot_", type));
}

/// Writes the kernel of a product from the texts of its operands. The kernel computes the epilogue of `region`; with
/// `parts`, it only stores the partial sums of split k.
void write_product(Lowering& lowering, const Region& region, const Product& p, const ProductKernel& main,
                   KernelBuilder& kernel, const std::string& a, const std::string& b, DType type,
                   const SplitKSums* parts = nullptr) {
  std::string sizes = cat(kernel.size(p.batch), ", ", kernel.size(p.m), ", ", kernel.size(p.n), ", ", kernel.size(p.k));
  kernel.line(columns_text(main));
  kernel.line(main.call, "(WEFT_LAUNCH, {", sizes, "}, ", a, ",");
  kernel.line("    ", b, ",");
  if (parts) {
    kernel.line("    [&]([[maybe_unused]] i64 at, [[maybe_unused]] i64 row, [[maybe_unused]] i64 col, auto acc, ",
                "auto lanes) WEFT_LAMBDA {");
    store_part(kernel, *parts);
    kernel.line("});");
  } else {
    kernel.line("    epilogue([&]([[maybe_unused]] i64 at, [[maybe_unused]] i64 row, [[maybe_unused]] i64 col, ",
                "auto lanes) WEFT_LAMBDA {");
    Iteration iteration = result_iteration(region.dims, p);
    iteration.after_loads = epilogue_end;
    lowering.emit_epilogue(kernel, region, std::move(iteration), "acc", sum_type(type), p.order);
    kernel.line("  }; }));");
  }
}

void add_product(Lowering& lowering, const Region& region, const Product& p, PlanStep step, std::string reason) {
  step.flops = p.batch * p.m * p.n * p.k * Dim(2 + 2 * std::ssize(region.siblings));
  lowering.add_step(std::move(step), std::move(reason));
}

/// Returns the text of an operand that applies a norm to its rows while they are read.
std::string normed_text(Lowering& lowering, KernelBuilder& kernel, const std::string& rows, const RowNorm& norm) {
  View gain = lowering.view_of(norm.gain);
  std::string at = cat("raw(", kernel.buffer(gain.buffer, gain.dtype, false), ") + ", kernel.size(gain.offset));
  kernel.before_wait(cat("fetch_ahead(WEFT_LAUNCH, ", at, ", ", kernel.size(gain.dims.back()), ");"));
  kernel.name_part("rms_norm");
  return cat("normed_rows(", rows, ", ", at, ", ", number_text(DType::f32, norm.epsilon), ")");
}

/// Returns the text of a constant matrix that rows multiply, B along k. Both directions of a network share a kernel,
/// whether or not their matrix is the first of its buffer.
std::string matrix_text(KernelBuilder& kernel, const View& b, DType type) {
  return cat("direct_rows<", kernel_type(type), ">([&]([[maybe_unused]] i64 at, i64 row) WEFT_LAMBDA { return raw(",
             kernel.buffer(b.buffer, b.dtype, false), ") + ", kernel.number(b.offset), " + row * ",
             kernel.number(b.strides.back()), "; })");
}

/// A kernel of products side by side, for at least `from` rows.
struct RowsKernel {
  int64_t from;
  ProductKernel kernel;
};

/// Returns the kernels for products side by side, `count` matrices: one for a fixed number of rows, else those that
/// multiply one, four or eight rows at a time, and tiles for many rows. `tiled`: A can be loaded as it is.
std::vector<RowsKernel> side_by_side(Lowering& lowering, const GpuProduct& p, int count, bool normed, bool tiled) {
  constexpr int64_t many = 65;  // from here on, tiles read less of B
  std::vector<RowsKernel> kernels;
  auto add = [&](int64_t from, const GpuProduct& rows, int64_t at_once) {
    auto kernel = gemv_kernel(lowering, rows, at_once, count, normed);
    check(kernel.has_value(), "only products of few rows take in others");
    if (count > 1) kernel->reason += cat(", ", count, " matrices side by side");
    kernels.push_back({from, *kernel});
  };
  if (p.m.is_constant()) return add(0, p, p.m.value()), kernels;
  for (int64_t rows : {1, 4}) {
    GpuProduct few = p;
    few.m = rows;
    add(rows == 1 ? 0 : 2, few, rows);
    Dim& blocks = kernels.back().kernel.blocks;
    blocks = blocks * min(p.m, 1);  // no blocks for no rows
  }
  add(5, p, tasks::ring_rows);
  const int each = count == 2 ? 4 : 2;  // columns of a matrix in a call of the epilogue
  check(p.n.is_constant() && p.n.value() % each == 0, "open numbers of rows have whole groups of columns");
  GpuProduct all = p;
  all.n = floordiv(p.n, each) * Dim(tasks::gemm_lanes), all.direct = tiled;
  TileChoice chosen = choose_tile(lowering, all);
  auto add_tile = [&](int64_t from, const BlockTile& tile) {
    ProductKernel kernel = tile_kernel(lowering, all, tile);
    kernel.call = cat("gemm_side_by_side<", kernel_type(p.type), ", ", tile_text(tile), ">");
    kernel.columns = each;
    if (kernels.back().from == from) kernels.pop_back();
    kernels.push_back({from, std::move(kernel)});
  };
  add_tile(many, chosen.tile);
  for (const TileChoice::Larger& larger : chosen.larger) add_tile(std::max(larger.from, many), larger.tile);
  return kernels;
}

/// Lowers products of few rows that have joined products or a norm (gpu/gemv.h). Their matrices are constant, so they
/// can be stored in any layout.
void lower_gemv(Lowering& lowering, const Region& region) {
  std::vector<const Instruction*> dots{region.anchor};
  dots.insert(dots.end(), region.siblings.begin(), region.siblings.end());
  std::optional<RowNorm> norm = norm_of_rows(region);
  Value rows = norm ? norm->x : region.anchor->inputs[0];
  DType type = lowering.product_type(*region.anchor);
  for (const Instruction* dot : dots)
    if (lowering.product_type(*dot) != type) type = DType::f32;  // a number in one of the matrices overflows f16
  std::vector<Product> products;
  for (const Instruction* dot : dots) {
    products.push_back(as_product(lowering, *dot, rows));
    View& b = products.back().b;
    if (!is_direct(b, 0, b.strides.back(), b.strides[b.strides.size() - 2], type))
      b = copied_along_k(lowering, b, dot->inputs[1], type);
  }
  Product& p = products[0];
  View loaded = p.a;
  if (!norm && p.a.dtype == DType::f32) loaded.dtype = type;  // converted by the kernel: a state that is a result
  if (!is_direct(loaded, 0, row_stride(p), p.a.strides.back(), type))
    p.a = lowering.copy_of(p.a, rows, "a product of few rows reads them as they are multiplied", type);
  int count = static_cast<int>(dots.size());
  bool ahead = std::ranges::all_of(products, [&](const Product& one) { return is_constant(lowering, one.b); });
  check(p.batch_axes == 0, "only products of few rows take in others");
  std::vector<RowsKernel> kernels =
      side_by_side(lowering, {.type = type, .direct = true, .m = p.m, .n = p.n, .k = p.k, .ahead = ahead}, count,
                   norm.has_value(), p.a.dtype == type);
  ProductKernel& main = kernels[0].kernel;

  KernelBuilder kernel(main.header);
  std::string a = operand_text(kernel, p.a, 0, row_stride(p), p.a.strides.back(), p.a.dtype), b;
  if (norm) a = normed_text(lowering, kernel, a, *norm);
  for (const Product& product : products) {
    std::string text = matrix_text(kernel, product.b, type);
    b = b.empty() ? text : cat("twins(", b, ", ", text, ")");
  }
  if (norm) main.reason += ", rows normed on their way";
  write_product(lowering, region, p, main, kernel, a, b, type);
  auto launch = [&](const ProductKernel& one) {
    KernelBuilder same = kernel;
    same.set_header(one.header);
    same.replace(main.call, one.call);
    same.replace(columns_text(main), columns_text(one));
    return product_launch(lowering, same, one, type);
  };
  PlanStep step = launch(main);
  for (size_t i = 1; i < kernels.size(); ++i) add_variant(step, launch(kernels[i].kernel), kernels[i].from);
  if (kernels.size() > 1) {
    launch_of(step).work = p.m;
    main.reason += "; from 2, 5 and 65 rows on other kernels";
  }
  add_product(lowering, region, p, std::move(step), main.reason);
}

}  // namespace

void lower_dot_on_gpu(Lowering& lowering, const Region& region) {
  if (!region.siblings.empty() || !region.prologue.empty()) return lower_gemv(lowering, region);
  const Instruction& dot = *region.anchor;
  Product p = as_product(lowering, dot, dot.inputs[0]);
  DType type = lowering.product_type(dot);
  store_as_read(lowering, region, p);
  make_direct(lowering, dot, p, type);
  size_t rank = p.b.dims.size();
  Dim a_rows = row_stride(p), b_rows = p.b.strides[rank - 1];
  bool direct = is_direct(p.a, p.batch_axes, a_rows, p.a.strides.back(), type) &&
                is_direct(p.b, p.batch_axes, b_rows, p.b.strides[rank - 2], type);
  std::vector<LibraryOffer> offers;
  if (direct) offers = product_offers(lowering, region, p, type);
  GpuProduct product{.type = type,
                     .direct = direct,
                     .batch = p.batch,
                     .m = p.m,
                     .n = p.n,
                     .k = p.k,
                     .ahead = is_constant(lowering, p.b),
                     .epilogue = region.epilogue.empty() ? "" : " fused",
                     .offers = offers,
                     .may_share = may_split_k(lowering, region, {p.batch, p.m, p.n, p.k}),
                     .reads_matrix = reads_matrix(lowering, region)};
  auto main = product_kernel(lowering, product);
  if (const auto* offer = std::get_if<LibraryOffer>(&main)) return lower_library_product(lowering, region, p, *offer);
  const auto& own = std::get<ProductKernel>(main);
  std::optional<SplitKSums> parts;
  if (own.split_k) parts = new_split_k_sums(lowering, region, sum_type(type), *own.split_k, {p.batch, p.m, p.n});
  KernelBuilder kernel(own.header);
  std::string a = operand_text(kernel, p.a, p.batch_axes, a_rows, p.a.strides.back(), type),
              b = operand_text(kernel, p.b, p.batch_axes, b_rows, p.b.strides[rank - 2], type);
  write_product(lowering, region, p, own, kernel, a, b, type, parts ? &*parts : nullptr);
  auto with_tile = [&](const BlockTile& tile) {
    ProductKernel other = tile_kernel(lowering, product, tile);
    KernelBuilder same = kernel;
    same.set_header(other.header);
    same.replace(own.call, other.call);
    same.replace(columns_text(own), columns_text(other));
    return product_launch(lowering, same, other, type);
  };
  KernelBuilder first = kernel;
  PlanStep step = with_variants(product_launch(lowering, first, own, type), own.choice, with_tile);
  add_product(lowering, region, p, std::move(step), own.reason);
  if (parts) add_parts(lowering, region, *parts, result_iteration(region.dims, p), p.order);
}

}  // namespace weft
