// SPDX-License-Identifier: Apache-2.0
#include "ort/device.h"

#include <algorithm>

#include "weft/weft.h"

namespace weft::ort {

const std::vector<Device>& devices() {
  static const std::vector<Device> found = [] {
    std::vector<Device> list;
    for (size_t i = 0; const char* name = weft_gpu(i); ++i)
      list.push_back({.name = name, .chip = weft_gpu_chip(i), .number = static_cast<int>(i)});
    if (list.empty()) list.emplace_back();
    return list;
  }();
  return found;
}

const Device& device_named(const std::string& name) {
  auto found = std::ranges::find(devices(), name, &Device::name);
  return found == devices().end() ? devices()[0] : *found;
}

}  // namespace weft::ort
