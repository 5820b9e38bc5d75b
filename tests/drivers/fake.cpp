// SPDX-License-Identifier: Apache-2.0
// Fakes of HIP and of CUDA's driver in one library, with one device each. Memory is the host's, launches do nothing.
// Any call can be made to fail, and every object that is not released is counted. A call that releases an object
// releases it even if the call then reports an error, as drivers do.
#include "fake.h"

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <string>

namespace {

using Handle = void*;
constexpr int invalid_handle = 400;

std::mutex mutex;
std::set<Handle> held;
int calls = 0, failing_call = 0, failing_error = 0;
std::string failed;

/// Counts a call. Returns the error that `fake_fail` has set for this call; 0 for all other calls.
int begin(const char* function) {
  const std::lock_guard lock(mutex);
  if (++calls != failing_call) return 0;
  failed = function;
  return failing_error;
}

int keep(Handle* to, Handle made) {
  const std::lock_guard lock(mutex);
  held.insert(made);
  *to = made;
  return 0;
}

int make(const char* function, Handle* to, size_t bytes) {
  if (int error = begin(function)) return error;
  constexpr size_t alignment = 256;
  const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  Handle made = std::aligned_alloc(alignment, rounded ? rounded : alignment);
  std::memset(made, 0, rounded);
  return keep(to, made);
}

int drop(const char* function, Handle handle) {
  const int error = begin(function);
  const std::lock_guard lock(mutex);
  if (held.erase(handle) == 0) return error ? error : invalid_handle;
  std::free(handle);
  return error;
}

int copy(const char* function, void* to, const void* from, size_t bytes) {
  if (int error = begin(function)) return error;
  std::memcpy(to, from, bytes);
  return 0;
}

int fill(const char* function, void* to, unsigned char value, size_t bytes) {
  if (int error = begin(function)) return error;
  std::memset(to, value, bytes);
  return 0;
}

template <class T>
int give(const char* function, T* to, T value) {
  if (int error = begin(function)) return error;
  *to = value;
  return 0;
}

int give_memory(const char* function, size_t* free, size_t* total) {
  if (int error = begin(function)) return error;
  *free = *total = size_t{16} << 30;
  return 0;
}

const char* text_of(int error) {
  switch (error) {
    case 0: return "no error";
    case 1: return "invalid argument";
    case 2: return "out of memory";
    case 700: return "an illegal memory access was encountered";
    case 719: return "unspecified launch failure";
    default: return "unknown error";
  }
}

int describe(void* properties) {
  if (int error = begin("hipGetDevicePropertiesR0600")) return error;
  auto* bytes = static_cast<char*>(properties);
  std::memset(bytes, 0, 1472);
  const auto set = [&](size_t offset, auto value) { std::memcpy(bytes + offset, &value, sizeof value); };
  std::strcpy(bytes, "fake");
  set(288, size_t{16} << 30);
  set(296, size_t{65536});
  set(308, 32);
  set(388, 48);
  set(616, 6 << 20);
  std::strcpy(bytes + 1160, "gfx1100");
  return 0;
}

int attribute(int* to, int which) {
  if (int error = begin("cuDeviceGetAttribute")) return error;
  constexpr int multiprocessors = 16, l2 = 38, major = 75, minor = 76, shared = 97;
  switch (which) {
    case multiprocessors: *to = 108; break;
    case l2: *to = 40 << 20; break;
    case major: *to = 8; break;
    case minor: *to = 0; break;
    case shared: *to = 163 << 10; break;
    default: *to = 0;
  }
  return 0;
}

}  // namespace

#define WEFT_FAKE extern "C" __attribute__((visibility("default")))

WEFT_FAKE void fake_fail(int call, int error) {
  const std::lock_guard lock(mutex);
  calls = 0, failing_call = call, failing_error = error;
  failed.clear();
}
WEFT_FAKE int fake_calls() { return calls; }
WEFT_FAKE const char* fake_failed() { return failed.c_str(); }
WEFT_FAKE int fake_held() {
  const std::lock_guard lock(mutex);
  return static_cast<int>(held.size());
}

// --- functions of both drivers: name in HIP, name in CUDA, parameters, body ------------------------------------------
#define WEFT_BOTH(hip, cuda, parameters, body) \
  WEFT_FAKE int hip parameters {               \
    [[maybe_unused]] const char* me = #hip;    \
    body                                       \
  }                                            \
  WEFT_FAKE int cuda parameters {              \
    [[maybe_unused]] const char* me = #cuda;   \
    body                                       \
  }

WEFT_BOTH(hipInit, cuInit, (unsigned), return begin(me);)
WEFT_BOTH(hipGetDeviceCount, cuDeviceGetCount, (int* count), return give(me, count, 1);)
WEFT_BOTH(hipDriverGetVersion, cuDriverGetVersion, (int* version), return give(me, version, 60300000);)
WEFT_BOTH(hipMalloc, cuMemAlloc_v2, (Handle * to, size_t bytes), return make(me, to, bytes);)
WEFT_BOTH(hipHostMalloc, cuMemHostAlloc, (Handle * to, size_t bytes, unsigned), return make(me, to, bytes);)
WEFT_BOTH(hipFree, cuMemFree_v2, (Handle memory), return drop(me, memory);)
WEFT_BOTH(hipHostFree, cuMemFreeHost, (Handle memory), return drop(me, memory);)
WEFT_BOTH(hipMemGetInfo, cuMemGetInfo_v2, (size_t* free, size_t* total), return give_memory(me, free, total);)
WEFT_BOTH(hipMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, (void* to, const void* from, size_t bytes, Handle),
          return copy(me, to, from, bytes);)
WEFT_BOTH(hipMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2, (void* to, void* from, size_t bytes, Handle),
          return copy(me, to, from, bytes);)
WEFT_BOTH(hipMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2, (void* to, void* from, size_t bytes, Handle),
          return copy(me, to, from, bytes);)
WEFT_BOTH(hipMemsetD8Async, cuMemsetD8Async, (void* to, unsigned char value, size_t bytes, Handle),
          return fill(me, to, value, bytes);)
WEFT_BOTH(hipStreamCreateWithFlags, cuStreamCreate, (Handle * to, unsigned), return make(me, to, 1);)
WEFT_BOTH(hipStreamDestroy, cuStreamDestroy_v2, (Handle stream), return drop(me, stream);)
WEFT_BOTH(hipStreamSynchronize, cuStreamSynchronize, (Handle), return begin(me);)
WEFT_BOTH(hipStreamQuery, cuStreamQuery, (Handle), return begin(me);)
WEFT_BOTH(hipStreamWaitEvent, cuStreamWaitEvent, (Handle, Handle, unsigned), return begin(me);)
WEFT_BOTH(hipEventCreateWithFlags, cuEventCreate, (Handle * to, unsigned), return make(me, to, 1);)
WEFT_BOTH(hipEventDestroy, cuEventDestroy_v2, (Handle event), return drop(me, event);)
WEFT_BOTH(hipEventRecord, cuEventRecord, (Handle, Handle), return begin(me);)
WEFT_BOTH(hipEventSynchronize, cuEventSynchronize, (Handle), return begin(me);)
WEFT_BOTH(hipEventElapsedTime, cuEventElapsedTime, (float* milliseconds, Handle, Handle),
          return give(me, milliseconds, 1.0f);)
WEFT_BOTH(hipModuleUnload, cuModuleUnload, (Handle module), return drop(me, module);)
WEFT_BOTH(hipModuleGetFunction, cuModuleGetFunction, (Handle * function, Handle module, const char*),
          return give(me, function, module);)
WEFT_BOTH(hipModuleLaunchKernel, cuLaunchKernel,
          (Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Handle, void**, void**),
          return begin(me);)
WEFT_BOTH(hipStreamBeginCapture, cuStreamBeginCapture_v2, (Handle, int), return begin(me);)
WEFT_BOTH(hipStreamEndCapture, cuStreamEndCapture, (Handle, Handle* graph), return make(me, graph, 1);)
WEFT_BOTH(hipGraphInstantiateWithFlags, cuGraphInstantiateWithFlags, (Handle * to, Handle, unsigned long long),
          return make(me, to, 1);)
WEFT_BOTH(hipGraphLaunch, cuGraphLaunch, (Handle, Handle), return begin(me);)
WEFT_BOTH(hipGraphDestroy, cuGraphDestroy, (Handle graph), return drop(me, graph);)
WEFT_BOTH(hipGraphExecDestroy, cuGraphExecDestroy, (Handle executable), return drop(me, executable);)

// --- HIP alone -------------------------------------------------------------------------------------------------------
WEFT_FAKE int hipGetDevicePropertiesR0600(void* properties, int) { return describe(properties); }
WEFT_FAKE int hipSetDevice(int) { return begin("hipSetDevice"); }
WEFT_FAKE int hipModuleLoadData(Handle* module, const void*) { return make("hipModuleLoadData", module, 1); }
WEFT_FAKE const char* hipGetErrorString(int error) { return text_of(error); }

// --- CUDA alone ------------------------------------------------------------------------------------------------------
WEFT_FAKE int cuDeviceGet(int* device, int ordinal) { return give("cuDeviceGet", device, ordinal); }
WEFT_FAKE int cuDeviceGetAttribute(int* to, int which, int) { return attribute(to, which); }
WEFT_FAKE int cuDeviceTotalMem_v2(size_t* bytes, int) { return give("cuDeviceTotalMem_v2", bytes, size_t{16} << 30); }
WEFT_FAKE int cuDeviceGetName(char* name, int bytes, int) {
  if (int error = begin("cuDeviceGetName")) return error;
  std::strncpy(name, "fake", static_cast<size_t>(bytes));
  return 0;
}
WEFT_FAKE int cuDevicePrimaryCtxRetain(Handle* context, int device) {
  static int contexts[1];
  return give<Handle>("cuDevicePrimaryCtxRetain", context, contexts + device);
}
WEFT_FAKE int cuDeviceCanAccessPeer(int* can_access, int, int) { return give("cuDeviceCanAccessPeer", can_access, 1); }
WEFT_FAKE int cuCtxEnablePeerAccess(Handle, unsigned) { return begin("cuCtxEnablePeerAccess"); }
WEFT_FAKE int cuCtxSetCurrent(Handle) { return begin("cuCtxSetCurrent"); }
WEFT_FAKE int cuModuleLoadDataEx(Handle* module, const void*, unsigned, int*, void**) {
  return make("cuModuleLoadDataEx", module, 1);
}
WEFT_FAKE int cuFuncSetAttribute(Handle, int, int) { return begin("cuFuncSetAttribute"); }
WEFT_FAKE int cuGetErrorString(int error, const char** text) {
  *text = text_of(error);
  return 0;
}
