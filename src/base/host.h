// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>

/// Memory and threads that an embedding program provides in place of the library's own. The program gives plain
/// functions, because the C interface passes them.
namespace weft {

/// An allocator for weights, working memory and results. For a GPU, the allocator returns memory of that device. If its
/// functions are null, the library's own allocator is used.
struct HostAllocator {
  /// Returns null if there is no memory. `alignment` is a power of 2. Called from any thread.
  void* (*allocate)(void* user, size_t bytes, size_t alignment) = nullptr;
  void (*release)(void* user, void* data, size_t bytes, size_t alignment) = nullptr;
  void* user = nullptr;
};

/// The upper limit of thread counts: a greater number is treated as a mistake of the caller.
inline constexpr int max_threads = 4096;

/// The caller's threads, which run the pieces of a kernel. A null function selects the library's thread pool.
struct HostExecutor {
  int width = 0;  ///< the greatest useful number of pieces that run at once
  /// Calls `body(context, i)` once for each i in [0, count), in any order and on one or more threads. Returns after
  /// all calls have returned. `count` is at most `width`. Called from any thread.
  void (*parallel_for)(void* user, int64_t count, void (*body)(void* context, int64_t index), void* context) = nullptr;
  void* user = nullptr;
};

/// A program's sources of memory and threads, and its limits.
struct Host {
  int threads = 1;  ///< threads of the library's pool; unused with an executor
  HostAllocator allocator = {};
  HostExecutor executor = {};
  int64_t memory_limit = 0;  ///< limit in bytes of a run and packed weights; 0: WEFT_MEMORY_LIMIT, else the device's
};

}  // namespace weft
