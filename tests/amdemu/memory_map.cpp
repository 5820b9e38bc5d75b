// SPDX-License-Identifier: Apache-2.0
#include "memory_map.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <shared_mutex>

namespace weft::amdemu {
namespace {

std::shared_mutex mutex;
std::map<u64, u64> regions;  // begin -> bytes
std::atomic<u64> version{1};

}  // namespace

void add_region(u64 address, u64 bytes) {
  std::unique_lock lock(mutex);
  regions[address] = bytes;
  ++version;
}

void remove_region(u64 address) {
  std::unique_lock lock(mutex);
  regions.erase(address);
  ++version;
}

Region find_region(u64 address, u64 bytes) {
  std::shared_lock lock(mutex);
  auto after = regions.upper_bound(address);
  if (after == regions.begin()) return {};
  --after;
  const Region region{after->first, after->first + after->second};
  return region.holds(address, bytes) ? region : Region{};
}

u64 region_bytes(u64 address) {
  std::shared_lock lock(mutex);
  auto found = regions.find(address);
  return found == regions.end() ? 0 : found->second;
}

u64 map_version() { return version.load(std::memory_order_relaxed); }

void* allocate_device(size_t bytes) {
  constexpr size_t page = 4096;
  const size_t rounded = (bytes + page - 1) / page * page;
  void* memory = std::aligned_alloc(page, rounded);
  if (!memory) return nullptr;
  std::memset(memory, 0xff, bytes);
  const u64 address = address_of(memory) | device_bit;
  add_region(address, bytes);
  return reinterpret_cast<void*>(address);
}

void free_device(void* memory) {
  remove_region(address_of(memory));
  std::free(host_pointer(address_of(memory)));
}

}  // namespace weft::amdemu
