// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace weft::ort {

constexpr uint32_t amd_vendor = 0x1002;

/// A device that the provider offers.
struct Device {
  std::string name = "cpu";  ///< Weft's name of the device: "nvidia:0"
  std::string chip = "cpu";  ///< the chip for which programs are compiled: "nvidia:sm_90a"
  int number = 0;            ///< index in devices(); the value of the option device_id

  bool is_gpu() const { return name != "cpu"; }
  /// Returns the vendor's PCI number. The CPU has AMD's, because applications expect it for these provider names.
  uint32_t vendor() const { return name.starts_with("nvidia") ? 0x10DE : amd_vendor; }
};

/// Returns the GPUs of this machine, or its processor if there are none.
const std::vector<Device>& devices();

/// Returns the device called `name`; the first device if no device has this name.
const Device& device_named(const std::string& name);

}  // namespace weft::ort
