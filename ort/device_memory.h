// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <onnxruntime_c_api.h>

#include <memory>

#include "ort/api.h"
#include "ort/device.h"
#include "ort/memory.h"

/// Memory that applications see as a device's, and how it is copied. On a GPU it is that. On the cpu target it is the
/// host's own under a device's name: onnxruntime-genai asks that of AMD's provider, so that its key-value cache stays
/// where it is from token to token.
namespace weft::ort {

using OwnedMemoryInfo = OrtOwned<OrtMemoryInfo, &OrtApi::ReleaseMemoryInfo>;

class DeviceMemory {
 public:
  /// `vendor`: whose memory applications see, the maker's or, where one looks for AMD's only, AMD's.
  DeviceMemory(const Device& device, uint32_t vendor);
  /// Says that an offered device has this memory: its default, and on the cpu one that the host may write to.
  void add_to(OrtEpDevice* device) const;
  bool holds(const OrtMemoryInfo* wanted) const;
  /// Freed with `free_allocator`. On a GPU from `pool`; null: one for all sessions.
  OrtAllocator* make_allocator(const OrtMemoryInfo* wanted, std::shared_ptr<Pool> pool = nullptr) const;
  const OrtMemoryInfo* info() const { return own_.get(); }

 private:
  const Device& device_;
  OwnedMemoryInfo own_, shared_;
};

void free_allocator(OrtAllocator* allocator);
/// Copies between such memory and the host's; onnxruntime releases it.
OrtDataTransferImpl* make_data_transfer();
/// Copies one tensor; `stream` is the GPU's that its data may still be written on, or null.
void copy_tensor(const OrtValue* from, OrtValue* to, void* stream);

}  // namespace weft::ort
