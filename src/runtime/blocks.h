// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

namespace weft {

/// Blocks of AlignedMemory or gpu::Memory for tensors whose size is only known during the run. Returned blocks serve
/// later requests, of this run and the next ones, so that a steady state allocates nothing.
template <class Memory>
class BlockPool {
 public:
  using Make = std::function<Memory(int64_t bytes)>;
  explicit BlockPool(Make make) : make_(std::move(make)) {}

  /// At least `bytes`, and never empty: the smallest free block that fits, else a new one in place of free ones. E401
  /// if memory is exhausted, or if all blocks would exceed `most` bytes.
  Memory take(int64_t bytes, int64_t most = INT64_MAX);
  void give_back(Memory block);
  /// Bytes of all blocks, free and taken.
  int64_t bytes() const { return bytes_; }

 private:
  Make make_;
  std::vector<Memory> free_;  // by size
  int64_t bytes_ = 0;
};

}  // namespace weft
