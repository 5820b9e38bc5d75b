// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <onnxruntime_c_api.h>

#include <memory>

#include "ort/api.h"
#include "ort/device.h"
#include "ort/memory.h"

/// Memory that applications see as a device's, and copies of it. On a GPU it really is the device's. On the cpu target
/// it is host memory under a device's name: onnxruntime-genai requires that of AMD's provider, so that its key-value
/// cache stays in place from token to token.
namespace weft::ort {

using OwnedMemoryInfo = OrtOwned<OrtMemoryInfo, &OrtApi::ReleaseMemoryInfo>;

class DeviceMemory {
 public:
  /// `vendor` is shown to applications: the device's own, or AMD for those that accept AMD's memory only.
  DeviceMemory(const Device& device, uint32_t vendor);
  /// Adds this memory to an offered device: its default, and on the CPU one that the host may write to.
  void add_to(OrtEpDevice* device) const;
  bool holds(const OrtMemoryInfo* wanted) const;
  /// Freed with `free_allocator`. On a GPU the memory comes from `pool`; null: one pool for all sessions.
  OrtAllocator* make_allocator(const OrtMemoryInfo* wanted, std::shared_ptr<Pool> pool = nullptr) const;
  const OrtMemoryInfo* info() const { return own_.get(); }

 private:
  const Device& device_;
  OwnedMemoryInfo own_, shared_;
};

void free_allocator(OrtAllocator* allocator);
/// Copies between such memory and the host's; onnxruntime releases it.
OrtDataTransferImpl* make_data_transfer();
/// Copies one tensor. `stream`: the GPU's stream that may still be writing its data, or null.
void copy_tensor(const OrtValue* from, OrtValue* to, void* stream);

}  // namespace weft::ort
