// SPDX-License-Identifier: Apache-2.0
#include "ort/memory.h"

#include <cstring>
#include <new>

#include "ort/options.h"

namespace weft::ort {
namespace {

template <class Function>
Function* function_at(Address address) {
  return reinterpret_cast<Function*>(address);
}

/// From functions that know no alignment: the address that they gave lies before the aligned one.
void* allocate_aligned(void* (*allocate)(size_t), size_t bytes, size_t alignment) {
  void* base = allocate(bytes + alignment + sizeof(void*));
  if (!base) return nullptr;
  uintptr_t begin = reinterpret_cast<uintptr_t>(base) + sizeof(void*);
  uintptr_t aligned = (begin + alignment - 1) / alignment * alignment;
  std::memcpy(reinterpret_cast<void*>(aligned - sizeof(void*)), &base, sizeof base);
  return reinterpret_cast<void*>(aligned);
}

void* base_of(void* aligned) {
  void* base = nullptr;
  std::memcpy(&base, static_cast<std::byte*>(aligned) - sizeof(void*), sizeof base);
  return base;
}

}  // namespace

Memory::Memory(const Options& options)
    : allocator_{.allocate = [](void* user, size_t bytes,
                                size_t alignment) { return static_cast<Memory*>(user)->allocate(bytes, alignment); },
                 .release = [](void* user, void* data, size_t bytes,
                               size_t alignment) { static_cast<Memory*>(user)->release(data, bytes, alignment); },
                 .user = this},
      external_allocate_(function_at<void*(size_t)>(options.allocate())),
      external_release_(function_at<void(void*)>(options.free())),
      empty_cache_(function_at<void()>(options.empty_cache())),
      limit_(options.memory_limit()) {}

Memory::~Memory() {
  if (empty_cache_) empty_cache_();
}

void* Memory::allocate(size_t bytes, size_t alignment) {
  auto wanted = static_cast<int64_t>(bytes);
  if (used_.fetch_add(wanted) + wanted > limit_ && limit_ > 0) {
    used_ -= wanted;
    return nullptr;
  }
  void* data = external_allocate_ ? allocate_aligned(external_allocate_, bytes, alignment)
                                  : ::operator new(bytes, std::align_val_t(alignment), std::nothrow);
  if (!data) used_ -= wanted;
  return data;
}

void Memory::release(void* data, size_t bytes, size_t alignment) {
  used_ -= static_cast<int64_t>(bytes);
  if (external_release_) external_release_(base_of(data));
  else ::operator delete(data, std::align_val_t(alignment));
}

}  // namespace weft::ort
