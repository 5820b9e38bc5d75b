// SPDX-License-Identifier: Apache-2.0
// The functions of libamdhip64 that Weft and the tests call, as AMD's documentation of ROCm 6 and 7 describes them.
// This library refuses some wrong calls that AMD's library accepts.
#include <algorithm>
#include <cstdio>
#include <utility>

#include "driver.h"

using namespace weft::amdemu;

namespace {

enum CopyKind { host_to_host, host_to_device, device_to_host, device_to_device, any_direction };

thread_local int current_device = 0;
thread_local int last_error = success;

int result(int error) {
  if (error != success && error != not_ready) last_error = error;
  return error;
}

/// Runs the body under the driver's lock; returns its result and keeps an error as the thread's last error.
template <class Body>
int locked(Body body) {
  Driver& d = driver();
  const std::lock_guard lock(d.mutex);
  return result(body(d));
}

bool is_mapped(const void* memory, size_t bytes) { return find_region(address_of(memory), bytes).end != 0; }

/// Writes fields of hipDeviceProp_t at their offsets (R0600).
struct Properties {
  char* to;
  template <class T>
  void set(size_t offset, T value) const {
    std::memcpy(to + offset, &value, sizeof value);
  }
};

int describe(void* to, int device) {
  if (device < 0 || static_cast<size_t>(device) >= devices().size()) return invalid_device;
  const Chip& chip = devices()[static_cast<size_t>(device)];
  constexpr size_t bytes = 1472, name_bytes = 256;
  std::memset(to, 0, bytes);
  const Properties p{static_cast<char*>(to)};
  std::snprintf(p.to, name_bytes, "emulated %s", chip.name.c_str());
  p.set<size_t>(288, static_cast<size_t>(chip.memory_gib) << 30);
  p.set<size_t>(296, Chip::lds_bytes);
  p.set(304, 65536);  // registers per block
  p.set(308, chip.wave);
  p.set(320, 1024);  // threads per block
  p.set(348, chip.clock_mhz * 1000);
  p.set(388, chip.units);
  p.set(616, chip.l2_mib << 20);
  const bool has_features = chip.name == "gfx90a" || chip.name == "gfx942";
  std::snprintf(p.to + 1160, name_bytes, "%s%s", chip.name.c_str(), has_features ? ":sramecc+:xnack-" : "");
  p.set<size_t>(1416, Chip::lds_bytes);
  return success;
}

int allocate(void** memory, size_t bytes, bool on_device) {
  return locked([&](Driver& d) -> int {
    *memory = nullptr;
    if (bytes == 0) return success;
    const size_t all = static_cast<size_t>(devices()[static_cast<size_t>(current_device)].memory_gib) << 30;
    if (bytes > all || d.used > all - bytes) return out_of_memory;
    void* made = allocate_device(bytes);
    if (!made) return out_of_memory;
    if (!on_device) {  // pinned memory has the host's address
      remove_region(address_of(made));
      made = host_pointer(address_of(made));
      add_region(address_of(made), bytes);
    }
    *memory = made;
    d.used += bytes;
    return success;
  });
}

int release(void* memory) {
  return locked([&](Driver& d) -> int {
    if (!memory) return success;
    const size_t bytes = region_bytes(address_of(memory));
    if (bytes == 0) return invalid_value;
    d.finish_all();
    d.used -= bytes;
    free_device(memory);
    return success;
  });
}

/// Copies bytes. Device memory must be within one allocation. A source in unpinned host memory is read immediately, as
/// drivers do, unless the stream records a graph.
int copy(void* to, const void* from, size_t bytes, CopyKind kind, void* handle, bool waits) {
  return locked([&](Driver& d) -> int {
    if (bytes == 0) return success;
    const bool to_device = kind == host_to_device || kind == device_to_device;
    const bool from_device = kind == device_to_host || kind == device_to_device;
    if ((to_device && !is_mapped(to, bytes)) || (from_device && !is_mapped(from, bytes))) return invalid_value;
    Stream* stream = d.stream(handle);
    Work work{.kind = Work::Kind::copy, .to = to, .from = from, .count = bytes};
    if (!from_device && !is_mapped(from, bytes) && !stream->recording) {
      const auto* begin = static_cast<const u8*>(from);
      work.bytes.assign(begin, begin + bytes);
    }
    const int error = d.submit(stream, std::move(work));
    if (waits && !stream->recording) d.finish(stream);
    return error ? error : d.fault;
  });
}

int fill(void* to, unsigned value, size_t count, int width, void* stream) {
  return locked([&](Driver& d) -> int {
    if (count == 0) return success;
    if (!is_mapped(to, count * static_cast<size_t>(width))) return invalid_value;
    return d.submit(d.stream(stream),
                    {.kind = Work::Kind::fill, .to = to, .count = count, .value = value, .width = width});
  });
}

/// Returns the code object for a chip from a bundle of clang, or null; returns an image that is no bundle unchanged.
const void* unbundled(const void* image, const std::string& chip) {
  const char* bytes = static_cast<const char*>(image);
  constexpr size_t magic_bytes = 24;
  if (std::memcmp(bytes, "__CLANG_OFFLOAD_BUNDLE__", magic_bytes) != 0) return image;
  u64 entries = 0;
  std::memcpy(&entries, bytes + magic_bytes, sizeof entries);
  const char* at = bytes + magic_bytes + sizeof entries;
  for (u64 k = 0; k < entries; ++k) {
    u64 header[3];  // offset, size, length of the name
    std::memcpy(header, at, sizeof header);
    const std::string name(at + sizeof header, header[2]);
    if (header[1] > 0 && name.find(chip) != std::string::npos) return bytes + header[0];
    at += sizeof header + header[2];
  }
  return nullptr;
}

int check_sizes(const Kernel& kernel, const LaunchSizes& s) {
  const u64 threads = u64{s.threads[0]} * s.threads[1] * s.threads[2];
  if (s.group_count() == 0) return invalid_value;
  if (threads == 0) return invalid_configuration;
  if (threads > 1024) return invalid_value;
  if (threads > kernel.max_threads) return launch_failure;
  return kernel.lds_bytes + s.dynamic_lds > Chip::lds_bytes ? out_of_resources : success;
}

/// Reads arguments in both of HIP's forms: `parameters` has a pointer to each argument, or `extra` is
/// {1, buffer, 2, &size, 3}, where 1, 2 and 3 are HIP's tags.
int read_arguments(const Kernel& kernel, void** parameters, void** extra, std::vector<u8>& bytes) {
  if ((parameters && extra) || (!parameters && !extra && kernel.explicit_bytes)) return invalid_value;
  bytes.resize(kernel.explicit_bytes);
  if (parameters) {
    for (const KernelArgument& a : kernel.arguments) {
      if (!a.hidden()) std::memcpy(bytes.data() + a.offset, *parameters++, a.size);
    }
  } else if (extra) {
    auto tag = [&](int at) { return reinterpret_cast<u64>(extra[at]); };
    if (tag(0) != 1 || tag(2) != 2 || tag(4) != 3 || *static_cast<size_t*>(extra[3]) < bytes.size())
      return invalid_value;
    std::memcpy(bytes.data(), extra[1], bytes.size());
  }
  return success;
}

}  // namespace

#define WEFT_HIP extern "C" __attribute__((visibility("default")))

WEFT_HIP int hipInit(unsigned) {
  try {
    return devices().empty() ? result(invalid_device) : success;
  } catch (const Fault& problem) {
    std::fprintf(stderr, "amdemu: %s\n", problem.what());
    return result(invalid_device);
  }
}

WEFT_HIP int hipGetDeviceCount(int* count) {
  *count = static_cast<int>(devices().size());
  return success;
}

WEFT_HIP int hipSetDevice(int device) {
  if (device < 0 || static_cast<size_t>(device) >= devices().size()) return result(invalid_device);
  current_device = device;
  return success;
}

WEFT_HIP int hipGetDevicePropertiesR0600(void* properties, int device) { return result(describe(properties, device)); }

WEFT_HIP int hipDriverGetVersion(int* version) {
  *version = 60300000;
  return success;
}

WEFT_HIP const char* hipGetErrorString(int error) { return error_text(error); }
WEFT_HIP int hipGetLastError() { return std::exchange(last_error, success); }

WEFT_HIP int hipDeviceSynchronize() {
  return locked([](Driver& d) -> int {
    d.finish_all();
    return d.fault;
  });
}

// --- memory ----------------------------------------------------------------------------------------------------------

WEFT_HIP int hipMalloc(void** memory, size_t bytes) { return allocate(memory, bytes, true); }
WEFT_HIP int hipFree(void* memory) { return release(memory); }
WEFT_HIP int hipHostMalloc(void** memory, size_t bytes, unsigned) { return allocate(memory, bytes, false); }
WEFT_HIP int hipHostFree(void* memory) { return release(memory); }

WEFT_HIP int hipMemGetInfo(size_t* free, size_t* total) {
  return locked([&](Driver& d) -> int {
    *total = static_cast<size_t>(devices()[static_cast<size_t>(current_device)].memory_gib) << 30;
    *free = *total - d.used;
    return success;
  });
}

WEFT_HIP int hipMemcpy(void* to, const void* from, size_t bytes, int kind) {
  return copy(to, from, bytes, static_cast<CopyKind>(kind), nullptr, true);
}
WEFT_HIP int hipMemcpyHtoDAsync(void* to, const void* from, size_t bytes, void* stream) {
  return copy(to, from, bytes, host_to_device, stream, false);
}
WEFT_HIP int hipMemcpyDtoHAsync(void* to, void* from, size_t bytes, void* stream) {
  return copy(to, from, bytes, device_to_host, stream, false);
}
WEFT_HIP int hipMemcpyDtoDAsync(void* to, void* from, size_t bytes, void* stream) {
  return copy(to, from, bytes, device_to_device, stream, false);
}
WEFT_HIP int hipMemsetD8Async(void* to, unsigned char value, size_t count, void* stream) {
  return fill(to, value, count, 1, stream);
}

WEFT_HIP int hipLaunchHostFunc(void* stream, void (*function)(void*), void* data) {
  return locked([&](Driver& d) -> int {
    return d.submit(d.stream(stream), {.kind = Work::Kind::call, .call = function, .data = data});
  });
}

// --- streams and events ----------------------------------------------------------------------------------------------

WEFT_HIP int hipStreamCreateWithFlags(void** stream, unsigned flags) {
  return locked([&](Driver& d) -> int {
    auto* made = new Stream;
    made->non_blocking = (flags & 1) != 0;
    d.streams.insert(made);
    *stream = made;
    return success;
  });
}

WEFT_HIP int hipStreamDestroy(void* handle) {
  return locked([&](Driver& d) -> int {
    auto* stream = static_cast<Stream*>(handle);
    if (!d.streams.contains(stream)) return invalid_handle;
    d.finish(stream);
    for (Event* event : d.events) {
      if (event->stream == stream) event->stream = nullptr, event->recorded = false;
    }
    d.streams.erase(stream);
    delete stream;
    return success;
  });
}

WEFT_HIP int hipStreamSynchronize(void* handle) {
  return locked([&](Driver& d) -> int {
    Stream* stream = d.stream(handle);
    if (stream->recording) return stream_captured;
    d.finish(stream);
    return d.fault;
  });
}

/// Waits for the stream, unlike HIP's query: the emulator runs work only when the host waits.
WEFT_HIP int hipStreamQuery(void* handle) { return hipStreamSynchronize(handle); }

WEFT_HIP int hipStreamWaitEvent(void* handle, void* which, unsigned) {
  return locked([&](Driver& d) -> int {
    Stream* stream = d.stream(handle);
    auto* event = static_cast<Event*>(which);
    if (!d.events.contains(event)) return invalid_handle;
    if (event->recording) {  // the stream joins the recording
      stream->recording = event->recording;
      return success;
    }
    if (stream->recording) return capture_isolation;
    if (!event->recorded) return success;
    return d.submit(stream, {.kind = Work::Kind::wait, .event = event, .wanted = event->wanted});
  });
}

WEFT_HIP int hipEventCreateWithFlags(void** event, unsigned flags) {
  return locked([&](Driver& d) -> int {
    auto* made = new Event{.timed = (flags & 2) == 0};
    d.events.insert(made);
    *event = made;
    return success;
  });
}

WEFT_HIP int hipEventDestroy(void* which) {
  return locked([&](Driver& d) -> int {
    auto* event = static_cast<Event*>(which);
    if (!d.events.contains(event)) return invalid_handle;
    d.finish_all();
    d.events.erase(event);
    delete event;
    return success;
  });
}

WEFT_HIP int hipEventRecord(void* which, void* handle) {
  return locked([&](Driver& d) -> int {
    auto* event = static_cast<Event*>(which);
    Stream* stream = d.stream(handle);
    if (!d.events.contains(event)) return invalid_handle;
    event->recording = stream->recording;
    if (event->recording) return success;
    const int error = d.submit(stream, {.kind = Work::Kind::record, .event = event});
    event->stream = stream;
    event->wanted = stream->submitted;
    event->recorded = true;
    return error;
  });
}

WEFT_HIP int hipEventSynchronize(void* which) {
  return locked([&](Driver& d) -> int {
    auto* event = static_cast<Event*>(which);
    if (!d.events.contains(event)) return invalid_handle;
    if (event->recorded) d.run_until(event->stream, event->wanted);
    return d.fault;
  });
}

WEFT_HIP int hipEventElapsedTime(float* milliseconds, void* begin, void* end) {
  return locked([&](Driver& d) -> int {
    auto *first = static_cast<Event*>(begin), *second = static_cast<Event*>(end);
    for (Event* event : {first, second}) {
      if (!d.events.contains(event) || !event->recorded || !event->timed) return invalid_handle;
      if (event->stream->done < event->wanted) return not_ready;
    }
    *milliseconds = static_cast<float>((second->time - first->time) * 1e3);
    return success;
  });
}

// --- modules and launches --------------------------------------------------------------------------------------------

WEFT_HIP int hipModuleLoadData(void** module, const void* image) {
  return locked([&](Driver& d) -> int {
    try {
      const std::string& chip = devices()[static_cast<size_t>(current_device)].name;
      image = unbundled(image, chip);
      if (!image) return no_binary;
      auto object = load_code_object(image);
      if (object->chip != chip) return no_binary;
      d.modules.insert(object.get());
      *module = object.release();
      return success;
    } catch (const Fault& problem) {
      std::fprintf(stderr, "amdemu: %s\n", problem.what());
      return invalid_image;
    }
  });
}

WEFT_HIP int hipModuleUnload(void* module) {
  return locked([&](Driver& d) -> int {
    auto* object = static_cast<CodeObject*>(module);
    if (!d.modules.contains(object)) return invalid_handle;
    d.finish_all();
    d.modules.erase(object);
    delete object;
    return success;
  });
}

WEFT_HIP int hipModuleGetFunction(void** function, void* module, const char* name) {
  return locked([&](Driver& d) -> int {
    auto* object = static_cast<CodeObject*>(module);
    if (!d.modules.contains(object)) return invalid_handle;
    auto kernel = object->kernels.find(name);
    if (kernel == object->kernels.end()) return not_found;
    *function = kernel->second.get();
    return success;
  });
}

WEFT_HIP int hipModuleLaunchKernel(void* function, unsigned groups_x, unsigned groups_y, unsigned groups_z,
                                   unsigned threads_x, unsigned threads_y, unsigned threads_z, unsigned lds,
                                   void* stream, void** parameters, void** extra) {
  return locked([&](Driver& d) -> int {
    const Kernel& kernel = *static_cast<const Kernel*>(function);
    Work work{.kind = Work::Kind::kernel,
              .kernel = &kernel,
              .sizes = {{groups_x, groups_y, groups_z}, {threads_x, threads_y, threads_z}, lds}};
    int error = check_sizes(kernel, work.sizes);
    if (!error) error = read_arguments(kernel, parameters, extra, work.bytes);
    return error ? error : d.submit(d.stream(stream), std::move(work));
  });
}

// --- graphs ----------------------------------------------------------------------------------------------------------

WEFT_HIP int hipStreamBeginCapture(void* handle, int) {
  return locked([&](Driver& d) -> int {
    Stream* stream = d.stream(handle);
    if (stream == &d.default_stream || stream->recording) return stream_captured;
    stream->recording = new Graph;
    stream->origin = stream;
    d.graphs.insert(stream->recording);
    return success;
  });
}

WEFT_HIP int hipStreamEndCapture(void* handle, void** graph) {
  return locked([&](Driver& d) -> int {
    Stream* stream = d.stream(handle);
    if (!stream->recording || stream->origin != stream) return capture_unmatched;
    *graph = stream->recording;
    for (Stream* other : d.streams) {
      if (other->recording == *graph) other->recording = nullptr;
    }
    for (Event* event : d.events) {
      if (event->recording == *graph) event->recording = nullptr;
    }
    stream->origin = nullptr;
    return success;
  });
}

WEFT_HIP int hipGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long) {
  return locked([&](Driver& d) -> int {
    if (!d.graphs.contains(static_cast<Graph*>(graph))) return invalid_handle;
    auto* made = new Graph(*static_cast<Graph*>(graph));
    d.executables.insert(made);
    *executable = made;
    return success;
  });
}

WEFT_HIP int hipGraphLaunch(void* executable, void* stream) {
  return locked([&](Driver& d) -> int {
    auto* graph = static_cast<Graph*>(executable);
    if (!d.executables.contains(graph)) return invalid_handle;
    for (const Work& work : graph->work) {
      if (int error = d.submit(d.stream(stream), work)) return error;
    }
    return success;
  });
}

WEFT_HIP int hipGraphDestroy(void* graph) {
  return locked([&](Driver& d) -> int {
    if (d.graphs.erase(static_cast<Graph*>(graph)) == 0) return invalid_handle;
    delete static_cast<Graph*>(graph);
    return success;
  });
}

WEFT_HIP int hipGraphExecDestroy(void* executable) {
  return locked([&](Driver& d) -> int {
    if (d.executables.erase(static_cast<Graph*>(executable)) == 0) return invalid_handle;
    d.finish_all();
    delete static_cast<Graph*>(executable);
    return success;
  });
}

// --- extensions for tests --------------------------------------------------------------------------------------------

/// Returns the message of the last kernel that failed.
WEFT_HIP const char* amdemuLastError() { return driver().fault_text.c_str(); }

/// Forgets a fault, so that further tests may run in the process.
WEFT_HIP void amdemuReset() {
  locked([](Driver& d) -> int {
    d.fault = success;
    return success;
  });
  last_error = success;
}

/// Returns the bytes allocated plus the number of handles; 0 if everything is released.
WEFT_HIP size_t amdemuHeld() {
  Driver& d = driver();
  const std::lock_guard lock(d.mutex);
  return d.used + d.streams.size() + d.events.size() + d.graphs.size() + d.executables.size() + d.modules.size();
}
