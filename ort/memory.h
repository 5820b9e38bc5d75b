// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "ort/device.h"
#include "ort/options.h"
#include "weft/weft.hpp"

namespace weft::ort {

/// The memory of a session on its device, for packed weights and working memory, on a GPU also for inputs and outputs.
/// It comes from the library, the driver or the user's functions, and counts towards the session's limit. On the CPU,
/// onnxruntime owns the results.
class Memory {
 public:
  Memory(const Options& options, const Device& device);
  Memory(const Memory&) = delete;
  ~Memory();

  /// Valid as long as this object.
  const weft_allocator* allocator() const { return &allocator_; }
  /// Returns null if there is no memory, or if the limit is reached.
  void* allocate(size_t bytes, size_t alignment);
  void release(void* data, size_t bytes, size_t alignment);

 private:
  void* take(size_t bytes, size_t alignment);
  void* take_users(size_t bytes, size_t alignment);

  weft_allocator allocator_;
  Device device_;
  void* (*external_allocate_)(size_t);
  void (*external_release_)(void*);
  void (*empty_cache_)();
  int64_t limit_;
  std::mutex mutex_;
  int64_t used_ = 0;
  std::unordered_map<void*, void*> bases_;  // blocks from the user's functions, by the aligned address returned
};

/// A pool of GPU memory. onnxruntime allocates each input and output in each run, and a captured graph can be replayed
/// only if they have the same addresses again.
class Pool {
 public:
  Pool(std::shared_ptr<Memory> memory, ArenaStrategy strategy) : memory_(std::move(memory)), strategy_(strategy) {}
  Pool(const Pool&) = delete;
  ~Pool() { trim(); }

  /// Returns null if there is no memory.
  void* allocate(size_t bytes);
  void release(void* data);

 private:
  size_t rounded(size_t bytes) const;
  void* reuse(size_t bytes);
  void trim();

  std::shared_ptr<Memory> memory_;
  ArenaStrategy strategy_;
  std::mutex mutex_;
  std::multimap<size_t, void*> idle_;
  std::unordered_map<void*, size_t> sizes_;  // of all blocks, idle or not
};

}  // namespace weft::ort
