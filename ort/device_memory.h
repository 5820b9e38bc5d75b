// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <onnxruntime_c_api.h>

#include <memory>

#include "ort/api.h"
#include "ort/device.h"
#include "ort/memory.h"

/// Memory that applications see as a device's, and copies of it. On a GPU it is the device's memory. On the cpu target
/// it is host memory under a device's name: onnxruntime-genai requires this of AMD's provider, and then keeps its
/// key-value cache in place from token to token.
namespace weft::ort {

using OwnedMemoryInfo = OrtOwned<OrtMemoryInfo, &OrtApi::ReleaseMemoryInfo>;

class DeviceMemory {
 public:
  /// `vendor` is what applications see: the device's vendor, or AMD for applications that accept only AMD's memory.
  DeviceMemory(const Device& device, uint32_t vendor);
  /// Adds this memory to an offered device: the default kind, and on the CPU also one that the host may write to.
  void add_to(OrtEpDevice* device) const;
  bool holds(const OrtMemoryInfo* wanted) const;
  /// Makes an allocator; free it with `free_allocator`. On a GPU the memory comes from `pool`; null: from one pool for
  /// all sessions.
  OrtAllocator* make_allocator(const OrtMemoryInfo* wanted, std::shared_ptr<Pool> pool = nullptr) const;
  const OrtMemoryInfo* info() const { return own_.get(); }

 private:
  const Device& device_;
  OwnedMemoryInfo own_, shared_;
};

void free_allocator(OrtAllocator* allocator);
/// Makes the object that copies between this memory and the host's; onnxruntime releases it.
OrtDataTransferImpl* make_data_transfer();
/// Copies one tensor. `stream` is the GPU's stream that may still write its data, or null.
void copy_tensor(const OrtValue* from, OrtValue* to, void* stream);

}  // namespace weft::ort
