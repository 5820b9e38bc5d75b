// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <vector>

#include "lower/regions.h"

namespace weft {

class Lowering;

/// What products of few rows (kernels/gemv_gpu.h) take in on GPUs: launches are what such programs wait for.

/// Two products of the same few rows by constant matrices of the same sizes, of which one is read by the other's
/// epilogue alone, become one region (a gate, and what it lets through): both matrices are read by one launch, and what
/// is between them is never stored.
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
