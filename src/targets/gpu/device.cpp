// SPDX-License-Identifier: Apache-2.0
#include "targets/gpu/device.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"

namespace weft::gpu {

constexpr unsigned non_blocking = 1;  // a stream that does not synchronise with the default stream
constexpr int capture_this_thread = 1;

static std::string what_was_looked_for() {
  std::string text;
  for (const DriverSearch& search : drivers()) {
    text += cat(text.empty() ? "" : "; ", search.vendor, ": ",
                search.driver ? cat(search.driver->device_count(), " devices") : search.why);
  }
  return text;
}

[[noreturn]] static void refuse_device(const std::string& name) {
  throw Error({.kind = ErrorKind::unsupported,
               .code = "E501",
               .what = cat("there is no device '", printable(name), "' here"),
               .why = what_was_looked_for(),
               .hint = "`weft devices -v` lists what is here; --device cpu runs without a GPU"});
}

static std::shared_ptr<std::byte> embedders_memory(size_t bytes, const HostAllocator& allocator) {
  constexpr size_t alignment = 256;
  if (void* memory = allocator.allocate(allocator.user, bytes, alignment)) {
    auto release = [allocator, bytes](std::byte* data) { allocator.release(allocator.user, data, bytes, alignment); };
    return {static_cast<std::byte*>(memory), release};
  }
  throw Error({.kind = ErrorKind::resource,
               .code = "E401",
               .what = cat("the caller's allocator gives no ", bytes, " bytes of the device")});
}

template <class Handles>
static Handle created(const Handles& device, int (*create)(Handle*, unsigned), unsigned flags, std::string_view what) {
  Handle handle = nullptr;
  device->use();
  device->check(create(&handle, flags), what);
  return handle;
}

Device::Device(const Driver& driver, int ordinal)
    : driver_(driver), ordinal_(ordinal), info_(driver.describe(ordinal)) {}

std::string Device::cat_name(std::string_view vendor, int ordinal) { return cat(vendor, ":", ordinal); }

/// Opens a device. Returns null, so that other devices stay usable, if the chip is not supported or the driver fails.
static std::shared_ptr<Device> find_device(const Driver& driver, int ordinal) {
  try {
    auto device = std::make_shared<Device>(driver, ordinal);
    if (debug_enabled(1, "gpu")) log_text(LogLevel::debug, cat(device->name(), ": ", device->info().name));
    return device;
  } catch (const Error& error) {
    log(LogLevel::warning, driver.vendor(), ":", ordinal, " is not used: ", error.info().what);
    return nullptr;
  }
}

const std::vector<std::shared_ptr<Device>>& devices() {
  static const std::vector<std::shared_ptr<Device>> found = [] {
    std::vector<std::shared_ptr<Device>> list;
    for (const DriverSearch& search : drivers()) {
      for (int i = 0; search.driver && i < search.driver->device_count(); ++i) {
        if (auto device = find_device(*search.driver, i)) list.push_back(std::move(device));
      }
    }
    return list;
  }();
  return found;
}

bool is_device_name(std::string_view name) {
  std::string_view vendor = name.substr(0, name.find(':'));
  if (vendor != "amd" && vendor != "nvidia" && vendor != "gpu") return false;
  std::string_view number = name.substr(vendor.size());
  return number.empty() ||
         (number.size() > 1 && std::ranges::all_of(number.substr(1), [](char c) { return c >= '0' && c <= '9'; }));
}

std::shared_ptr<Device> open_device(const std::string& name) {
  for (size_t i = 0; i < devices().size(); ++i) {
    const auto& device = devices()[i];
    bool first_of = name == "gpu" || name == device->driver().vendor();
    if (first_of || name == device->name() || name == cat("gpu:", i)) return device;
  }
  refuse_device(name);
}

Memory::Memory(const std::shared_ptr<Device>& device, int64_t bytes, const HostAllocator& allocator) : bytes_(bytes) {
  if (bytes == 0) return;
  device->use();
  if (allocator.allocate) {
    data_ = embedders_memory(bytes, allocator);
    return;
  }
  void* memory = nullptr;
  device->check(device->calls().allocate(&memory, bytes), cat("allocate ", bytes, " bytes"));
  auto owner = std::make_shared<Owned<&DriverCalls::free>>(device, memory);
  data_ = {owner, static_cast<std::byte*>(memory)};
}

PinnedMemory::PinnedMemory(const std::shared_ptr<Device>& device, int64_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  void* memory = nullptr;
  device->use();
  device->check(device->driver().allocate_host(&memory, bytes), cat("allocate ", bytes, " bytes of the host's memory"));
  owned_ = {device, memory};
}

bool connect(std::span<const std::shared_ptr<Device>> devices) {
  auto reaches = [](const Device& from, const Device& to) {
    return &from == &to || from.driver().connect(from.ordinal(), to.ordinal());
  };
  return std::ranges::all_of(devices, [&](const auto& from) {
    return std::ranges::all_of(devices, [&](const auto& to) { return reaches(*from, *to); });
  });
}

Module::Module(const std::shared_ptr<Device>& device, std::span<const std::byte> image, const std::string& name) {
  Handle module = nullptr;
  std::string log;
  device->use();
  int error = device->driver().load_module(&module, image, log);
  if (error != 0) {
    throw Error({.kind = ErrorKind::device,
                 .code = "E602",
                 .what = cat("the ", device->driver().vendor(), " driver refuses the code of ", printable(name), ": ",
                             device->driver().error_text(error)),
                 .why = printable(log)});
  }
  owned_ = {device, module};
}

Handle Module::function(const std::string& name, int shared_bytes) const {
  Handle function = nullptr;
  Device& device = owned_.device();
  device.use();
  device.check(device.calls().module_function(&function, owned_.get(), name.c_str()), cat("find the kernel ", name));
  if (shared_bytes > 0) {
    device.check(device.driver().allow_shared(function, shared_bytes),
                 cat("give ", name, " ", shared_bytes, " bytes of shared memory"));
  }
  return function;
}

Event::Event(const std::shared_ptr<Device>& device)
    : owned_(device, created(device, device->calls().event_create, 0, "make an event")) {}

void Event::synchronize() const {
  Device& device = owned_.device();
  device.check(device.calls().event_synchronize(get()), "wait for an event");
}

float Event::since(const Event& begin) const {
  float milliseconds = 0;
  Device& device = owned_.device();
  device.check(device.calls().event_elapsed(&milliseconds, begin.get(), get()), "measure time");
  return milliseconds;
}

Stream::Stream(const std::shared_ptr<Device>& device)
    : device_(device), owned_(device, created(device, device->calls().stream_create, non_blocking, "make a stream")) {}

Stream::Stream(const std::shared_ptr<Device>& device, Handle users) : device_(device), users_(users) {}

void Stream::copy_to_device(void* to, const void* from, int64_t bytes) const {
  if (bytes == 0) return;
  device_->check(device_->calls().copy_to_device(to, from, bytes, get()), "copy to the device");
}

void Stream::copy_to_host(void* to, const void* from, int64_t bytes) const {
  if (bytes == 0) return;
  device_->check(device_->calls().copy_to_host(to, const_cast<void*>(from), bytes, get()), "copy to the host");
}

void Stream::copy_on_device(void* to, const void* from, int64_t bytes) const {
  if (bytes == 0) return;
  device_->check(device_->calls().copy_on_device(to, const_cast<void*>(from), bytes, get()), "copy on the device");
}

void Stream::fill(void* to, unsigned char value, int64_t bytes) const {
  if (bytes == 0) return;
  device_->check(device_->calls().fill(to, value, bytes, get()), "fill memory");
}

void Stream::launch(Handle function, const LaunchSize& size, std::span<const std::byte> arguments) const {
  if (size.blocks <= 0) return;
  constexpr int64_t max_blocks = (int64_t{1} << 31) - 8;  // kernels loop over the remaining work
  void* parameters[] = {const_cast<std::byte*>(arguments.data())};
  LaunchSize possible = size;
  possible.blocks = std::min(size.blocks, max_blocks);
  device_->check(device_->driver().launch(function, possible, get(), parameters), "launch a kernel");
}

void Stream::launch(const Graph& graph) const {
  device_->check(device_->calls().graph_launch(graph.get(), get()), "launch a graph");
}

void Stream::record(const Event& event) const {
  device_->check(device_->calls().event_record(event.get(), get()), "record an event");
}

void Stream::wait(const Event& event) const {
  device_->check(device_->calls().stream_wait_event(get(), event.get(), 0), "wait for an event");
}

void Stream::synchronize() const { device_->check(device_->calls().stream_synchronize(get()), "finish its work"); }

bool Stream::is_done() const {
  int error = device_->calls().stream_query(get());
  if (error != not_ready) device_->check(error, "finish its work");
  return error != not_ready;
}

void Stream::begin_capture() const {
  device_->check(device_->calls().capture_begin(get(), capture_this_thread), "begin a graph");
}

Graph Stream::end_capture() const {
  const DriverCalls& calls = device_->calls();
  Handle graph = nullptr, executable = nullptr;
  device_->check(calls.capture_end(get(), &graph), "end a graph");
  int error = calls.graph_instantiate(&executable, graph, 0);
  calls.graph_destroy(graph);
  device_->check(error, "make a graph ready");
  return Graph({device_, executable});
}

}  // namespace weft::gpu
