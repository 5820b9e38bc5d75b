// SPDX-License-Identifier: Apache-2.0
#include "ort/factory.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <span>

#include "ort/api.h"
#include "ort/context_model.h"
#include "ort/gpu_session.h"
#include "ort/provider.h"

namespace weft::ort {
namespace {

std::map<std::string, std::string> entries_of(const OrtSessionOptions* options) {
  OrtKeyValuePairs* pairs = nullptr;
  ok(api.ort->GetSessionOptionsConfigEntries(options, &pairs));
  OwnedKeyValues owned(pairs);
  const char *const *keys = nullptr, *const *values = nullptr;
  size_t count = 0;
  api.ort->GetKeyValuePairs(pairs, &keys, &values, &count);
  std::map<std::string, std::string> entries;
  for (size_t i = 0; i < count; ++i) entries[keys[i]] = values[i];
  return entries;
}

std::string entry(const std::map<std::string, std::string>& entries, const char* key) {
  auto found = entries.find(key);
  return found == entries.end() ? std::string() : found->second;
}

/// Returns a provider's options: the session's entries "ep.NAME.KEY", with the name in lower case.
std::map<std::string, std::string> own_entries(const std::map<std::string, std::string>& all, const std::string& name) {
  std::string prefix = "ep." + name + ".";
  for (char& c : prefix) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  std::map<std::string, std::string> own;
  for (const auto& [key, value] : all) {
    if (key.starts_with(prefix)) own[key.substr(prefix.size())] = value;
  }
  return own;
}

std::string variable(const std::string& name) {
  char* text = weft_environment(name.c_str());
  std::string value = text ? text : "";
  weft_text_free(text);
  return value;
}

ProviderSettings read_settings(const std::string& name, const Device& device, const OrtSessionOptions* session) {
  auto entries = entries_of(session);
  ProviderSettings settings{
      .name = name, .device = device, .options = read_options(own_entries(entries, name), device, variable)};
  settings.context = {.is_enabled = entry(entries, "ep.context_enable") == "1",
                      .is_embedded = entry(entries, "ep.context_embed_mode") == "1",
                      .model_path = entry(entries, "ep.context_file_path"),
                      .prefix = entry(entries, "ep.context_node_name_prefix")};
  settings.is_strict = settings.options.strict || entry(entries, "session.disable_cpu_ep_fallback") == "1";
  return settings;
}

/// Returns the device for a session. `offered` has the devices of the provider's name that onnxruntime selected: all if
/// the application named none. The first is used unless the option device_id (`id`) names another.
const Device& chosen_device(std::span<const OrtKeyValuePairs* const> offered, const std::string& id) {
  const char* first = nullptr;
  for (const OrtKeyValuePairs* metadata : offered) {
    const char* name = api.ort->GetKeyValue(metadata, "device");
    const char* number = api.ort->GetKeyValue(metadata, "cuda_device_id");
    if (name && number && id == number) return device_named(name);
    if (!first) first = name;
  }
  return device_named(first ? first : "");
}

std::string asked_id(const OrtSessionOptions* session, const std::string& name) {
  auto own = own_entries(entries_of(session), name);
  for (const char* key : {"device_id", "migraphx_device_id"}) {
    if (own.contains(key)) return own[key];
  }
  return {};
}

}  // namespace

/// Makes a provider for a session. If this throws, onnxruntime's Python runs the session on the CPU unless fallback is
/// disabled.
OrtEp* Factory::create(std::span<const OrtKeyValuePairs* const> offered, const OrtSessionOptions* session,
                       const OrtLogger* logger) const {
  try {
    static std::once_flag said;
    std::call_once(said, [&] {
      if (std::string idle = idle_variables(); !idle.empty()) Log(logger).warning(idle);
    });
    const Device& device = chosen_device(offered, asked_id(session, name_));
    return new Provider(read_settings(name_, device, session), memory_of(device), logger);
  } catch (const Error& error) {
    Log(logger).error("this session runs on CPU, if it runs: " + std::string(error.what()));
    throw;
  }
}

const DeviceMemory* Factory::memory_of(const Device& device) const {
  auto number = static_cast<size_t>(device.number);
  return number < memory_.size() ? &memory_[number] : nullptr;
}

/// Returns the device's entry in onnxruntime's list. A GPU is found by its vendor and its index among the vendor's
/// GPUs, a CPU by its type. If the list lacks the device, makes an entry for a GPU and returns null for a CPU.
const OrtHardwareDevice* Factory::hardware_of(const Device& device,
                                              std::span<const OrtHardwareDevice* const> hardware) {
  auto wanted = device.is_gpu() ? OrtHardwareDeviceType_GPU : OrtHardwareDeviceType_CPU;
  auto before = std::ranges::count_if(devices(), [&](const Device& other) {
    return other.vendor() == device.vendor() && other.number < device.number;
  });
  for (const OrtHardwareDevice* candidate : hardware) {
    bool is_kind = api.ort->HardwareDevice_Type(candidate) == wanted &&
                   (!device.is_gpu() || api.ort->HardwareDevice_VendorId(candidate) == device.vendor());
    if (is_kind && before-- == 0) return candidate;
  }
  if (!device.is_gpu()) return nullptr;
  OrtHardwareDevice* made = nullptr;
  ok(api.ep->CreateHardwareDevice(wanted, device.vendor(), 0, device.vendor() == amd_vendor ? "AMD" : "NVIDIA", nullptr,
                                  &made));
  made_.push_back(made);
  return made;
}

/// Offers a device to onnxruntime. The option device_id selects a device by the metadata `cuda_device_id`.
OrtEpDevice* Factory::offer(const Device& device, const OrtHardwareDevice* hardware) {
  OrtKeyValuePairs *metadata = nullptr, *options = nullptr;
  api.ort->CreateKeyValuePairs(&metadata);
  OwnedKeyValues owned_metadata(metadata);
  api.ort->CreateKeyValuePairs(&options);
  OwnedKeyValues owned_options(options);
  api.ort->AddKeyValuePair(metadata, "cuda_device_id", std::to_string(device.number).c_str());
  api.ort->AddKeyValuePair(metadata, "device", device.name.c_str());
  api.ort->AddKeyValuePair(metadata, "target", device.chip.c_str());
  OrtEpDevice* offered = nullptr;
  ok(api.ep->CreateEpDevice(this, hardware, metadata, options, &offered));
  if (const DeviceMemory* memory = memory_of(device)) memory->add_to(offered);
  return offered;
}

Factory::~Factory() {
  for (OrtHardwareDevice* hardware : made_) api.ep->ReleaseHardwareDevice(hardware);
}

/// Offers device memory. For the CPU, memory is offered only under the provider name for which applications expect it.
void Factory::set_up_memory() {
  if (devices()[0].is_gpu() || name_ == "AMDGPUExecutionProvider") {
    // For this provider name, onnxruntime-genai accepts only memory of the vendor AMD, even on an NVIDIA GPU.
    for (const Device& device : devices())
      memory_.emplace_back(device, name_ == "AMDGPUExecutionProvider" ? amd_vendor : device.vendor());
  }
  CreateAllocator = [](OrtEpFactory* factory, const OrtMemoryInfo* info, const OrtKeyValuePairs*,
                       OrtAllocator** out) noexcept {
    return guarded("making an allocator", [&] {
      const auto& all = self(factory).memory_;
      auto found = std::ranges::find_if(all, [&](const DeviceMemory& memory) { return memory.holds(info); });
      *out = found == all.end() ? nullptr : found->make_allocator(info);
    });
  };
  ReleaseAllocator = [](OrtEpFactory*, OrtAllocator* allocator) noexcept { free_allocator(allocator); };
  CreateDataTransfer = [](OrtEpFactory* factory, OrtDataTransferImpl** out) noexcept {
    return guarded("making copies", [&] { *out = self(factory).memory_.empty() ? nullptr : make_data_transfer(); });
  };
  IsStreamAware = [](const OrtEpFactory*) noexcept { return devices()[0].is_gpu(); };
  CreateSyncStreamForDevice = [](OrtEpFactory*, const OrtMemoryDevice*, const OrtKeyValuePairs*,
                                 OrtSyncStreamImpl** out) noexcept {
    return guarded("making a stream", [&] { *out = make_stream(devices()[0], nullptr); });
  };
}

Factory::Factory(std::string_view name) : OrtEpFactory{}, name_(name) {
  set_up_memory();
  ort_version_supported = api.version;
  GetName = [](const OrtEpFactory* f) noexcept { return static_cast<const Factory*>(f)->name_.c_str(); };
  GetVendor = [](const OrtEpFactory*) noexcept { return "Weft"; };
  GetVendorId = [](const OrtEpFactory*) noexcept { return devices()[0].vendor(); };
  GetVersion = [](const OrtEpFactory*) noexcept { return weft_version(); };
  GetSupportedDevices = [](OrtEpFactory* factory, const OrtHardwareDevice* const* hardware, size_t count,
                           OrtEpDevice** offers, size_t room, size_t* found) noexcept {
    return guarded("looking for devices", [&] {
      *found = 0;
      for (const Device& device : weft::ort::devices()) {
        const OrtHardwareDevice* own = self(factory).hardware_of(device, {hardware, count});
        if (own && *found < room) offers[(*found)++] = self(factory).offer(device, own);
      }
    });
  };
  CreateEp = [](OrtEpFactory* factory, const OrtHardwareDevice* const*, const OrtKeyValuePairs* const* metadata,
                size_t count, const OrtSessionOptions* session, const OrtLogger* logger, OrtEp** provider) noexcept {
    return guarded("reading the options",
                   [&] { *provider = self(factory).create({metadata, count}, session, logger); });
  };
  ReleaseEp = [](OrtEpFactory*, OrtEp* provider) noexcept { delete static_cast<Provider*>(provider); };
  ValidateCompiledModelCompatibilityInfo = [](OrtEpFactory*, const OrtHardwareDevice* const*, size_t, const char* text,
                                              OrtCompiledModelCompatibility* answer) noexcept -> OrtStatus* {
    bool is_same = text && compatibility_text() == text;
    *answer =
        is_same ? OrtCompiledModelCompatibility_EP_SUPPORTED_OPTIMAL : OrtCompiledModelCompatibility_EP_UNSUPPORTED;
    return nullptr;
  };
}

}  // namespace weft::ort
