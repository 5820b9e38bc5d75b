// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "targets/cpu/memory.h"

namespace weft {

/// Blocks for tensors whose size is only known during the run. What is given back serves later requests, of this run
/// and of the next ones, so that a steady state allocates nothing.
class BlockPool {
 public:
  explicit BlockPool(const HostAllocator& allocator = {}) : allocator_(allocator) {}

  /// At least `bytes`, and never empty: the smallest free block that fits, else a new one in place of free ones. E401
  /// when there is not so much, or when all blocks would come to more than `most` bytes.
  AlignedMemory take(int64_t bytes, int64_t most = INT64_MAX);
  void give_back(AlignedMemory block);
  /// Bytes of all blocks, free and taken.
  int64_t bytes() const { return bytes_; }

 private:
  HostAllocator allocator_;
  std::vector<AlignedMemory> free_;  // by size
  int64_t bytes_ = 0;
};

}  // namespace weft
