// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <onnxruntime_c_api.h>

#include <memory>

#include "ort/api.h"
#include "ort/device.h"
#include "ort/memory.h"

/// Memory that applications see as device memory, and copies to and from it. For a GPU it is the GPU's memory. For the
/// CPU it is host memory that is described as device memory: onnxruntime-genai requires device memory of AMD's
/// provider, and only then updates its key-value cache in place.
namespace weft::ort {

using OwnedMemoryInfo = OrtOwned<OrtMemoryInfo, &OrtApi::ReleaseMemoryInfo>;

class DeviceMemory {
 public:
  /// `vendor` is the vendor that applications see: the real one, or AMD for applications that accept only AMD's memory.
  DeviceMemory(const Device& device, uint32_t vendor);
  /// Adds this memory to an offered device as its default memory, and for the CPU also as memory that the host can
  /// access.
  void add_to(OrtEpDevice* device) const;
  bool holds(const OrtMemoryInfo* wanted) const;
  /// Makes an allocator; free it with `free_allocator`. GPU memory comes from `pool`, or if null, from a new pool.
  OrtAllocator* make_allocator(const OrtMemoryInfo* wanted, std::shared_ptr<Pool> pool = nullptr) const;
  const OrtMemoryInfo* info() const { return own_.get(); }

 private:
  const Device& device_;
  OwnedMemoryInfo own_, shared_;
};

void free_allocator(OrtAllocator* allocator);
/// Makes the object by which onnxruntime copies between device and host memory; onnxruntime releases it.
OrtDataTransferImpl* make_data_transfer();
/// Copies one tensor. `stream` is the GPU stream that may still write to `from`, or null.
void copy_tensor(const OrtValue* from, OrtValue* to, void* stream);

}  // namespace weft::ort
