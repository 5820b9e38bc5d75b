// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <onnxruntime_c_api.h>

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ort/device_memory.h"

namespace weft::ort {

/// The names of the provider, which all run Weft. The first three are those of AMD's providers. onnxruntime for
/// Python reserves the first name for itself, so a session by name needs the fourth (docs/onnxruntime.md).
constexpr std::array<std::string_view, 4> provider_names = {"MIGraphXExecutionProvider", "ROCMExecutionProvider",
                                                            "AMDGPUExecutionProvider", "WeftExecutionProvider"};

/// Makes the execution providers of one name.
class Factory : public OrtEpFactory {
 public:
  explicit Factory(std::string_view name);
  Factory(const Factory&) = delete;
  ~Factory();

 private:
  static Factory& self(OrtEpFactory* factory) { return *static_cast<Factory*>(factory); }

  void set_up_memory();
  OrtEp* create(std::span<const OrtKeyValuePairs* const> offered, const OrtSessionOptions* session,
                const OrtLogger* logger) const;
  OrtEpDevice* offer(const Device& device, const OrtHardwareDevice* hardware);
  const OrtHardwareDevice* hardware_of(const Device& device, std::span<const OrtHardwareDevice* const> hardware);
  const DeviceMemory* memory_of(const Device& device) const;

  std::string name_;
  /// The memory of each device. The CPU's is offered only under the provider name that onnxruntime-genai uses.
  std::vector<DeviceMemory> memory_;
  std::vector<OrtHardwareDevice*> made_;  // devices added for GPUs that onnxruntime did not find
};

}  // namespace weft::ort
