// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <vector>

#include "lower/regions.h"

namespace weft {

class Lowering;

/// Fusions into products of few rows on GPUs (kernels/gemv_gpu.h), to save launches, which take much of the time.

/// Joins two products of the same rows with constant matrices of equal sizes (gate and up in an MLP), if only the
/// epilogue of the second product reads the first. One launch then computes both and does not store the first.
void join_twins(const Lowering& lowering, std::vector<Region>& regions);

/// The norm rows = x / sqrt(mean(x^2) + epsilon) * gain, over the last axis.
struct RowNorm {
  Value x, gain;
  double epsilon;
};
/// If only products of few rows read an RMS norm, moves the norm into the prologue of each of these products.
void take_norms(Lowering& lowering, std::vector<Region>& regions);
/// Returns the norm in the prologue of a product, if there is one.
std::optional<RowNorm> norm_of_rows(const Region& region);

}  // namespace weft
