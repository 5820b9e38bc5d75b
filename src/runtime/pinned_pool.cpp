// SPDX-License-Identifier: Apache-2.0
#include "runtime/pinned_pool.h"

#include <algorithm>

#include "base/error.h"

namespace weft {

std::shared_ptr<std::byte> PinnedPool::take(int64_t bytes) {
  if (bytes < min_bytes || bytes > max_held_bytes) return nullptr;
  gpu::PinnedMemory block = find(bytes);
  if (!block.data()) block = allocate((bytes + min_bytes - 1) / min_bytes * min_bytes);
  std::byte* data = block.data();
  if (!data) return nullptr;
  auto owner = std::make_shared<gpu::PinnedMemory>(std::move(block));
  return {data, [pool = shared_from_this(), owner](std::byte*) { pool->give_back(std::move(*owner)); }};
}

/// Returns the smallest free block that is large enough, but at most twice as large.
gpu::PinnedMemory PinnedPool::find(int64_t bytes) {
  std::scoped_lock lock(mutex_);
  auto best = free_.end();
  for (auto at = free_.begin(); at != free_.end(); ++at) {
    bool fits = at->bytes() >= bytes && at->bytes() <= 2 * std::max(bytes, min_bytes);
    if (fits && (best == free_.end() || at->bytes() < best->bytes())) best = at;
  }
  if (best == free_.end()) return {};
  gpu::PinnedMemory block = std::move(*best);
  free_.erase(best);
  return block;
}

gpu::PinnedMemory PinnedPool::allocate(int64_t bytes) {
  std::scoped_lock lock(mutex_);
  while (held_ + bytes > max_held_bytes && !free_.empty()) {  // frees blocks of other sizes
    held_ -= free_.front().bytes();
    free_.erase(free_.begin());
  }
  if (held_ + bytes > max_held_bytes) return {};
  try {
    gpu::PinnedMemory block(device_, bytes);
    held_ += bytes;
    return block;
  } catch (const Error&) {
    return {};
  }
}

void PinnedPool::give_back(gpu::PinnedMemory block) {
  std::scoped_lock lock(mutex_);
  free_.push_back(std::move(block));
}

}  // namespace weft
