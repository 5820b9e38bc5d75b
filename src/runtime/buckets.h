// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "runtime/arena.h"
#include "runtime/bind.h"

/// Ranges of sizes ("buckets") that share captured GPU graphs. A graph contains addresses and grid sizes, so both are
/// planned for the largest sizes of the bucket. Kernels read the actual sizes from memory.
namespace weft {

/// Rounds each size up to the end of its bucket: a power of two, or one of the three numbers evenly spaced between two
/// powers, at most the symbol's maximum. Sets `run_seed` to 0.
SymbolValues bucket_of(const SymbolValues& values, const Plan& plan);

/// The sizes and offsets of buffers, and the launches of steps, for all sizes up to those of a bucket.
struct BucketPlan {
  PerBuffer<int64_t> bytes;     ///< sufficient size of each buffer
  PerBuffer<int64_t> offsets;   ///< in the arena, in bytes, also of inputs and outputs
  PerStep<VariantId> variants;  ///< to launch; none: the step's own kernel
  PerStep<int64_t> blocks;      ///< number of blocks of the launched kernel
  PerStep<int64_t> work;        ///< the greatest LaunchStep::work of each step
  int64_t arena_bytes = 0;

  /// True if the plan has room for buffers of these sizes, and its variants were chosen for at least this work.
  bool holds(const PerBuffer<int64_t>& wanted_bytes, const PerStep<int64_t>& wanted_work) const;
};

/// Returns the bytes of every buffer at these sizes.
PerBuffer<int64_t> buffer_bytes(const Plan& plan, const SymbolValues& values);
/// Returns LaunchStep::work of every step at these sizes; 0 for steps without variants.
PerStep<int64_t> step_work(const Plan& plan, const SymbolValues& values);

struct DeviceLayout {
  PerBuffer<int64_t> offsets;
  int64_t bytes = 0;
};

/// Places the arena buffers, inputs and outputs in one arena. `bytes` are the sizes of all buffers.
DeviceLayout place_on_device(const Plan& plan, const PerBuffer<int64_t>& bytes);

/// Plans a bucket for the actual sizes `values` and the bucket's sizes `bound`. An expression may be smaller at `bound`
/// than at `values`, so the larger of both results is used.
BucketPlan plan_bucket(const Plan& plan, const SymbolValues& values, const SymbolValues& bound);

}  // namespace weft
