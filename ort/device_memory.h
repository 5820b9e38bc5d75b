// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <onnxruntime_c_api.h>

#include "ort/api.h"

/// Memory that applications take for a device's: what onnxruntime-genai asks of an AMD GPU's provider, so that it keeps
/// its key-value cache there from token to token. On the cpu target it is the host's own, so copies are few and kernels
/// read it in place.
namespace weft::ort {

using OwnedMemoryInfo = OrtOwned<OrtMemoryInfo, &OrtApi::ReleaseMemoryInfo>;

class DeviceMemory {
 public:
  DeviceMemory();
  /// Says that an offered device has this memory: its default, and one that the host may write to.
  void add_to(OrtEpDevice* device) const;
  /// For either of the two; freed with `free_allocator`.
  OrtAllocator* make_allocator(const OrtMemoryInfo* wanted) const;

 private:
  OwnedMemoryInfo own_, shared_;
};

void free_allocator(OrtAllocator* allocator);
/// Copies between this memory and the host's; onnxruntime releases it.
OrtDataTransferImpl* make_data_transfer();

}  // namespace weft::ort
