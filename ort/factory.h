// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <onnxruntime_c_api.h>

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "ort/device_memory.h"

namespace weft::ort {

/// One engine behind all. The first three are the names that users of AMD's providers write; onnxruntime for Python
/// keeps the name of the first for itself, so that a session by name needs the fourth (docs/onnxruntime.md).
constexpr std::array<std::string_view, 4> provider_names = {"MIGraphXExecutionProvider", "ROCMExecutionProvider",
                                                            "AMDGPUExecutionProvider", "WeftExecutionProvider"};

/// Makes the execution providers of one name.
class Factory : public OrtEpFactory {
 public:
  explicit Factory(std::string_view name);

 private:
  std::string name_;
  std::optional<DeviceMemory> memory_;  ///< of the name that onnxruntime-genai knows, which needs it
};

}  // namespace weft::ort
