// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "runtime/arena.h"
#include "runtime/bind.h"

/// Sizes that share one captured graph. A graph holds addresses and grids, so both are planned for the upper end of a
/// bucket of sizes. Kernels read the sizes themselves from memory.
namespace weft {

/// The upper ends of the buckets of these values: powers of two and three numbers evenly between them, capped at a
/// symbol's maximum.
SymbolValues bucket_of(const SymbolValues& values, const Plan& plan);

/// Places, bytes and launches that suit all sizes up to those of a bucket.
struct BucketPlan {
  std::vector<int64_t> bytes;    ///< sufficient size of each buffer
  std::vector<int64_t> offsets;  ///< in the arena; inputs and outputs have their places there too
  std::vector<int> variants;     ///< of each step: the number of the one that is launched, -1 for the step's own kernel
  std::vector<int64_t> blocks;   ///< of the launched kernel
  std::vector<int64_t> work;     ///< of each step, at most
  int64_t arena_bytes = 0;

  /// Whether this plan has room for buffers of these sizes, and the right kernel variants for steps with this work.
  bool holds(const std::vector<int64_t>& wanted_bytes, const std::vector<int64_t>& wanted_work) const;
};

/// Bytes of every buffer at these sizes.
std::vector<int64_t> buffer_bytes(const Plan& plan, const SymbolValues& values);
/// LaunchStep::work of every step at these sizes; 0 of those without variants.
std::vector<int64_t> step_work(const Plan& plan, const SymbolValues& values);

/// Places every buffer, inputs and outputs included, in one arena. `bytes` are their sizes.
ArenaLayout place_on_device(const Plan& plan, std::span<const int64_t> bytes);

/// `values` are the actual sizes, `bound` the bucket's; expressions need not grow with the symbols, so the larger is
/// used.
BucketPlan plan_bucket(const Plan& plan, const SymbolValues& values, const SymbolValues& bound);

}  // namespace weft
