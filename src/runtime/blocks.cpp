// SPDX-License-Identifier: Apache-2.0
#include "runtime/blocks.h"

#include <algorithm>
#include <bit>

#include "base/text.h"
#include "runtime/memory_limit.h"
#include "targets/cpu/memory.h"
#include "targets/gpu/device.h"

namespace weft {

/// Rounds up to one of eight steps between two powers of two, of at least 64 bytes each, so that blocks are reused
/// while sizes grow slowly.
static int64_t rounded(int64_t bytes) {
  auto wanted = static_cast<uint64_t>(std::max<int64_t>(bytes, 64));
  uint64_t step = std::max<uint64_t>(std::bit_floor(wanted) / 8, 64);
  uint64_t most = static_cast<uint64_t>(INT64_MAX) - step;
  return wanted > most ? bytes : static_cast<int64_t>((wanted + step - 1) / step * step);
}

template <class Memory>
Memory BlockPool<Memory>::take(int64_t bytes, int64_t most) {
  auto fits = std::ranges::lower_bound(free_, bytes, {}, &Memory::bytes);
  if (fits != free_.end()) {
    Memory block = std::move(*fits);
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
  Memory block = make_(std::min(rounded(bytes), most - bytes_));
  bytes_ += block.bytes();
  return block;
}

template <class Memory>
void BlockPool<Memory>::give_back(Memory block) {
  auto place = std::ranges::upper_bound(free_, block.bytes(), {}, &Memory::bytes);
  free_.insert(place, std::move(block));
}

template class BlockPool<AlignedMemory>;
template class BlockPool<gpu::Memory>;

}  // namespace weft
