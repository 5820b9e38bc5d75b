// SPDX-License-Identifier: Apache-2.0
#include "ort/device_memory.h"

#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>

namespace weft::ort {
namespace {

constexpr size_t alignment = 64;

/// Returns onnxruntime's description of the memory. The alignment in the description is 0, because onnxruntime treats
/// memory with another alignment as memory of another device.
OwnedMemoryInfo describe(const Device& device, uint32_t vendor, const char* name, OrtDeviceMemoryType type) {
  OrtMemoryInfo* info = nullptr;
  ok(api.ort->CreateMemoryInfo_V2(name, OrtMemoryInfoDeviceType_GPU, vendor, device.number, type, 0, OrtDeviceAllocator,
                                  &info));
  return OwnedMemoryInfo(info);
}

class Allocator : public OrtAllocator {
 public:
  Allocator(const OrtMemoryInfo* info, std::shared_ptr<Pool> pool)
      : OrtAllocator{}, info_(info), pool_(std::move(pool)) {
    version = api.version;
    Alloc = [](OrtAllocator* self, size_t bytes) { return static_cast<Allocator*>(self)->allocate(bytes); };
    Reserve = Alloc;
    Free = [](OrtAllocator* self, void* data) { static_cast<Allocator*>(self)->release(data); };
    Info = [](const OrtAllocator* self) { return static_cast<const Allocator*>(self)->info_; };
  }

 private:
  void* allocate(size_t bytes) {
    if (pool_) return pool_->allocate(bytes);
    size_t rounded = (bytes + alignment) / alignment * alignment;
    return rounded < bytes ? nullptr : std::aligned_alloc(alignment, rounded);
  }
  void release(void* data) {
    if (pool_) pool_->release(data);
    else std::free(data);
  }

  const OrtMemoryInfo* info_;
  std::shared_ptr<Pool> pool_;
};

/// Returns the GPU that owns this memory. Null for host memory, also if onnxruntime knows it as memory of a GPU.
const Device* gpu_of(const OrtMemoryDevice* memory) {
  if (api.ep->MemoryDevice_GetDeviceType(memory) != OrtMemoryInfoDeviceType_GPU || !devices()[0].is_gpu())
    return nullptr;
  uint32_t number = api.ep->MemoryDevice_GetDeviceId(memory);
  return number < devices().size() ? &devices()[number] : nullptr;
}

bool is_ours(const OrtMemoryDevice* memory) {
  if (api.ep->MemoryDevice_GetDeviceType(memory) != OrtMemoryInfoDeviceType_GPU) return false;
  uint32_t number = api.ep->MemoryDevice_GetDeviceId(memory), vendor = api.ep->MemoryDevice_GetVendorId(memory);
  return number < devices().size() && (vendor == devices()[number].vendor() || vendor == amd_vendor);
}

bool is_host(const OrtMemoryDevice* memory) {
  return api.ep->MemoryDevice_GetDeviceType(memory) == OrtMemoryInfoDeviceType_CPU;
}

void copy_bytes(const Device* from, const Device* to, void* target, const void* source, size_t bytes, void* stream) {
  if (!from && !to) {
    std::memmove(target, source, bytes);
    return;
  }
  if (from && to && from != to) throw std::runtime_error("copies between two GPUs go through the host");
  weft_copy way = from && to ? WEFT_ON_DEVICE : to ? WEFT_TO_DEVICE : WEFT_TO_HOST;
  check(weft_gpu_copy((to ? to : from)->name.c_str(), way, target, source, bytes, stream));
}

class DataTransfer : public OrtDataTransferImpl {
 public:
  DataTransfer() : OrtDataTransferImpl{} {
    ort_version_supported = api.version;
    Release = [](OrtDataTransferImpl* self) noexcept { delete static_cast<DataTransfer*>(self); };
    CanCopy = [](const OrtDataTransferImpl*, const OrtMemoryDevice* from, const OrtMemoryDevice* to) noexcept {
      if (!is_ours(from) || !is_ours(to)) return (is_ours(from) && is_host(to)) || (is_host(from) && is_ours(to));
      return api.ep->MemoryDevice_GetDeviceId(from) == api.ep->MemoryDevice_GetDeviceId(to);
    };
    CopyTensors = [](OrtDataTransferImpl*, const OrtValue** from, OrtValue** to, OrtSyncStream** streams,
                     size_t count) noexcept {
      return guarded("copying", [&] {
        for (size_t i = 0; i < count; ++i)
          copy_tensor(from[i], to[i], streams && streams[i] ? api.ort->SyncStream_GetHandle(streams[i]) : nullptr);
      });
    };
  }
};

}  // namespace

void copy_tensor(const OrtValue* from, OrtValue* to, void* stream) {
  size_t bytes = 0, room = 0;
  const void* source = nullptr;
  void* target = nullptr;
  ok(api.ort->GetTensorSizeInBytes(from, &bytes));
  ok(api.ort->GetTensorSizeInBytes(to, &room));
  ok(api.ort->GetTensorData(from, &source));
  ok(api.ort->GetTensorMutableData(to, &target));
  if (bytes > room)
    throw std::runtime_error("a tensor of " + std::to_string(bytes) + " bytes does not fit " + std::to_string(room));
  if (bytes == 0) return;
  if (!source || !target)
    throw std::runtime_error("there is no memory for a tensor of " + std::to_string(bytes) +
                             " bytes: the device is full, or the session's limit is reached");
  copy_bytes(gpu_of(api.ep->Value_GetMemoryDevice(from)), gpu_of(api.ep->Value_GetMemoryDevice(to)), target, source,
             bytes, stream);
}

DeviceMemory::DeviceMemory(const Device& device, uint32_t vendor)
    : device_(device), own_(describe(device, vendor, "Weft", OrtDeviceMemoryType_DEFAULT)) {
  if (!device.is_gpu()) shared_ = describe(device, vendor, "WeftShared", OrtDeviceMemoryType_HOST_ACCESSIBLE);
}

void DeviceMemory::add_to(OrtEpDevice* device) const {
  ok(api.ep->EpDevice_AddAllocatorInfo(device, own_.get()));
  if (shared_) ok(api.ep->EpDevice_AddAllocatorInfo(device, shared_.get()));
}

bool DeviceMemory::holds(const OrtMemoryInfo* wanted) const {
  const OrtMemoryDevice* memory = api.ep->MemoryInfo_GetMemoryDevice(wanted);
  return is_ours(memory) && api.ep->MemoryDevice_GetDeviceId(memory) == static_cast<uint32_t>(device_.number);
}

OrtAllocator* DeviceMemory::make_allocator(const OrtMemoryInfo* wanted, std::shared_ptr<Pool> pool) const {
  auto type = api.ep->MemoryDevice_GetMemoryType(api.ep->MemoryInfo_GetMemoryDevice(wanted));
  bool is_shared = shared_ && type == OrtDeviceMemoryType_HOST_ACCESSIBLE;
  if (device_.is_gpu() && !pool)
    pool = std::make_shared<Pool>(std::make_shared<Memory>(Options{}, device_), ArenaStrategy::same_as_requested);
  return new Allocator(is_shared ? shared_.get() : own_.get(), device_.is_gpu() ? pool : nullptr);
}

void free_allocator(OrtAllocator* allocator) { delete static_cast<Allocator*>(allocator); }
OrtDataTransferImpl* make_data_transfer() { return new DataTransfer; }

}  // namespace weft::ort
