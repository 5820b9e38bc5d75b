// SPDX-License-Identifier: Apache-2.0
#include "targets/gpu/device.h"

#include <map>

#include "api/c/handles.h"

using namespace weft;

namespace {

struct Names {
  std::string gpu, chip;
};

const std::vector<Names>& names() {
  static const std::vector<Names> list = [] {
    std::vector<Names> found;
    for (const auto& device : gpu::devices())
      found.push_back({device->name(), cat(device->driver().vendor(), ":", device->info().chip.arch)});
    return found;
  }();
  return list;
}

std::shared_ptr<gpu::Device> open(const char* name) {
  auto device = gpu::open_device(&required(name, "gpu"));
  device->use();
  return device;
}

/// Returns this thread's stream on the device, for copies to which the caller gives no stream.
const gpu::Stream& own_stream(const std::shared_ptr<gpu::Device>& device) {
  thread_local std::map<std::string, gpu::Stream> streams;
  auto known = streams.find(device->name());
  return known != streams.end() ? known->second : streams.emplace(device->name(), gpu::Stream(device)).first->second;
}

void copy(const gpu::Stream& stream, weft_copy way, void* to, const void* from, int64_t bytes) {
  switch (way) {
    case WEFT_TO_DEVICE: stream.copy_to_device(to, from, bytes); break;
    case WEFT_TO_HOST: stream.copy_to_host(to, from, bytes); break;
    case WEFT_ON_DEVICE: stream.copy_on_device(to, from, bytes); break;
    default: usage_error("E210", cat("copy kind ", static_cast<int>(way), " is unknown"));
  }
  stream.synchronize();
}

}  // namespace

const char* weft_gpu(size_t index) { return index < names().size() ? names()[index].gpu.c_str() : nullptr; }
const char* weft_gpu_chip(size_t index) { return index < names().size() ? names()[index].chip.c_str() : nullptr; }

weft_status* weft_gpu_allocate(const char* gpu, size_t bytes, void** data) {
  return guarded([&] {
    auto device = open(gpu);
    void* memory = nullptr;
    if (bytes > 0) device->check(device->calls().allocate(&memory, bytes), cat("allocate ", bytes, " bytes"));
    required(data, "data") = memory;
  });
}

weft_status* weft_gpu_release(const char* gpu, void* data) {
  return guarded([&] {
    auto device = open(gpu);
    if (data) device->check(device->calls().free(data), "free memory");
  });
}

weft_status* weft_gpu_copy(const char* gpu, weft_copy way, void* to, const void* from, size_t bytes, void* stream) {
  return guarded([&] {
    auto device = open(gpu);
    if (bytes > 0) required(static_cast<char*>(to), "to"), required(static_cast<const char*>(from), "from");
    if (stream) copy(gpu::Stream(device, stream), way, to, from, static_cast<int64_t>(bytes));
    else copy(own_stream(device), way, to, from, static_cast<int64_t>(bytes));
  });
}

weft_status* weft_gpu_wait(const char* gpu, void* stream) {
  return guarded([&] { gpu::Stream(open(gpu), stream).synchronize(); });
}
