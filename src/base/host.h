// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>

/// Memory and threads that an embedding program provides in place of the library's own. Plain functions, because they
/// come through the C interface.
namespace weft {

/// Memory for weights, working memory and results; for a GPU, memory of that device. Without functions: the library's
/// own.
struct HostAllocator {
  /// `alignment` is a power of 2; null when there is no memory. From any thread.
  void* (*allocate)(void* user, size_t bytes, size_t alignment) = nullptr;
  void (*release)(void* user, void* data, size_t bytes, size_t alignment) = nullptr;
  void* user = nullptr;
};

/// No machine has more threads; a greater number is a mistake.
inline constexpr int most_threads = 4096;

/// Runs the pieces of a kernel. Without a function: the library's pool.
struct HostExecutor {
  int width = 0;  ///< how many pieces are worth running at once
  /// Calls `body(context, i)` once for each i in [0, count), in any order, on any threads, one after another if need
  /// be; returns when all have returned. `count` is at most `width`. From any thread.
  void (*parallel_for)(void* user, int64_t count, void (*body)(void* context, int64_t index), void* context) = nullptr;
  void* user = nullptr;
};

/// Memory, threads and limits of a program.
struct Host {
  int threads = 1;  ///< threads of the library's pool; unused with an executor
  HostAllocator allocator = {};
  HostExecutor executor = {};
  int64_t memory_limit = 0;  ///< bytes of a run and packed weights; 0: WEFT_MEMORY_LIMIT, else the machine's memory
};

}  // namespace weft
