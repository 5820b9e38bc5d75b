// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "weft/weft.hpp"

namespace weft::ort {

struct Options;

/// The memory of a session's programs: packed weights and working memory, from the library's own allocator or from the
/// user's functions, within the session's limit. Results are onnxruntime's.
class Memory {
 public:
  explicit Memory(const Options& options);
  Memory(const Memory&) = delete;
  ~Memory();

  /// Lives as long as this.
  const weft_allocator* allocator() const { return &allocator_; }

 private:
  void* allocate(size_t bytes, size_t alignment);
  void release(void* data, size_t bytes, size_t alignment);

  weft_allocator allocator_;
  void* (*external_allocate_)(size_t);
  void (*external_release_)(void*);
  void (*empty_cache_)();
  int64_t limit_;
  std::atomic<int64_t> used_{0};
};

}  // namespace weft::ort
