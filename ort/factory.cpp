// SPDX-License-Identifier: Apache-2.0
#include "ort/factory.h"

#include <map>

#include "ort/api.h"
#include "ort/context_model.h"
#include "ort/provider.h"

namespace weft::ort {
namespace {

constexpr uint32_t amd_vendor = 0x1002;  // what applications look for behind these names

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

/// A provider's options are the session's entries "ep.NAME.KEY", the name in lower case.
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

ProviderSettings read_settings(const std::string& name, const OrtSessionOptions* session) {
  auto entries = entries_of(session);
  ProviderSettings settings{.name = name, .options = read_options(own_entries(entries, name), variable)};
  settings.context = {.is_enabled = entry(entries, "ep.context_enable") == "1",
                      .is_embedded = entry(entries, "ep.context_embed_mode") == "1",
                      .model_path = entry(entries, "ep.context_file_path"),
                      .prefix = entry(entries, "ep.context_node_name_prefix")};
  settings.is_strict = settings.options.strict || entry(entries, "session.disable_cpu_ep_fallback") == "1";
  return settings;
}

/// Python runs such a session on the CPU provider unless it was told not to.
void create(const std::string& name, const OrtSessionOptions* session, const OrtLogger* logger, OrtEp** provider) {
  try {
    *provider = new Provider(read_settings(name, session), logger);
  } catch (const Error& error) {
    Log(logger).error("this session runs on CPU, if it runs: " + std::string(error.what()));
    throw;
  }
}

/// One device, on the machine's processor. Classic provider names find theirs by `cuda_device_id`.
void offer_device(OrtEpFactory* factory, const OrtHardwareDevice* hardware, OrtEpDevice** device) {
  OrtKeyValuePairs *metadata = nullptr, *options = nullptr;
  api.ort->CreateKeyValuePairs(&metadata);
  OwnedKeyValues owned_metadata(metadata);
  api.ort->CreateKeyValuePairs(&options);
  OwnedKeyValues owned_options(options);
  api.ort->AddKeyValuePair(metadata, "cuda_device_id", "0");
  api.ort->AddKeyValuePair(metadata, "target", "cpu");
  ok(api.ep->CreateEpDevice(factory, hardware, metadata, options, device));
}

}  // namespace

Factory::Factory(std::string_view name) : OrtEpFactory{}, name_(name) {
  if (name == "AMDGPUExecutionProvider") memory_.emplace();
  ort_version_supported = api.version;
  GetName = [](const OrtEpFactory* f) noexcept { return static_cast<const Factory*>(f)->name_.c_str(); };
  GetVendor = [](const OrtEpFactory*) noexcept { return "Weft"; };
  GetVendorId = [](const OrtEpFactory*) noexcept { return amd_vendor; };
  GetVersion = [](const OrtEpFactory*) noexcept { return weft_version(); };
  GetSupportedDevices = [](OrtEpFactory* factory, const OrtHardwareDevice* const* hardware, size_t count,
                           OrtEpDevice** devices, size_t room, size_t* found) noexcept {
    return guarded("looking for devices", [&] {
      *found = 0;
      for (size_t i = 0; i < count && *found < room && *found == 0; ++i) {
        if (api.ort->HardwareDevice_Type(hardware[i]) != OrtHardwareDeviceType_CPU) continue;
        offer_device(factory, hardware[i], &devices[*found]);
        const auto& memory = static_cast<Factory*>(factory)->memory_;
        if (memory) memory->add_to(devices[*found]);
        ++*found;
      }
    });
  };
  CreateEp = [](OrtEpFactory* factory, const OrtHardwareDevice* const*, const OrtKeyValuePairs* const*, size_t,
                const OrtSessionOptions* session, const OrtLogger* logger, OrtEp** provider) noexcept {
    return guarded("reading the options",
                   [&] { create(static_cast<Factory*>(factory)->name_, session, logger, provider); });
  };
  ReleaseEp = [](OrtEpFactory*, OrtEp* provider) noexcept { delete static_cast<Provider*>(provider); };
  ValidateCompiledModelCompatibilityInfo = [](OrtEpFactory*, const OrtHardwareDevice* const*, size_t, const char* text,
                                              OrtCompiledModelCompatibility* answer) noexcept -> OrtStatus* {
    bool is_same = text && compatibility_text() == text;
    *answer =
        is_same ? OrtCompiledModelCompatibility_EP_SUPPORTED_OPTIMAL : OrtCompiledModelCompatibility_EP_UNSUPPORTED;
    return nullptr;
  };
  // The cpu target works in the host's memory, and needs allocators and copies only where an application expects them.
  CreateAllocator = [](OrtEpFactory* factory, const OrtMemoryInfo* info, const OrtKeyValuePairs*,
                       OrtAllocator** out) noexcept {
    return guarded("making an allocator", [&] {
      const auto& memory = static_cast<Factory*>(factory)->memory_;
      *out = memory ? memory->make_allocator(info) : nullptr;
    });
  };
  ReleaseAllocator = [](OrtEpFactory*, OrtAllocator* allocator) noexcept { free_allocator(allocator); };
  CreateDataTransfer = [](OrtEpFactory* factory, OrtDataTransferImpl** out) noexcept {
    return guarded("making copies",
                   [&] { *out = static_cast<Factory*>(factory)->memory_ ? make_data_transfer() : nullptr; });
  };
  IsStreamAware = [](const OrtEpFactory*) noexcept { return false; };
}

}  // namespace weft::ort
