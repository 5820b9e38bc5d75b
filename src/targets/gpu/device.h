// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/host.h"
#include "targets/gpu/driver.h"

/// One GPU and its resources. A small move-only object owns each resource and keeps the device alive. Errors of the
/// driver are thrown (E400 memory, E602 anything else).
///
///     std::shared_ptr<Device> device = open_device("nvidia:0");
///     Memory x(device, bytes);
///     Stream stream(device);
///     stream.copy_to_device(x.data(), host, bytes);
///     stream.launch(module.function("add_f32"), {.blocks = 10, .threads = 256}, arguments);
///     stream.synchronize();
namespace weft::gpu {

class Device : public std::enable_shared_from_this<Device> {
 public:
  Device(const Driver& driver, int ordinal);
  const Driver& driver() const { return driver_; }
  const DriverCalls& calls() const { return driver_.calls(); }
  const DeviceInfo& info() const { return info_; }
  /// Returns a name such as "nvidia:0".
  std::string name() const { return cat_name(driver_.vendor(), ordinal_); }
  int ordinal() const { return ordinal_; }
  /// Makes this device current for the calling thread. The objects below call it where needed.
  void use() const { driver_.use(ordinal_); }
  void check(int error, std::string_view doing) const { driver_.check(error, doing); }

 private:
  static std::string cat_name(std::string_view vendor, int ordinal);
  const Driver& driver_;
  int ordinal_;
  DeviceInfo info_;
};

/// Returns all devices of both vendors, opened once for the process.
const std::vector<std::shared_ptr<Device>>& devices();

/// Opens "nvidia:0", "amd:1" or "gpu:1" (a number over both vendors); "nvidia", "amd" and "gpu" mean their first
/// device. Throws E501 with the libraries that were looked for.
std::shared_ptr<Device> open_device(const std::string& name);

/// Lets kernels of each device read and write the memory of all others; false if they cannot.
bool connect(std::span<const std::shared_ptr<Device>> devices);

/// True for the name of a GPU: gpu, amd or nvidia, with or without a number.
bool is_device_name(std::string_view name);

/// An owned handle of the driver; `Free` is the member of DriverCalls that releases it.
template <auto Free>
class Owned {
 public:
  Owned() = default;
  Owned(std::shared_ptr<Device> device, Handle handle) : device_(std::move(device)), handle_(handle) {}
  Owned(Owned&& other) noexcept : device_(std::move(other.device_)), handle_(std::exchange(other.handle_, nullptr)) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Owned() {
    if (!handle_) return;
    try {
      device_->use();
    } catch (...) {  // free the reserved memory even if the driver has failed
    }
    (device_->calls().*Free)(handle_);
  }
  Handle get() const { return handle_; }
  explicit operator bool() const { return handle_ != nullptr; }
  Device& device() const { return *device_; }
  const std::shared_ptr<Device>& owner() const { return device_; }

 private:
  std::shared_ptr<Device> device_;
  Handle handle_ = nullptr;
};

/// Memory of the device, aligned to at least 256 bytes. Its address is null if it has no bytes.
class Memory {
 public:
  Memory() = default;
  /// Allocates from the driver, or from the embedder's allocator of memory of this device (E401 if that has none).
  Memory(const std::shared_ptr<Device>& device, int64_t bytes, const HostAllocator& allocator = {});
  std::byte* data() const { return data_.get(); }
  int64_t bytes() const { return bytes_; }

 private:
  std::shared_ptr<std::byte> data_;
  int64_t bytes_ = 0;
};

/// Pinned memory of the host, which the device copies directly.
class PinnedMemory {
 public:
  PinnedMemory() = default;
  PinnedMemory(const std::shared_ptr<Device>& device, int64_t bytes);
  std::byte* data() const { return static_cast<std::byte*>(owned_.get()); }
  int64_t bytes() const { return bytes_; }

 private:
  Owned<&DriverCalls::free_host> owned_;
  int64_t bytes_ = 0;
};

/// Code loaded on the device.
class Module {
 public:
  Module() = default;
  /// Throws E602 with the driver's message if the driver refuses the image.
  Module(const std::shared_ptr<Device>& device, std::span<const std::byte> image, const std::string& name);
  /// Finds a kernel by name. Launches may use up to `shared_bytes` of dynamic shared memory.
  Handle function(const std::string& name, int shared_bytes = 0) const;

 private:
  Owned<&DriverCalls::module_unload> owned_;
};

class Event {
 public:
  Event() = default;
  explicit Event(const std::shared_ptr<Device>& device);
  Handle get() const { return owned_.get(); }
  void synchronize() const;
  /// Returns the milliseconds from `begin` to this event. Both events must have happened.
  float since(const Event& begin) const;

 private:
  Owned<&DriverCalls::event_destroy> owned_;
};

/// A recorded sequence of work, launched as one.
class Graph {
 public:
  Graph() = default;
  explicit Graph(Owned<&DriverCalls::graph_executable_destroy> executable) : owned_(std::move(executable)) {}
  Handle get() const { return owned_.get(); }
  explicit operator bool() const { return static_cast<bool>(owned_); }

 private:
  Owned<&DriverCalls::graph_executable_destroy> owned_;
};

/// A queue of work (CUstream, hipStream_t): owned, or the caller's, which this object does not destroy.
class Stream {
 public:
  explicit Stream(const std::shared_ptr<Device>& device);
  Stream(const std::shared_ptr<Device>& device, Handle users);
  Handle get() const { return users_ ? users_ : owned_.get(); }

  void copy_to_device(void* to, const void* from, int64_t bytes) const;
  void copy_to_host(void* to, const void* from, int64_t bytes) const;
  void copy_on_device(void* to, const void* from, int64_t bytes) const;
  void fill(void* to, unsigned char value, int64_t bytes) const;
  /// Launches a kernel; `arguments` is its only parameter, passed by value.
  void launch(Handle function, const LaunchSize& size, std::span<const std::byte> arguments) const;
  void launch(const Graph& graph) const;
  void record(const Event& event) const;
  void wait(const Event& event) const;
  void synchronize() const;
  /// True if all queued work is done.
  bool is_done() const;

  /// Begins the recording of work: until end_capture, work is recorded and not executed.
  void begin_capture() const;
  Graph end_capture() const;

 private:
  std::shared_ptr<Device> device_;
  Owned<&DriverCalls::stream_destroy> owned_;
  Handle users_ = nullptr;
};

}  // namespace weft::gpu
