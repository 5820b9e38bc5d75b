// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

namespace weft {

/// A pool of blocks (AlignedMemory or gpu::Memory) for tensors with sizes that the run computes. Blocks that are given
/// back are used again, also by later runs, so that repeated runs need not allocate.
template <class Memory>
class BlockPool {
 public:
  using Make = std::function<Memory(int64_t bytes)>;
  explicit BlockPool(Make make) : make_(std::move(make)) {}

  /// Returns the smallest free block of at least `bytes`. If none fits, frees the largest free block (and more if all
  /// blocks would exceed `most` bytes) and allocates a block. Throws E401 if memory or `most` does not suffice.
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
