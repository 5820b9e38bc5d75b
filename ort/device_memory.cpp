// SPDX-License-Identifier: Apache-2.0
#include "ort/device_memory.h"

#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>

namespace weft::ort {
namespace {

constexpr uint32_t amd_vendor = 0x1002;
constexpr size_t alignment = 64;

/// Alignment 0 in its description: onnxruntime takes memory of another alignment for another device.
OwnedMemoryInfo describe(const char* name, OrtDeviceMemoryType type) {
  OrtMemoryInfo* info = nullptr;
  ok(api.ort->CreateMemoryInfo_V2(name, OrtMemoryInfoDeviceType_GPU, amd_vendor, 0, type, 0, OrtDeviceAllocator,
                                  &info));
  return OwnedMemoryInfo(info);
}

class Allocator : public OrtAllocator {
 public:
  explicit Allocator(const OrtMemoryInfo* info) : OrtAllocator{}, info_(info) {
    version = api.version;
    Alloc = [](OrtAllocator*, size_t bytes) -> void* {
      size_t rounded = (bytes + alignment) / alignment * alignment;
      return rounded < bytes ? nullptr : std::aligned_alloc(alignment, rounded);
    };
    Reserve = Alloc;
    Free = [](OrtAllocator*, void* data) { std::free(data); };
    Info = [](const OrtAllocator* self) { return static_cast<const Allocator*>(self)->info_; };
  }

 private:
  const OrtMemoryInfo* info_;
};

bool is_gpu(const OrtMemoryDevice* device) {
  return api.ep->MemoryDevice_GetDeviceType(device) == OrtMemoryInfoDeviceType_GPU;
}

void copy(const OrtValue* from, OrtValue* to) {
  size_t bytes = 0, room = 0;
  const void* source = nullptr;
  void* target = nullptr;
  ok(api.ort->GetTensorSizeInBytes(from, &bytes));
  ok(api.ort->GetTensorSizeInBytes(to, &room));
  ok(api.ort->GetTensorData(from, &source));
  ok(api.ort->GetTensorMutableData(to, &target));
  if (bytes > room)
    throw std::runtime_error("a tensor of " + std::to_string(bytes) + " bytes does not fit " + std::to_string(room));
  if (bytes > 0) std::memmove(target, source, bytes);
}

class DataTransfer : public OrtDataTransferImpl {
 public:
  DataTransfer() : OrtDataTransferImpl{} {
    ort_version_supported = api.version;
    Release = [](OrtDataTransferImpl* self) noexcept { delete static_cast<DataTransfer*>(self); };
    CanCopy = [](const OrtDataTransferImpl*, const OrtMemoryDevice* from, const OrtMemoryDevice* to) noexcept {
      return is_gpu(from) || is_gpu(to);
    };
    CopyTensors = [](OrtDataTransferImpl*, const OrtValue** from, OrtValue** to, OrtSyncStream**,
                     size_t count) noexcept {
      return guarded("copying", [&] {
        for (size_t i = 0; i < count; ++i) copy(from[i], to[i]);
      });
    };
  }
};

}  // namespace

DeviceMemory::DeviceMemory()
    : own_(describe("Weft", OrtDeviceMemoryType_DEFAULT)),
      shared_(describe("WeftShared", OrtDeviceMemoryType_HOST_ACCESSIBLE)) {}

void DeviceMemory::add_to(OrtEpDevice* device) const {
  ok(api.ep->EpDevice_AddAllocatorInfo(device, own_.get()));
  ok(api.ep->EpDevice_AddAllocatorInfo(device, shared_.get()));
}

OrtAllocator* DeviceMemory::make_allocator(const OrtMemoryInfo* wanted) const {
  auto type = api.ep->MemoryDevice_GetMemoryType(api.ep->MemoryInfo_GetMemoryDevice(wanted));
  return new Allocator(type == OrtDeviceMemoryType_HOST_ACCESSIBLE ? shared_.get() : own_.get());
}

void free_allocator(OrtAllocator* allocator) { delete static_cast<Allocator*>(allocator); }
OrtDataTransferImpl* make_data_transfer() { return new DataTransfer; }

}  // namespace weft::ort
