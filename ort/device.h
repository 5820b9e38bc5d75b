// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace weft::ort {

constexpr uint32_t amd_vendor = 0x1002;

/// A device that the provider offers.
struct Device {
  std::string name = "cpu";  ///< as Weft calls it: "nvidia:0"
  std::string chip = "cpu";  ///< what its programs are for: "nvidia:sm_90a"
  int number = 0;            ///< among the devices; what the option device_id says

  bool is_gpu() const { return name != "cpu"; }
  /// Of the maker, as PCI numbers them. The cpu goes by AMD's, which is what applications look for behind the names.
  uint32_t vendor() const { return name.starts_with("nvidia") ? 0x10DE : amd_vendor; }
};

/// The GPUs of this machine; its processor where there is none.
const std::vector<Device>& devices();

/// The device of this name; the first if there is none.
const Device& device_named(const std::string& name);

}  // namespace weft::ort
