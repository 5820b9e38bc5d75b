// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/launch.h"
#include "plan/plan.h"

namespace weft {

/// A run of kernels that were compiled with checks (WEFT_CHECKED). Runs one task after another, so that every access
/// can be compared with the writes of earlier tasks and steps. Finds accesses outside a buffer, reads of unwritten
/// bytes, and races: two tasks of one step access the same bytes, at least one of them for writing. Finds races even
/// though the tasks do not run at the same time.
class CheckedRun {
 public:
  using Entry = void(const LaunchArgs*, i64 begin, i64 end);

  explicit CheckedRun(PerBuffer<int64_t> bytes) : bytes_(std::move(bytes)), stamps_(bytes_.size()) {}

  /// Marks the buffer as unwritten and fills its memory with NaNs. For buffers without such a call (inputs, constants),
  /// the run finds only accesses outside their bounds.
  void begin(BufferId buffer, std::byte* memory);
  /// Sets the size of a buffer once the run has computed it. If it changes, reads of unwritten bytes are not detected.
  void resize(BufferId buffer, int64_t bytes);
  /// Swaps the states of two buffers, as a SwapStep swaps the buffers.
  void swap(BufferId a, BufferId b);
  /// Marks these buffers as written by the host.
  void written(std::span<const BufferId> buffers);
  /// Runs a step on `buffers`; `args` has the buffers' addresses, the step's sizes and scratch memory. Returns the
  /// first fault, or none.
  KernelFault run(Entry* entry, LaunchArgs args, std::span<const BufferId> buffers, int64_t tasks);

 private:
  PerBuffer<int64_t> bytes_;
  PerBuffer<std::vector<uint32_t>> stamps_;
  uint32_t last_ = 0;  // stamp of the last task or host write
};

}  // namespace weft
