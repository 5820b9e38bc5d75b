// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>

#include "bits.h"

/// The addresses that a kernel may touch. Device memory has addresses that no host memory has (bit 47 is set): the host
/// faults if it uses them, as on a GPU with memory of its own. Pinned memory has the host's addresses.
namespace weft::amdemu {

constexpr u64 device_bit = u64{1} << 47;

/// One allocation: [begin, end) as kernels see it.
struct Region {
  u64 begin = 1, end = 0;
  bool holds(u64 address, u64 bytes) const { return address >= begin && address + bytes <= end; }
};

inline u8* host_pointer(u64 address) { return reinterpret_cast<u8*>(address & ~device_bit); }
inline u64 address_of(const void* pointer) { return reinterpret_cast<u64>(pointer); }

void add_region(u64 address, u64 bytes);
void remove_region(u64 address);
/// Returns the region that holds all of the bytes; an empty one if there is none.
Region find_region(u64 address, u64 bytes);
/// Returns the bytes of the region that begins at this address; 0 if there is none.
u64 region_bytes(u64 address);
/// Returns a number that changes whenever a region is added or removed, so that a wave may cache the last region that
/// it found.
u64 map_version();

/// Allocates memory of a device and fills it with bytes that are NaN as floats of any width. Returns null if the host
/// has no memory.
void* allocate_device(size_t bytes);
void free_device(void* memory);

/// Registers memory on construction, and removes it from the map on destruction.
class MappedBytes {
 public:
  MappedBytes(const void* memory, size_t bytes) : address_(address_of(memory)) { add_region(address_, bytes); }
  MappedBytes(const MappedBytes&) = delete;
  MappedBytes& operator=(const MappedBytes&) = delete;
  ~MappedBytes() { remove_region(address_); }

 private:
  u64 address_;
};

}  // namespace weft::amdemu
