// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "lower/lowering.h"

/// How the families with matrix cores are lowered for GPUs.
namespace weft {

struct Window;

void lower_dot_on_gpu(Lowering& lowering, const Region& region);
/// Channels-last; `x` has evenly spaced pixels.
void lower_convolution_on_gpu(Lowering& lowering, const Region& region, const Window& window, const View& x);

/// The piece of the result that a block of kernels/gemm_gpu.h makes.
struct GpuTile {
  int rows, cols, depth, waves_m, waves_n;
  int stages = 1;
  int threads(int wave) const { return waves_m * waves_n * wave; }
};
/// "BlockTile{128, 128, 32, 2, 4, 1}"
std::string tile_text(const GpuTile& tile);
/// Dynamic shared memory of a block whose operands are copied past the registers (NVIDIA, 16-bit and 8-bit elements).
int shared_bytes(const GpuTile& tile, DType type);
/// The tile with as many stages as pay on this chip, for operands that lie in memory as they are multiplied.
GpuTile with_stages(const Lowering& lowering, GpuTile tile, DType type);
/// Compute units that a kernel should fill: of the chip's usual model.
int compute_units(const Chip& chip);
/// The tile for a product of elements of this type: the largest of which there are enough to fill the chip.
GpuTile choose_tile(const Lowering& lowering, DType type, const Dim& batch, const Dim& m, const Dim& n);
/// Blocks of that tile.
Dim tile_blocks(const GpuTile& tile, const Dim& batch, const Dim& m, const Dim& n);
}  // namespace weft
