// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <optional>

#include "lower/gpu/library.h"
#include "lower/lowering.h"

/// Lowering of matrix products and convolutions for GPUs.
namespace weft {

struct Window;

/// Lowers a channels-last convolution. The caller sets all members of `window` but `pixel`.
void lower_convolution_on_gpu(Lowering& lowering, const Region& region, Window window);

using tasks::BlockTile;

/// True if k is split among blocks outside a cluster, so that a second kernel must add the partial sums.
bool adds_parts(const GpuModel& gpu, const BlockTile& tile);
/// Returns the tile as C++: "BlockTile{128, 128, 32, 2, 4, 1, 1, false, false, false}".
std::string tile_text(const BlockTile& tile);
/// Returns the tile in words: "blocks of 64 x 128, warp groups, split k 4".
std::string describe(const BlockTile& tile);
struct TileChoice;
/// Returns the tiles for all amounts of work in words: "blocks of 64 x 64; from work 400 on blocks of 128 x 128".
std::string describe(const TileChoice& choice);
/// Returns a number for a size, for the choice of kernels: each symbol counts as `each`, clamped to its bounds.
int64_t typical_size(const Dim& size, int64_t each = 16);

/// True if no step of a run writes the elements of the view (weights, for example).
bool is_constant(Lowering& lowering, const View& view);

/// The most rows of a product that uses gemv_gpu.h, whose kernel reads B once; gates of a cell may have
/// tasks::ring_rows.
inline constexpr int64_t max_gemv_rows = 4;

/// Template arguments of kernels/gemv_gpu.h: columns that a block computes (of all matrices together, if B is twins),
/// loads in flight per thread, threads per block.
struct GemvShape {
  int columns = 4, at_once = 1, threads = tasks::block_threads;
};
/// Chooses the shape of a GEMV kernel for B of n x k; a thread loads `lanes` elements at a time.
GemvShape gemv_shape(const Lowering& lowering, int64_t n, int64_t k, int lanes);
/// Bytes of shared memory of a Hopper GPU's compute unit; one block may use all of them.
inline constexpr int hopper_shared_bytes = 227 * 1024;
/// Template arguments and launch of kernels/gemv_mma.h.
struct RingShape {
  int rows = 1, stages = 3, steps = 1, threads = tasks::block_threads, shared_bytes = 0, occupancy = 2;
  Dim blocks = 0;
};
/// Weights of a product for gemv_mma.h: n rows of k weights, including the padding of a row's last block.
struct RingWeights {
  Dim n;
  int64_t k;
  int bits = 16, factor_bytes = 0;  ///< factor_bytes: bytes of the scales and zero points of a row in a step
  int matrices = 1;                 ///< more for twins
};
/// Returns the shape for `m` rows of 16-bit floats, of which a block multiplies at most `at_once` at a time; nothing if
/// shared memory is too small or the GPU lacks NVIDIA's matrix unit.
std::optional<RingShape> ring_shape(const Lowering& lowering, const RingWeights& weights, const Dim& m,
                                    int64_t at_once);
/// Returns the text of an operand of gemm_gpu with strides for rows and for k; `direct_rows` if is_direct allows it.
std::string operand_text(KernelBuilder& kernel, const View& view, size_t batch_axes, const Dim& rows, const Dim& inner,
                         DType type);
/// True if the operand has this type, is dense along k, and its rows and batches start on multiples of 16 bytes.
bool is_direct(const View& view, size_t batch_axes, const Dim& rows, const Dim& inner, DType type);

/// A product for which a tile is chosen. `direct`: is_direct is true for both operands.
struct GpuProduct {
  DType type;
  bool direct = false;
  Dim batch = 1, m = 1, n = 1, k = 1;
  bool ahead = false;          ///< B is constant, so it can be loaded before the previous launch ends
  std::string family = "dot";  ///< kind of product in the measurements
  std::string epilogue = {};   ///< names of the fused instructions, part of the key of the measurements
  std::vector<LibraryOffer> offers = {};
  bool may_share = false;     ///< k may be split among blocks whose sums a second kernel adds
  bool has_windows = false;   ///< a row of A is a window of an image
  bool reads_matrix = false;  ///< the epilogue reads a matrix of C's size
};
struct TileChoice {
  BlockTile tile;                          ///< Weft's best tile; with an offer, the best that needs one kernel
  std::optional<LibraryOffer> offer = {};  ///< a library call that measured faster
  struct Larger {
    BlockTile tile;
    int64_t from;
  };
  Dim work = 0;                     ///< product of the symbolic sizes; `tile` is for work below larger.front().from
  std::vector<Larger> larger = {};  ///< sorted by `from`
};
/// Adds the launch `other`, which has the operands of `step`, to `step` as its variant for work of at least `from`.
void add_variant(PlanStep& step, PlanStep other, int64_t from);
/// Gives `step` another launch for each larger tile; `launch` makes that launch for the same operands.
PlanStep with_variants(PlanStep step, const TileChoice& choice,
                       const std::function<PlanStep(const BlockTile&)>& launch);
/// True if the epilogue reads a value of C's size, such as a residual, that runs compute.
bool reads_matrix(const Lowering& lowering, const Region& region);
/// Chooses a tile by measurements if there are any. Without them, a cost model chooses on Hopper for direct operands of
/// most types; other products take the largest tile whose blocks fill the GPU, if there is one.
TileChoice choose_tile(Lowering& lowering, const GpuProduct& product);
/// True if k may be split: `sizes` are constant and the product is computed in every run.
bool may_split_k(const Lowering& lowering, const Region& region, const Dims& sizes);

/// Partial sums of split k without a cluster: [batch][parts][m][n] of f32, of i32 for integers, or of f64. A second
/// kernel adds them in order and computes the epilogue. A library's product has one part.
struct SplitKSums {
  View view;
  DType type;
  Dim batch, m, n;
  int parts;
};
/// Makes the buffer of partial sums; `sizes`: batch, m and n.
SplitKSums new_split_k_sums(Lowering& lowering, const Region& region, DType type, const BlockTile& tile,
                            const Dims& sizes);
/// Writes the line of the product's kernel that stores `lanes` sums from `acc` at (at, row, col).
void store_part(KernelBuilder& kernel, const SplitKSums& sums);
/// Adds the kernel that sums the parts. `iteration` and `order` are those of Lowering::emit_epilogue; the iteration may
/// use the coordinates at, row, col and channel.
void add_parts(Lowering& lowering, const Region& region, const SplitKSums& sums, Iteration iteration,
               const std::vector<size_t>& order = {});

/// Returns the number of blocks for which the registers of a unit must suffice, or 0 for one block.
int tile_occupancy(const BlockTile& tile, DType type);
/// Returns the number of blocks for a product with this tile: one block for each tile and part of k. If blocks load a
/// tile while they store the previous tile (`streams`), returns at most the number of blocks that are resident at once.
Dim tile_blocks(const Lowering& lowering, const BlockTile& tile, DType type, const Dim& batch, const Dim& m,
                const Dim& n);
/// The line of an epilogue between its loads and its arithmetic (kernels/gemm_operand.h, Epilogue).
inline constexpr const char* epilogue_end = "  return [=](auto acc) WEFT_LAMBDA {";
}  // namespace weft
