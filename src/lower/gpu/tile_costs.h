// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "lower/gpu/products.h"

/// The cost model of the tiles of matrix products on Hopper GPUs.
namespace weft {

/// A product's sizes as numbers, with guesses for symbols.
struct ProductNumbers {
  int64_t batch, m, n, k;
  int64_t blocks(const BlockTile& t) const {
    return batch * ((m + t.rows - 1) / t.rows) * ((n + t.cols - 1) / t.cols) * t.split;
  }
};

/// Returns how many blocks with this tile a compute unit of a Hopper GPU runs at once.
int hopper_blocks_of_unit(const BlockTile& t, DType type);
/// True if blocks should compute several tiles. A second block in the unit, if there is room for one, hides the stores
/// as well; the addresses of windows, or of the next tile where few registers are free, cost more than a stream saves.
bool should_stream(const GpuProduct& p, const ProductNumbers& numbers, const BlockTile& t, int units);
/// Estimates the cycles of a product with this tile on a Hopper GPU from matrix rate, L2 bandwidth and latency.
double hopper_cycles(const GpuProduct& p, const ProductNumbers& numbers, const BlockTile& t, int units);

}  // namespace weft
