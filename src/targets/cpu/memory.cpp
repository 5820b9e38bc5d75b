// SPDX-License-Identifier: Apache-2.0
#include "targets/cpu/memory.h"

#include <sys/mman.h>

#include <new>

#include "base/error.h"

namespace weft {

constexpr size_t huge_page = 2 << 20;

AlignedMemory::AlignedMemory(int64_t bytes, const HostAllocator& allocator) : bytes_(bytes) {
  if (bytes == 0) return;
  size_t size = bytes;
  size_t alignment = !allocator.allocate && size >= huge_page ? huge_page : 64;
  void* data = allocator.allocate ? allocator.allocate(allocator.user, size, alignment)
                                  : ::operator new(size, std::align_val_t{alignment}, std::nothrow);
  bool is_aligned = reinterpret_cast<uintptr_t>(data) % alignment == 0;
  data_ = {static_cast<std::byte*>(data), ReleaseMemory{allocator, size, alignment}};
  if (!data || !is_aligned) {
    throw Error({.kind = ErrorKind::resource,
                 .code = "E401",
                 .what = cat("cannot allocate ", bytes, " bytes of memory"),
                 .why = !data ? "" : cat("the caller's allocator gave memory that is not aligned to ", alignment)});
  }
  if (alignment == huge_page) ::madvise(data, size, MADV_HUGEPAGE);
}

void ReleaseMemory::operator()(std::byte* data) const {
  if (allocator.allocate) allocator.release(allocator.user, data, bytes, alignment);
  else ::operator delete(data, std::align_val_t{alignment});
}

}  // namespace weft
