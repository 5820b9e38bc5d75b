// SPDX-License-Identifier: Apache-2.0
#include "runtime/blocks.h"

#include <algorithm>
#include <bit>

#include "base/text.h"
#include "runtime/memory_limit.h"

namespace weft {

/// Rounded up by at most an eighth, so that sizes that grow step by step find blocks again.
static int64_t rounded(int64_t bytes) {
  auto wanted = static_cast<uint64_t>(std::max<int64_t>(bytes, 64));
  uint64_t step = std::max<uint64_t>(std::bit_floor(wanted) / 8, 64);
  uint64_t most = static_cast<uint64_t>(INT64_MAX) - step;
  return wanted > most ? bytes : static_cast<int64_t>((wanted + step - 1) / step * step);
}

AlignedMemory BlockPool::take(int64_t bytes, int64_t most) {
  auto fits = std::ranges::lower_bound(free_, bytes, {}, &AlignedMemory::bytes);
  if (fits != free_.end()) {
    AlignedMemory block = std::move(*fits);
    free_.erase(fits);
    return block;
  }
  auto drop = [&] {
    bytes_ -= free_.back().bytes();
    free_.pop_back();
  };
  if (!free_.empty()) drop();
  while (!free_.empty() && bytes_ > most - bytes) drop();
  if (bytes_ > most - bytes) {
    refuse_memory(cat("tensors that grow while the model runs need ", (bytes_ + bytes) >> 20,
                      " MiB and more, the memory limit leaves ", most >> 20, " MiB for them"));
  }
  AlignedMemory block(rounded(bytes), allocator_);
  bytes_ += block.bytes();
  return block;
}

void BlockPool::give_back(AlignedMemory block) {
  auto place = std::ranges::upper_bound(free_, block.bytes(), {}, &AlignedMemory::bytes);
  free_.insert(place, std::move(block));
}

}  // namespace weft
