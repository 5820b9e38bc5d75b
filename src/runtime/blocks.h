// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

namespace weft {

/// A pool of blocks (AlignedMemory or gpu::Memory) for tensors of sizes that the run computes. Returned blocks serve
/// later requests of this run and of later ones, so repeated runs allocate nothing.
template <class Memory>
class BlockPool {
 public:
  using Make = std::function<Memory(int64_t bytes)>;
  explicit BlockPool(Make make) : make_(std::move(make)) {}

  /// Returns the smallest free block of at least `bytes`; if none fits, frees free blocks and allocates. The block is
  /// never empty. E401 if memory is exhausted, or if all blocks together would exceed `most` bytes.
  Memory take(int64_t bytes, int64_t most = INT64_MAX);
  void give_back(Memory block);
  /// Returns the bytes of all blocks, free and taken.
  int64_t bytes() const { return bytes_; }

 private:
  Make make_;
  std::vector<Memory> free_;  // sorted by size
  int64_t bytes_ = 0;
};

}  // namespace weft
