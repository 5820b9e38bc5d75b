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

/// Allocates the memory of a session on its device: packed weights, working memory and, on a GPU, inputs and outputs.
/// The memory comes from the user's function, the GPU driver or operator new, and counts towards the session's limit.
/// On the CPU, onnxruntime allocates inputs and outputs.
class Memory {
 public:
  Memory(const Options& options, const Device& device);
  Memory(const Memory&) = delete;
  ~Memory();

  /// Returns this object as an allocator for Weft's C interface, valid as long as this object.
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
  std::unordered_map<void*, void*> bases_;  // for blocks of the user's function: aligned address -> start
};

/// A pool of GPU memory that reuses blocks. onnxruntime allocates inputs and outputs anew for each run, but a captured
/// graph can be replayed only for inputs and outputs at the same addresses.
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
  std::unordered_map<void*, size_t> sizes_;  // address -> bytes, of idle and used blocks
};

}  // namespace weft::ort
