// SPDX-License-Identifier: Apache-2.0
// A substitute for AMD's HIP runtime on machines without AMD's driver. It has the functions for the device, errors,
// memory, streams and events, over the host's own memory. It runs no kernels and exports no other functions of HIP. It
// is in its own folder, which a program searches only if the program is set up as docs/migraphx.md says.
//
// Each call is complete when it returns, so the order of a stream is kept and every event has occurred.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <string>
#include <utility>

#include <unistd.h>

#include "weft/weft.h"

#define HIP_API extern "C" __attribute__((visibility("default")))

namespace {

/// The values of hipError_t that this file returns.
enum Error : int {
  success = 0,
  invalid_value = 1,
  out_of_memory = 2,
  invalid_device = 101,
  invalid_handle = 400,
  not_supported = 801,
};

thread_local Error last_error = success;

Error done(Error error) {
  if (error != success) last_error = error;
  return error;
}

struct Block {
  size_t bytes = 0;
  bool is_host = false;  ///< allocated by hipHostMalloc
};

/// All allocated blocks. Freeing an address that is not the start of a block is an error, not a crash.
class Memory {
 public:
  Error take(void** out, size_t bytes, bool is_host) {
    if (!out) return invalid_value;
    *out = nullptr;
    if (bytes == 0) return success;
    size_t rounded = (bytes + 255) / 256 * 256;
    void* data = rounded < bytes ? nullptr : std::aligned_alloc(256, rounded);
    if (!data) return out_of_memory;
    std::lock_guard lock(mutex_);
    blocks_[data] = {bytes, is_host};
    *out = data;
    return success;
  }

  Error give_back(void* data) {
    if (!data) return success;
    std::lock_guard lock(mutex_);
    if (blocks_.erase(data) == 0) return invalid_value;
    std::free(data);
    return success;
  }

  /// Returns the block that contains an address, or null; sets `begin` to the block's start.
  const Block* find(const void* address, const void** begin) {
    std::lock_guard lock(mutex_);
    auto after = blocks_.upper_bound(address);
    if (after == blocks_.begin()) return nullptr;
    --after;
    auto offset = static_cast<const char*>(address) - static_cast<const char*>(after->first);
    if (static_cast<size_t>(offset) >= after->second.bytes) return nullptr;
    *begin = after->first;
    return &after->second;
  }

 private:
  std::mutex mutex_;
  std::map<const void*, Block, std::less<>> blocks_;
};

Memory& memory() {
  static auto* made = new Memory;
  return *made;
}

Error copy(void* to, const void* from, size_t bytes) {
  if (bytes > 0 && (!to || !from)) return invalid_value;
  if (bytes > 0) std::memmove(to, from, bytes);
  return success;
}

struct Stream {
  unsigned flags = 0;
};
struct Event {
  std::chrono::steady_clock::time_point time = {};
};

template <class T>
Error make(T** out, T value = {}) {
  if (!out) return invalid_value;
  *out = new (std::nothrow) T(value);
  return *out ? success : out_of_memory;
}

/// Returns the chip name of the only device: WEFT_HIP_CHIP, else "weft-cpu".
std::string chip_name() {
  char* asked = weft_environment("WEFT_HIP_CHIP");
  std::string name = asked && *asked ? asked : "weft-cpu";
  weft_text_free(asked);
  return name;
}

size_t host_memory() {
  long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGE_SIZE);
  return pages > 0 && size > 0 ? static_cast<size_t>(pages) * static_cast<size_t>(size) : size_t{1} << 30;
}

/// hipDeviceProp_t of ROCm 6.0 to 7.2, which has 1,472 bytes. Fields that are meaningful for a CPU are set by offset.
struct Properties {
  char bytes[1472];
  template <class T>
  void put(size_t offset, T value) {
    std::memcpy(bytes + offset, &value, sizeof value);
  }
  void text(size_t offset, const std::string& value) {
    std::memcpy(bytes + offset, value.data(), std::min<size_t>(value.size(), 255));
  }
};

void describe(Properties& p) {
  std::memset(p.bytes, 0, sizeof p.bytes);
  p.text(0, "Weft HIP facade (host memory, no AMD driver)");
  p.put<size_t>(288, host_memory());
  p.put<size_t>(296, 65536);  // shared memory per block, in bytes
  p.put<int>(308, 64);        // threads per wave
  p.put<int>(320, 1024);      // threads per block
  for (size_t axis = 0; axis < 3; ++axis) p.put<int>(324 + 4 * axis, 1024), p.put<int>(336 + 4 * axis, INT32_MAX);
  p.put<int>(388, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)));
  p.put<int>(396, 1);  // integrated: it shares the host's memory
  p.put<int>(400, 1);  // it can map the host's memory
  p.text(1160, chip_name());
}

}  // namespace

/// Lets a program recognise the facade: the real library lacks this function.
HIP_API int weft_hip_facade() { return 1; }

// --- the device

HIP_API int hipInit(unsigned flags) { return done(flags == 0 ? success : invalid_value); }
HIP_API int hipDriverGetVersion(int* version) { return version ? (*version = 70200000, success) : done(invalid_value); }
HIP_API int hipRuntimeGetVersion(int* version) { return hipDriverGetVersion(version); }
HIP_API int hipGetDeviceCount(int* count) { return count ? (*count = 1, success) : done(invalid_value); }
HIP_API int hipGetDevice(int* device) { return device ? (*device = 0, success) : done(invalid_value); }
HIP_API int hipSetDevice(int device) { return done(device == 0 ? success : invalid_device); }
HIP_API int hipDeviceSynchronize() { return success; }
HIP_API int hipDeviceReset() { return success; }
HIP_API int hipGetDevicePropertiesR0600(void* properties, int device) {
  if (!properties) return done(invalid_value);
  if (device != 0) return done(invalid_device);
  describe(*static_cast<Properties*>(properties));
  return success;
}
HIP_API int hipDeviceGetName(char* name, int length, int device) {
  if (!name || length < 1) return done(invalid_value);
  Properties p;
  if (int error = hipGetDevicePropertiesR0600(&p, device)) return error;
  std::strncpy(name, p.bytes, static_cast<size_t>(length) - 1);
  name[length - 1] = '\0';
  return success;
}
HIP_API int hipDeviceCanAccessPeer(int* can, int, int) { return can ? (*can = 0, success) : done(invalid_value); }

// --- errors

HIP_API const char* hipGetErrorString(int error) {
  switch (error) {
    case success: return "no error";
    case invalid_value: return "invalid argument";
    case out_of_memory: return "out of memory";
    case invalid_device: return "invalid device ordinal; the facade has one, number 0";
    case invalid_handle: return "invalid resource handle";
    case not_supported: return "not supported by Weft's HIP facade";
    default: return "unknown error";
  }
}
HIP_API const char* hipGetErrorName(int error) {
  switch (error) {
    case success: return "hipSuccess";
    case invalid_value: return "hipErrorInvalidValue";
    case out_of_memory: return "hipErrorOutOfMemory";
    case invalid_device: return "hipErrorInvalidDevice";
    case invalid_handle: return "hipErrorInvalidHandle";
    case not_supported: return "hipErrorNotSupported";
    default: return "hipErrorUnknown";
  }
}
HIP_API int hipPeekAtLastError() { return last_error; }
HIP_API int hipGetLastError() { return std::exchange(last_error, success); }

// --- memory

HIP_API int hipMalloc(void** data, size_t bytes) { return done(memory().take(data, bytes, false)); }
HIP_API int hipFree(void* data) { return done(memory().give_back(data)); }
HIP_API int hipMallocAsync(void** data, size_t bytes, void*) { return hipMalloc(data, bytes); }
HIP_API int hipFreeAsync(void* data, void*) { return hipFree(data); }
HIP_API int hipMallocManaged(void** data, size_t bytes, unsigned) { return hipMalloc(data, bytes); }
HIP_API int hipHostMalloc(void** data, size_t bytes, unsigned) { return done(memory().take(data, bytes, true)); }
HIP_API int hipHostFree(void* data) { return hipFree(data); }
HIP_API int hipHostRegister(void*, size_t, unsigned) { return success; }
HIP_API int hipHostUnregister(void*) { return success; }
HIP_API int hipHostGetDevicePointer(void** device, void* host, unsigned) {
  return device ? (*device = host, success) : done(invalid_value);
}
HIP_API int hipMemGetInfo(size_t* free_bytes, size_t* total) {
  if (!free_bytes || !total) return done(invalid_value);
  long pages = sysconf(_SC_AVPHYS_PAGES), size = sysconf(_SC_PAGE_SIZE);
  *total = host_memory();
  *free_bytes = pages > 0 && size > 0 ? static_cast<size_t>(pages) * static_cast<size_t>(size) : *total;
  return success;
}
/// Writes a hipPointerAttribute_t: the kind of memory (1 host, 2 device), the device's number, the address on the
/// device and on the host (equal here), whether the memory is managed, and flags.
HIP_API int hipPointerGetAttributes(void* attributes, const void* address) {
  struct Attributes {
    int kind, device;
    void *device_pointer, *host_pointer;
    int is_managed;
    unsigned flags;
  };
  const void* begin = nullptr;
  const Block* block = memory().find(address, &begin);
  if (!attributes || !block) return done(invalid_value);
  void* same = const_cast<void*>(address);
  *static_cast<Attributes*>(attributes) = {block->is_host ? 1 : 2, 0, same, same, 0, 0};
  return success;
}

HIP_API int hipMemcpy(void* to, const void* from, size_t bytes, int) { return done(copy(to, from, bytes)); }
HIP_API int hipMemcpyAsync(void* to, const void* from, size_t bytes, int, void*) { return done(copy(to, from, bytes)); }
HIP_API int hipMemcpyWithStream(void* to, const void* from, size_t bytes, int, void*) {
  return done(copy(to, from, bytes));
}
HIP_API int hipMemcpyHtoD(void* to, const void* from, size_t bytes) { return done(copy(to, from, bytes)); }
HIP_API int hipMemcpyDtoH(void* to, const void* from, size_t bytes) { return done(copy(to, from, bytes)); }
HIP_API int hipMemcpyDtoD(void* to, const void* from, size_t bytes) { return done(copy(to, from, bytes)); }
HIP_API int hipMemset(void* data, int value, size_t bytes) {
  if (bytes > 0 && !data) return done(invalid_value);
  if (bytes > 0) std::memset(data, value, bytes);
  return success;
}
HIP_API int hipMemsetAsync(void* data, int value, size_t bytes, void*) { return hipMemset(data, value, bytes); }

// --- streams and events

HIP_API int hipStreamCreateWithFlags(Stream** stream, unsigned flags) { return done(make(stream, Stream{flags})); }
HIP_API int hipStreamCreate(Stream** stream) { return hipStreamCreateWithFlags(stream, 0); }
HIP_API int hipStreamCreateWithPriority(Stream** stream, unsigned flags, int) {
  return hipStreamCreateWithFlags(stream, flags);
}
HIP_API int hipStreamDestroy(Stream* stream) {
  if (!stream) return done(invalid_handle);
  delete stream;
  return success;
}
HIP_API int hipStreamSynchronize(Stream*) { return success; }
HIP_API int hipStreamQuery(Stream*) { return success; }
HIP_API int hipStreamWaitEvent(Stream*, Event* event, unsigned) { return done(event ? success : invalid_handle); }
HIP_API int hipLaunchHostFunc(Stream*, void (*function)(void*), void* user) {
  if (!function) return done(invalid_value);
  function(user);
  return success;
}
HIP_API int hipEventCreateWithFlags(Event** event, unsigned) { return done(make(event)); }
HIP_API int hipEventCreate(Event** event) { return done(make(event)); }
HIP_API int hipEventDestroy(Event* event) {
  if (!event) return done(invalid_handle);
  delete event;
  return success;
}
HIP_API int hipEventRecord(Event* event, Stream*) {
  if (!event) return done(invalid_handle);
  event->time = std::chrono::steady_clock::now();
  return success;
}
HIP_API int hipEventSynchronize(Event* event) { return done(event ? success : invalid_handle); }
HIP_API int hipEventQuery(Event* event) { return done(event ? success : invalid_handle); }
HIP_API int hipEventElapsedTime(float* milliseconds, Event* begin, Event* end) {
  if (!milliseconds || !begin || !end) return done(invalid_handle);
  *milliseconds = std::chrono::duration<float, std::milli>(end->time - begin->time).count();
  return success;
}
