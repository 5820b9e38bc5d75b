// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <vector>

#include "lower/regions.h"

namespace weft {

class Lowering;

/// Work that products of few rows (kernels/gemv_gpu.h) take over on GPUs, where launches limit such programs.

/// Joins two products of the same rows by constant matrices of the same sizes, if only the epilogue of one reads the
/// other (a gate and its input): one launch reads both matrices, and the value between them is never stored.
void join_twins(const Lowering& lowering, std::vector<Region>& regions);

/// rows = x / sqrt(mean(x^2) + epsilon) * gain, over the last axis.
struct RowNorm {
  Value x, gain;
  double epsilon;
};
/// An RMS norm that only such products read becomes the prologue of each of them.
void take_norms(Lowering& lowering, std::vector<Region>& regions);
/// The norm in a product's prologue.
std::optional<RowNorm> norm_of_rows(const Region& region);

}  // namespace weft
