// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <mutex>
#include <vector>

#include "targets/gpu/device.h"

namespace weft {

/// A pool of pinned host memory for the inputs and results of runs. Freed blocks are reused for tensors of about the
/// same size, because new memory costs a page fault for every 4 KiB. Unpinned memory is slower, because the driver
/// copies it through an internal buffer.
class PinnedPool : public std::enable_shared_from_this<PinnedPool> {
 public:
  static constexpr int64_t min_bytes = int64_t{64} << 10, max_held_bytes = int64_t{512} << 20;

  explicit PinnedPool(std::shared_ptr<gpu::Device> device) : device_(std::move(device)) {}

  /// Returns at least `bytes` bytes. Returns null if `bytes` is below `min_bytes`, the pool would exceed
  /// `max_held_bytes`, or the driver has no memory; the caller then uses plain memory. Thread-safe.
  std::shared_ptr<std::byte> take(int64_t bytes);

 private:
  gpu::PinnedMemory find(int64_t bytes);
  gpu::PinnedMemory allocate(int64_t bytes);
  void give_back(gpu::PinnedMemory block);

  std::shared_ptr<gpu::Device> device_;
  std::mutex mutex_;
  std::vector<gpu::PinnedMemory> free_;
  int64_t held_ = 0;  // bytes of all blocks, in use or free
};

}  // namespace weft
