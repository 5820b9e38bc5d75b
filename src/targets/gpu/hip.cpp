// SPDX-License-Identifier: Apache-2.0
// HIP, with the declarations that Weft uses, written from AMD's public documentation of ROCm 6 and 7.
#include <cstring>

#include "base/chip_features.h"
#include "base/error.h"
#include "base/knobs.h"
#include "targets/gpu/driver.h"

namespace weft::gpu {
namespace {

/// hipDeviceProp_t as hipGetDevicePropertiesR0600 fills it (the same in ROCm 6.0 to 7.2): 1,472 bytes, and room for
/// additions. Weft reads a few fields by their offsets in bytes.
struct Properties {
  char bytes[4096] = {};
  template <class T>
  T at(size_t offset) const {
    T value;
    std::memcpy(&value, bytes + offset, sizeof value);
    return value;
  }
  std::string text(size_t offset) const { return bytes + offset; }
};
constexpr size_t at_name = 0, at_memory = 288, at_shared = 296, at_wave = 308, at_units = 388, at_l2 = 616,
                 at_arch = 1160;

class Hip final : public Driver {
 public:
  bool load(DriverSearch& search) {
    if (!open(search.tried, search.why) || !find(symbols(), search.why)) return false;
    int error = init_(0);
    if (error == 0) error = count_(&devices_);
    if (error != 0) search.why = cat(path(), ": ", error_text(error));
    else if (devices_ == 0) search.why = cat(path(), " knows no device");
    return error == 0 && devices_ > 0;
  }

  std::string_view vendor() const override { return "amd"; }
  int device_count() const override { return devices_; }

  DeviceInfo describe(int ordinal) const override {
    Properties p;
    int version = 0;
    check(properties_(&p, ordinal), "describe a device");
    check(version_(&version), "ask for its version");
    std::string arch = p.text(at_arch);
    Chip chip = chip_named(arch.substr(0, arch.find(':')));
    return {.name = p.text(at_name),
            .chip = chip,
            .memory = p.at<int64_t>(at_memory),
            .compute_units = p.at<int>(at_units) * gpu_model(chip.arch).hip_units,
            .wave = p.at<int>(at_wave),
            .shared_bytes = static_cast<int>(p.at<int64_t>(at_shared)),
            .l2_bytes = p.at<int>(at_l2),
            .driver_version = version};
  }

  void use(int ordinal) const override { check(set_device_(ordinal), "select a device"); }
  /// Returns false: a running kernel sees another device's stores only in a kind of memory that Weft does not allocate.
  bool connect(int, int) const override { return false; }
  int allocate_host(void** memory, size_t bytes) const override { return allocate_host_(memory, bytes, 0); }
  int load_module(Handle* module, std::span<const std::byte> image, std::string&) const override {
    return load_(module, image.data());
  }
  int allow_shared(Handle, int) const override { return 0; }
  std::string error_text(int error) const override { return numbered(error_string_(error), error); }

 private:
  std::vector<DriverSymbol> symbols() {
    DriverCalls& c = calls_;
#define SYMBOL(pointer, name) {slot(pointer), name},
    return {
#include "targets/gpu/hip_symbols.def"
    };
  }

  int devices_ = 0;
  int (*init_)(unsigned) = nullptr;
  int (*count_)(int*) = nullptr;
  int (*properties_)(Properties*, int) = nullptr;
  int (*version_)(int*) = nullptr;
  int (*set_device_)(int) = nullptr;
  int (*allocate_host_)(void**, size_t, unsigned) = nullptr;
  int (*load_)(Handle*, const void*) = nullptr;
  const char* (*error_string_)(int) = nullptr;
};

}  // namespace

DriverSearch find_hip() {
  DriverSearch search{.vendor = "amd", .tried = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so"}};
  if (!knobs().hip_library.empty()) search.tried = {knobs().hip_library};
  auto driver = std::make_unique<Hip>();
  if (driver->load(search)) search.driver = std::move(driver);
  return search;
}

}  // namespace weft::gpu
