// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/host.h"

namespace weft {

struct ReleaseMemory {
  HostAllocator allocator = {};
  size_t bytes = 0, alignment = 64;
  void operator()(std::byte* data) const;
};

/// Memory aligned for the widest vectors, from the embedder's allocator if there is one. The library's own large blocks
/// use huge pages if the system has them: a run reads each weight once, and every small page costs a page-table walk.
class AlignedMemory {
 public:
  AlignedMemory() = default;
  /// Throws E401 if there is not enough memory, or `allocator` does not align it.
  explicit AlignedMemory(int64_t bytes, const HostAllocator& allocator = {});
  std::byte* data() const { return data_.get(); }
  int64_t bytes() const { return bytes_; }

 private:
  std::unique_ptr<std::byte, ReleaseMemory> data_;
  int64_t bytes_ = 0;
};

}  // namespace weft
