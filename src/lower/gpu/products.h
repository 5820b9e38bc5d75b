// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <optional>

#include "lower/gpu/library.h"
#include "lower/lowering.h"

/// Lowering of matrix products and convolutions for GPUs.
namespace weft {

struct Window;

/// Lowers a convolution in the channels-last layout. All members of `window` but `pixel` are set.
void lower_convolution_on_gpu(Lowering& lowering, const Region& region, Window window);

using tasks::BlockTile;

/// Whether k is split among blocks that are not a cluster: a second kernel adds their sums.
bool adds_parts(const GpuModel& gpu, const BlockTile& tile);
/// The tile in C++: "BlockTile{128, 128, 32, 2, 4, 1, 1, false, false}".
std::string tile_text(const BlockTile& tile);
/// The tile in words: "blocks of 64 x 128, warp groups, split k 4".
std::string describe(const BlockTile& tile);
struct TileChoice;
/// The same for a choice with larger tiles from some TileChoice::work on: "blocks of 64 x 64; from work 400 on blocks
/// of 128 x 128"
std::string describe(const TileChoice& choice);
/// A number to choose by, for a size that may be symbolic: `each` for each symbol, or the nearest bound.
int64_t typical_size(const Dim& size, int64_t each = 16);

/// Whether no step of a run writes the view's elements.
bool is_constant(Lowering& lowering, const View& view);

/// The most rows of a product that reads B only once.
inline constexpr int64_t max_gemv_rows = 4;

/// The template arguments of kernels/gemv_gpu.h: columns of all matrices that a block computes, loads in flight, and
/// threads.
struct GemvShape {
  int columns = 4, at_once = 1, threads = tasks::block_threads;
};
/// The shape of a GEMV kernel for B of n x k; a thread loads `lanes` elements at a time.
GemvShape gemv_shape(const Lowering& lowering, int64_t n, int64_t k, int lanes);
/// The text of an operand of gemm_gpu with a stride for rows and one for k; `direct_rows` if possible.
std::string operand_text(KernelBuilder& kernel, const View& view, size_t batch_axes, const Dim& rows, const Dim& inner,
                         DType type);
/// Whether the operand needs no conversion: dense along k, with rows on multiples of 16 bytes.
bool is_direct(const View& view, size_t batch_axes, const Dim& rows, const Dim& inner, DType type);

/// A product for which a tile is chosen. `direct`: both operands need no conversion.
struct GpuProduct {
  DType type;
  bool direct = false;
  Dim batch = 1, m = 1, n = 1, k = 1;
  bool ahead = false;          ///< B is constant: it can be read before the previous launch is done
  std::string family = "dot";  ///< the family of its measurements
  std::string epilogue = {};   ///< the fused instructions after it; also a part of their key
  std::vector<LibraryOffer> offers = {};
  bool may_share = false;  ///< a second kernel may add the sums of split k
};
struct TileChoice {
  BlockTile tile;                          ///< Weft's best; with an offer, the best with one kernel
  std::optional<LibraryOffer> offer = {};  ///< a library measured to be faster
  struct Larger {
    BlockTile tile;
    int64_t from;
  };
  Dim work = 0;                     ///< if sizes are open: `tile` serves all work below `larger.front().from`
  std::vector<Larger> larger = {};  ///< sorted by where they begin
};
/// `step` with another launch for each larger tile; `launch` makes it for the same operands.
PlanStep with_variants(PlanStep step, const TileChoice& choice,
                       const std::function<PlanStep(const BlockTile&)>& launch);
/// Chooses by measurements if there are any. Else by the cost model (warp groups), or the largest tile whose blocks
/// fill the chip.
TileChoice choose_tile(Lowering& lowering, const GpuProduct& product);
/// Whether split k may help a product of these sizes: they are fixed, and it is computed in every run.
bool may_split_k(const Lowering& lowering, const Region& region, const Dims& sizes);

/// The partial sums of split k without a cluster: [batch][parts][m][n] of f32, or of the wider type in which integers and
/// f64 are summed. A second kernel adds them in order and computes the epilogue. A library's product has one part.
struct SplitKSums {
  View view;
  DType type;
  Dim batch, m, n;
  int parts;
};
/// `sizes`: batch, m and n.
SplitKSums new_split_k_sums(Lowering& lowering, const Region& region, DType type, const BlockTile& tile,
                            const Dims& sizes);
/// The line of the product's kernel that stores `lanes` sums `acc` of (at, row, col).
void store_part(KernelBuilder& kernel, const SplitKSums& sums);
/// `iteration` and `order` as of emit_epilogue, over the coordinates at, row and col, or channel = at * n + col.
void add_parts(Lowering& lowering, const Region& region, const SplitKSums& sums, Iteration iteration,
               const std::vector<size_t>& order = {});

/// The number of blocks for a product with this tile.
Dim tile_blocks(const BlockTile& tile, const Dim& batch, const Dim& m, const Dim& n);
}  // namespace weft
