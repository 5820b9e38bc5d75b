// SPDX-License-Identifier: Apache-2.0
#include "ort/memory.h"

#include <algorithm>
#include <bit>
#include <new>

namespace weft::ort {
namespace {

constexpr size_t gpu_alignment = 256;

template <class Function>
Function* function_at(Address address) {
  return reinterpret_cast<Function*>(address);
}

void* allocate_on_gpu(const Device& device, size_t bytes) {
  void* data = nullptr;
  weft_status_free(weft_gpu_allocate(device.name.c_str(), bytes, &data));
  return data;
}

}  // namespace

Memory::Memory(const Options& options, const Device& device)
    : allocator_{.allocate = [](void* user, size_t bytes,
                                size_t alignment) { return static_cast<Memory*>(user)->allocate(bytes, alignment); },
                 .release = [](void* user, void* data, size_t bytes,
                               size_t alignment) { static_cast<Memory*>(user)->release(data, bytes, alignment); },
                 .user = this},
      device_(device),
      external_allocate_(function_at<void*(size_t)>(options.allocate())),
      external_release_(function_at<void(void*)>(options.free())),
      empty_cache_(function_at<void()>(options.empty_cache())),
      limit_(options.memory_limit()) {}

Memory::~Memory() {
  if (empty_cache_) empty_cache_();
}

/// Allocates aligned memory by the user's function, which has no parameter for the alignment. `bases_` records the
/// start of each block, because the host may be unable to write to the block itself.
void* Memory::take_users(size_t bytes, size_t alignment) {
  void* base = external_allocate_(bytes + alignment);
  if (!base) return nullptr;
  uintptr_t begin = reinterpret_cast<uintptr_t>(base);
  void* data = reinterpret_cast<void*>((begin + alignment - 1) / alignment * alignment);
  std::lock_guard lock(mutex_);
  bases_[data] = base;
  return data;
}

void* Memory::take(size_t bytes, size_t alignment) {
  if (external_allocate_) return take_users(bytes, alignment);
  if (device_.is_gpu()) return allocate_on_gpu(device_, bytes);
  return ::operator new(bytes, std::align_val_t(alignment), std::nothrow);
}

void* Memory::allocate(size_t bytes, size_t alignment) {
  auto wanted = static_cast<int64_t>(bytes);
  {
    std::lock_guard lock(mutex_);
    if (limit_ > 0 && wanted > limit_ - used_) return nullptr;
    used_ += wanted;
  }
  void* data = take(bytes, alignment);
  std::lock_guard lock(mutex_);
  if (!data) used_ -= wanted;
  return data;
}

void Memory::release(void* data, size_t bytes, size_t alignment) {
  void* base = data;
  {
    std::lock_guard lock(mutex_);
    used_ -= static_cast<int64_t>(bytes);
    if (auto node = bases_.extract(data)) base = node.mapped();
  }
  if (external_release_) external_release_(base);
  else if (device_.is_gpu()) weft_status_free(weft_gpu_release(device_.name.c_str(), data));
  else ::operator delete(data, std::align_val_t(alignment));
}

size_t Pool::rounded(size_t bytes) const {
  size_t least = std::max((bytes + gpu_alignment - 1) / gpu_alignment, size_t{1}) * gpu_alignment;
  return strategy_ == ArenaStrategy::same_as_requested ? least : std::bit_ceil(least);
}

/// Returns the smallest idle block that is large enough; null if there is none or over half of it would be unused.
void* Pool::reuse(size_t bytes) {
  auto piece = idle_.lower_bound(bytes);
  if (piece == idle_.end() || piece->first / 2 > bytes) return nullptr;
  void* data = piece->second;
  idle_.erase(piece);
  return data;
}

void* Pool::allocate(size_t bytes) {
  size_t size = rounded(bytes);
  std::lock_guard lock(mutex_);
  if (void* known = reuse(size)) return known;
  void* data = memory_->allocate(size, gpu_alignment);
  if (!data) {
    trim();
    data = memory_->allocate(size, gpu_alignment);
  }
  if (data) sizes_[data] = size;
  return data;
}

void Pool::release(void* data) {
  std::lock_guard lock(mutex_);
  if (auto known = sizes_.find(data); known != sizes_.end()) idle_.emplace(known->second, data);
}

void Pool::trim() {
  for (auto [size, data] : idle_) {
    sizes_.erase(data);
    memory_->release(data, size, gpu_alignment);
  }
  idle_.clear();
}

}  // namespace weft::ort
