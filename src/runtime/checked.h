// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/launch.h"

namespace weft {

/// Runs kernels that were compiled with checks (WEFT_CHECKED): one task after another, so that every access can be
/// compared with what the tasks and steps before have written. Found are accesses outside a buffer, reads of what
/// nobody wrote, and bytes that two tasks of one step touch, one of them writing, on any number of threads or on one.
class CheckedRun {
 public:
  using Entry = void(const LaunchArgs*, i64 begin, i64 end);

  /// `bytes` of each buffer.
  explicit CheckedRun(std::vector<int64_t> bytes) : bytes_(std::move(bytes)), stamps_(bytes_.size()) {}

  /// From now on nothing in the buffer is written; its memory is filled with NaNs. Buffers that were never begun
  /// (inputs, constants) are checked for their bounds only.
  void begin(int buffer, std::byte* memory);
  /// The buffer has `bytes` from now on, where only the run itself tells; what it holds is not checked for being
  /// written.
  void resize(int buffer, int64_t bytes);
  /// Two buffers change places.
  void swap(int a, int b);
  /// All of these buffers has been written by the host.
  void written(std::span<const int> buffers);
  /// Runs a step over `buffers`; `args` has their addresses, sizes and scratch. The first fault, or none.
  KernelFault run(Entry* entry, LaunchArgs args, std::span<const int> buffers, int64_t tasks);

 private:
  std::vector<int64_t> bytes_;
  std::vector<std::vector<uint32_t>> stamps_;
  uint32_t last_ = 0;  // stamp of the last task
};

}  // namespace weft
