// SPDX-License-Identifier: Apache-2.0
// CUDA's driver API, with the declarations that Weft uses, written from the driver's public documentation.
#include <mutex>

#include "base/chip_features.h"
#include "base/error.h"
#include "base/knobs.h"
#include "targets/gpu/driver.h"

namespace weft::gpu {
namespace {

// Values of CUdevice_attribute, CUjit_option, CUfunction_attribute, CUlaunchAttributeID and CUresult.
constexpr int attribute_multiprocessors = 16, attribute_l2 = 38, attribute_major = 75, attribute_minor = 76,
              attribute_shared_optin = 97;
constexpr int jit_error_log = 5, jit_error_log_bytes = 6;
constexpr int function_max_dynamic_shared = 8;
constexpr int launch_cluster = 4, launch_overlap = 6;
constexpr int error_already_enabled = 704, error_not_supported = 801;

/// The driver's CUlaunchAttribute and CUlaunchConfig.
struct LaunchAttribute {
  int id = 0, unused = 0;
  unsigned value[16] = {};
};
struct LaunchConfig {
  unsigned grid[3], block[3], shared_bytes;
  Handle stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};

class Cuda final : public Driver {
 public:
  bool load(DriverSearch& search) {
    if (!open(search.tried, search.why) || !find(symbols(), search.why)) return false;
    int error = init_(0), count = 0;
    if (error == 0) error = count_(&count);
    if (error != 0) search.why = cat(path(), ": ", error_text(error));
    else if (count == 0) search.why = cat(path(), " knows no device");
    if (error != 0 || count == 0) return false;
    contexts_.resize(count);
    *slot(launch_with_) = symbol("cuLaunchKernelEx");  // drivers before 11.8 do not have it
    return true;
  }

  std::string_view vendor() const override { return "nvidia"; }
  int device_count() const override { return static_cast<int>(contexts_.size()); }

  DeviceInfo describe(int ordinal) const override {
    int device = device_of(ordinal), version = 0;
    char name[256] = {};
    size_t memory = 0;
    check(name_(name, sizeof name, device), "name a device");
    check(total_memory_(&memory, device), "ask for the size of memory");
    check(version_(&version), "ask for its version");
    return {.name = name,
            .chip = nvidia_chip(attribute(device, attribute_major) * 10 + attribute(device, attribute_minor)),
            .memory = static_cast<int64_t>(memory),
            .compute_units = attribute(device, attribute_multiprocessors),
            .wave = 32,
            .shared_bytes = attribute(device, attribute_shared_optin),
            .l2_bytes = attribute(device, attribute_l2),
            .driver_version = version};
  }

  void use(int ordinal) const override {
    std::scoped_lock lock(mutex_);
    Handle& context = contexts_[ordinal];
    if (!context) check(retain_(&context, device_of(ordinal)), "make a context");
    check(set_current_(context), "retain its context");
  }

  bool connect(int ordinal, int peer) const override {
    int can_access = 0;
    use(peer);
    use(ordinal);
    check(can_access_(&can_access, device_of(ordinal), device_of(peer)), "ask whether devices are connected");
    if (can_access == 0) return false;
    int error = enable_access_(contexts_[peer], 0);
    return error == 0 || error == error_already_enabled;
  }

  int allocate_host(void** memory, size_t bytes) const override { return allocate_host_(memory, bytes, 0); }

  int load_module(Handle* module, std::span<const std::byte> image, std::string& log) const override {
    char text[8192] = {};
    int options[] = {jit_error_log, jit_error_log_bytes};
    void* values[] = {text, reinterpret_cast<void*>(sizeof text)};
    int error = load_(module, image.data(), 2, options, values);
    log = text;
    return error;
  }

  int launch(Handle function, const LaunchSize& size, Handle stream, void** parameters) const override {
    if (size.cluster == 1 && !(size.overlap && launch_with_)) return Driver::launch(function, size, stream, parameters);
    if (!launch_with_) return error_not_supported;
    LaunchAttribute attributes[2];
    unsigned count = 0;
    if (size.cluster > 1)
      attributes[count++] = {.id = launch_cluster, .value = {static_cast<unsigned>(size.cluster), 1, 1}};
    if (size.overlap) attributes[count++] = {.id = launch_overlap, .value = {1}};
    LaunchConfig config{.grid = {static_cast<unsigned>(size.blocks), 1, 1},
                        .block = {static_cast<unsigned>(size.threads), 1, 1},
                        .shared_bytes = static_cast<unsigned>(size.shared_bytes),
                        .stream = stream,
                        .attributes = attributes,
                        .attribute_count = count};
    return launch_with_(&config, function, parameters, nullptr);
  }

  int allow_shared(Handle function, int bytes) const override {
    return bytes > 48 * 1024 ? set_attribute_(function, function_max_dynamic_shared, bytes) : 0;
  }

  std::string error_text(int error) const override {
    const char* text = nullptr;
    error_string_(error, &text);
    return numbered(text, error);
  }

 private:
  std::vector<DriverSymbol> symbols() {
    DriverCalls& c = calls_;
#define SYMBOL(pointer, name) {slot(pointer), name},
    return {
#include "targets/gpu/cuda_symbols.def"
    };
  }

  int device_of(int ordinal) const {
    int device = 0;
    check(get_(&device, ordinal), "open a device");
    return device;
  }
  int attribute(int device, int which) const {
    int value = 0;
    check(attribute_(&value, which, device), "describe a device");
    return value;
  }

  int (*init_)(unsigned) = nullptr;
  int (*count_)(int*) = nullptr;
  int (*get_)(int*, int) = nullptr;
  int (*name_)(char*, int, int) = nullptr;
  int (*attribute_)(int*, int, int) = nullptr;
  int (*total_memory_)(size_t*, int) = nullptr;
  int (*version_)(int*) = nullptr;
  int (*retain_)(Handle*, int) = nullptr;
  int (*set_current_)(Handle) = nullptr;
  int (*can_access_)(int* can_access, int device, int peer) = nullptr;
  int (*enable_access_)(Handle context, unsigned flags) = nullptr;
  int (*allocate_host_)(void**, size_t, unsigned) = nullptr;
  int (*load_)(Handle*, const void*, unsigned, int*, void**) = nullptr;
  int (*set_attribute_)(Handle, int, int) = nullptr;
  int (*error_string_)(int, const char**) = nullptr;
  int (*launch_with_)(const LaunchConfig*, Handle, void**, void**) = nullptr;
  mutable std::mutex mutex_;
  mutable std::vector<Handle> contexts_;  // primary contexts, made at first use
};

}  // namespace

DriverSearch find_cuda() {
  DriverSearch search{.vendor = "nvidia", .tried = {"libcuda.so.1"}};
  if (!knobs().cuda_library.empty()) search.tried = {knobs().cuda_library};
  auto driver = std::make_unique<Cuda>();
  if (driver->load(search)) search.driver = std::move(driver);
  return search;
}

}  // namespace weft::gpu
