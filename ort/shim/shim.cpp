// SPDX-License-Identifier: Apache-2.0
// A library for C and C++ programs that were written for an onnxruntime with AMD's providers. Link it before a stock
// libonnxruntime, or preload it for an existing program. It supplies the functions that the stock library lacks,
// and forwards each call to the plug-in in the same folder:
//
//   OrtSessionOptionsAppendExecutionProvider_MIGraphX(options, device_id), _ROCM and _ROCm
//   OrtApi: SessionOptionsAppendExecutionProvider_MIGraphX and _ROCM with their option structs,
//           CreateROCMProviderOptions, UpdateROCMProviderOptions, ReleaseROCMProviderOptions,
//           GetROCMProviderOptionsAsString, CreateArenaCfg, CreateArenaCfgV2, ReleaseArenaCfg,
//           SessionOptionsAppendExecutionProvider with any name of Weft's provider
//
// OrtGetApiBase returns a copy of onnxruntime's function table in which these entries of OrtApi are replaced.
#include <dlfcn.h>
#include <onnxruntime_c_api.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace {

using Options = std::map<std::string, std::string>;

constexpr uint32_t oldest_version = 24;
constexpr const char* migraphx = "MIGraphXExecutionProvider";
constexpr const char* rocm = "ROCMExecutionProvider";

/// The real onnxruntime library that this shim forwards to, and its API table.
struct Real {
  const OrtApiBase* base = nullptr;
  const OrtApi* api = nullptr;  // null if the library is older than `oldest_version`
};

const Real& real() {
  static const Real found = [] {
    Real answer;
    auto get = reinterpret_cast<const OrtApiBase* (*)()>(dlsym(RTLD_NEXT, "OrtGetApiBase"));
    if (get) answer.base = get();
    if (!answer.base) return answer;
    unsigned runtime = 0;  // "1.27.0" has version 27 of the interface
    std::sscanf(answer.base->GetVersionString(), "%*u.%u", &runtime);
    uint32_t version = std::min<uint32_t>(ORT_API_VERSION, runtime);
    if (version >= oldest_version) answer.api = answer.base->GetApi(version);
    return answer;
  }();
  return found;
}

OrtStatus* refuse(OrtErrorCode code, const std::string& what) { return real().api->CreateStatus(code, what.c_str()); }

class Failure : public std::exception {
 public:
  explicit Failure(OrtStatus* status) : status_(status) {}
  OrtStatus* status() const { return status_; }

 private:
  OrtStatus* status_;
};

void ok(OrtStatus* status) {
  if (status) throw Failure(status);
}

template <class Body>
OrtStatus* guarded(const Body& body) noexcept {
  try {
    body();
    return nullptr;
  } catch (const Failure& failure) {
    return failure.status();
  } catch (const std::exception& error) {
    return refuse(ORT_FAIL, error.what());
  }
}

// ---- The plug-in ----

/// Returns the path of the plug-in, which is in the same folder as this library.
std::string plugin_path() {
  Dl_info info{};
  dladdr(reinterpret_cast<const void*>(&plugin_path), &info);
  std::string path = info.dli_fname ? info.dli_fname : "";
  return path.substr(0, path.rfind('/') + 1) + "libweft-onnxruntime.so";
}

const OrtEpDevice* find_device(OrtEnv* env, const char* provider, const std::string& id) {
  const OrtEpDevice* const* devices = nullptr;
  size_t count = 0;
  ok(real().api->GetEpDevices(env, &devices, &count));
  for (size_t i = 0; i < count; ++i) {
    if (std::strcmp(real().api->EpDevice_EpName(devices[i]), provider) != 0) continue;
    const char* own = real().api->GetKeyValue(real().api->EpDevice_EpMetadata(devices[i]), "cuda_device_id");
    if (own && own == id) return devices[i];
  }
  return nullptr;
}

/// A reference to onnxruntime's environment. A process has only one: CreateEnv returns the existing environment.
class Environment {
 public:
  Environment() { ok(real().api->CreateEnv(ORT_LOGGING_LEVEL_WARNING, "weft", &env_)); }
  Environment(const Environment&) = delete;
  ~Environment() { real().api->ReleaseEnv(env_); }
  OrtEnv* get() const { return env_; }

 private:
  OrtEnv* env_ = nullptr;
};

const OrtEpDevice& device(OrtEnv* env, const char* provider, const std::string& id) {
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  const OrtEpDevice* found = find_device(env, provider, id);
  if (!found && !find_device(env, provider, "0"))
    ok(real().api->RegisterExecutionProviderLibrary(env, "weft", plugin_path().c_str()));
  if (!found) found = find_device(env, provider, id);
  if (!found) ok(refuse(ORT_INVALID_ARGUMENT, std::string(provider) + " has no device " + id));
  return *found;
}

OrtStatus* append(OrtSessionOptions* session, const char* provider, const Options& options) noexcept {
  return guarded([&] {
    auto id = options.find("device_id");
    Environment env;
    const OrtEpDevice* chosen = &device(env.get(), provider, id == options.end() ? "0" : id->second);
    std::vector<const char*> keys, values;
    for (const auto& [key, value] : options) {
      keys.push_back(key.c_str());
      values.push_back(value.c_str());
    }
    ok(real().api->SessionOptionsAppendExecutionProvider_V2(session, env.get(), &chosen, 1, keys.data(), values.data(),
                                                            keys.size()));
  });
}

// ---- Settings of arenas, recorded when an arena is made, because OrtArenaCfg is opaque ----

struct ArenaSettings {
  size_t max_mem = 0;  // 0: the default
  int strategy = -1;   // -1: the default
};

/// The settings of live arena objects.
struct Arenas {
  std::mutex mutex;
  std::map<const OrtArenaCfg*, ArenaSettings> all;
};

Arenas& arenas() {
  static auto& known = *new Arenas;
  return known;
}

void remember(const OrtArenaCfg* arena, const ArenaSettings& settings) {
  std::lock_guard lock(arenas().mutex);
  arenas().all[arena] = settings;
}

ArenaSettings settings_of(const OrtArenaCfg* arena) {
  std::lock_guard lock(arenas().mutex);
  auto found = arenas().all.find(arena);
  if (found == arenas().all.end())
    ok(refuse(ORT_INVALID_ARGUMENT, "default_memory_arena_cfg was not made by CreateArenaCfg or CreateArenaCfgV2"));
  return found->second;
}

OrtStatus* ORT_API_CALL create_arena(size_t max_mem, int strategy, int first_chunk, int max_dead,
                                     OrtArenaCfg** out) noexcept {
  return guarded([&] {
    ok(real().api->CreateArenaCfg(max_mem, strategy, first_chunk, max_dead, out));
    remember(*out, {max_mem, strategy});
  });
}

OrtStatus* ORT_API_CALL create_arena_of_keys(const char* const* keys, const size_t* values, size_t count,
                                             OrtArenaCfg** out) noexcept {
  return guarded([&] {
    ok(real().api->CreateArenaCfgV2(keys, values, count, out));
    ArenaSettings settings;
    for (size_t i = 0; i < count; ++i) {
      if (std::string_view(keys[i]) == "max_mem") settings.max_mem = values[i];
      if (std::string_view(keys[i]) == "arena_extend_strategy") settings.strategy = static_cast<int>(values[i]);
    }
    remember(*out, settings);
  });
}

void ORT_API_CALL release_arena(OrtArenaCfg* arena) noexcept {
  {
    std::lock_guard lock(arenas().mutex);
    arenas().all.erase(arena);
  }
  real().api->ReleaseArenaCfg(arena);
}

// ---- Options as structs ----

std::string text(uintptr_t address) { return std::to_string(address); }

template <class T>
const T& given(const T* options) {
  if (!options) ok(refuse(ORT_INVALID_ARGUMENT, "the provider's options are null"));
  return *options;
}

/// Returns device_id, and the other options of the struct that differ from their defaults. Defaults are left out,
/// because the provider prints notes about options that have no effect.
Options of_struct(const OrtMIGraphXProviderOptions& o) {
  Options options{{"device_id", std::to_string(o.device_id)}};
  if (o.migraphx_fp16_enable) options["migraphx_fp16_enable"] = "1";
  if (o.migraphx_fp8_enable) options["migraphx_fp8_enable"] = "1";
  if (o.migraphx_int8_enable) options["migraphx_int8_enable"] = "1";
  if (o.migraphx_use_native_calibration_table) options["migraphx_int8_use_native_calibration_table"] = "1";
  if (o.migraphx_int8_calibration_table_name)
    options["migraphx_int8_calibration_table_name"] = o.migraphx_int8_calibration_table_name;
  if (o.migraphx_save_compiled_model) options["migraphx_save_compiled_model"] = "1";
  if (o.migraphx_save_model_path) options["migraphx_save_compiled_path"] = o.migraphx_save_model_path;
  if (o.migraphx_load_compiled_model) options["migraphx_load_compiled_model"] = "1";
  if (o.migraphx_load_model_path) options["migraphx_load_compiled_path"] = o.migraphx_load_model_path;
  if (o.migraphx_exhaustive_tune) options["migraphx_exhaustive_tune"] = "1";
  if (o.migraphx_mem_limit != 0 && o.migraphx_mem_limit != SIZE_MAX)
    options["migraphx_mem_limit"] = std::to_string(o.migraphx_mem_limit);
  if (o.migraphx_arena_extend_strategy)
    options["arena_extend_strategy"] = std::to_string(o.migraphx_arena_extend_strategy);
  return options;
}

Options of_struct(const OrtROCMProviderOptions& o) {
  Options options{{"device_id", std::to_string(o.device_id)}};
  if (o.miopen_conv_exhaustive_search) options["miopen_conv_exhaustive_search"] = "1";
  if (o.gpu_mem_limit != 0 && o.gpu_mem_limit != SIZE_MAX) options["gpu_mem_limit"] = std::to_string(o.gpu_mem_limit);
  if (o.arena_extend_strategy) options["arena_extend_strategy"] = std::to_string(o.arena_extend_strategy);
  if (o.default_memory_arena_cfg) {
    ArenaSettings arena = settings_of(o.default_memory_arena_cfg);
    if (arena.max_mem != 0 && arena.max_mem != SIZE_MAX)
      options["default_memory_arena_cfg"] = "max_mem:" + std::to_string(arena.max_mem);
    if (arena.strategy >= 0) options["arena_extend_strategy"] = std::to_string(arena.strategy);
  }
  if (!o.do_copy_in_default_stream) options["do_copy_in_default_stream"] = "0";
  if (o.has_user_compute_stream) {
    options["has_user_compute_stream"] = "1";
    options["user_compute_stream"] = text(reinterpret_cast<uintptr_t>(o.user_compute_stream));
  }
  if (o.enable_hip_graph) options["enable_hip_graph"] = "1";
  if (o.tunable_op_enable) options["tunable_op_enable"] = "1";
  if (o.tunable_op_tuning_enable) options["tunable_op_tuning_enable"] = "1";
  if (o.tunable_op_max_tuning_duration_ms)
    options["tunable_op_max_tuning_duration_ms"] = std::to_string(o.tunable_op_max_tuning_duration_ms);
  return options;
}

template <class Number>
Number number(const std::string& key, std::string_view value) {
  if (value == "kNextPowerOfTwo" || value == "false" || value == "False") return 0;
  if (value == "kSameAsRequested" || value == "true" || value == "True") return 1;
  Number found = 0;
  auto [end, code] = std::from_chars(value.data(), value.data() + value.size(), found);
  bool is_number = code == std::errc() && end == value.data() + value.size() && value[0] != '-';
  if (!is_number)
    ok(refuse(ORT_INVALID_ARGUMENT, "option " + key + " is '" + std::string(value) + "', which is not a number"));
  return found;
}

void update(OrtROCMProviderOptions& options, const std::string& key, const std::string& value) {
  struct Field {
    const char* name;
    int OrtROCMProviderOptions::* member;
  };
  static constexpr Field fields[] = {
      {"device_id", &OrtROCMProviderOptions::device_id},
      {"miopen_conv_exhaustive_search", &OrtROCMProviderOptions::miopen_conv_exhaustive_search},
      {"arena_extend_strategy", &OrtROCMProviderOptions::arena_extend_strategy},
      {"do_copy_in_default_stream", &OrtROCMProviderOptions::do_copy_in_default_stream},
      {"enable_hip_graph", &OrtROCMProviderOptions::enable_hip_graph},
      {"tunable_op_enable", &OrtROCMProviderOptions::tunable_op_enable},
      {"tunable_op_tuning_enable", &OrtROCMProviderOptions::tunable_op_tuning_enable},
      {"tunable_op_max_tuning_duration_ms", &OrtROCMProviderOptions::tunable_op_max_tuning_duration_ms}};
  if (key == "gpu_mem_limit") {
    options.gpu_mem_limit = number<size_t>(key, value);
    return;
  }
  auto field = std::ranges::find(fields, std::string_view(key), &Field::name);
  if (field == std::end(fields))
    ok(refuse(ORT_INVALID_ARGUMENT, "option " + key + " cannot be set through UpdateROCMProviderOptions"));
  options.*(field->member) = number<int>(key, value);
}

// ---- Entries of the table ----

OrtStatus* ORT_API_CALL append_migraphx(OrtSessionOptions* session, const OrtMIGraphXProviderOptions* o) noexcept {
  return guarded([&] { ok(append(session, migraphx, of_struct(given(o)))); });
}
OrtStatus* ORT_API_CALL append_rocm(OrtSessionOptions* session, const OrtROCMProviderOptions* o) noexcept {
  return guarded([&] { ok(append(session, rocm, of_struct(given(o)))); });
}

/// Returns Weft's name for a provider's long or short name ("MIGraphXExecutionProvider", "MIGraphX").
const char* own_name(std::string_view name) {
  struct Name {
    std::string_view shown;
    const char* provider;
  };
  static constexpr std::array<Name, 8> names = {{{"MIGraphX", migraphx},
                                                 {migraphx, migraphx},
                                                 {"ROCM", rocm},
                                                 {rocm, rocm},
                                                 {"AMDGPU", "AMDGPUExecutionProvider"},
                                                 {"AMDGPUExecutionProvider", "AMDGPUExecutionProvider"},
                                                 {"Weft", "WeftExecutionProvider"},
                                                 {"WeftExecutionProvider", "WeftExecutionProvider"}}};
  auto found = std::ranges::find(names, name, &Name::shown);
  return found == names.end() ? nullptr : found->provider;
}

OrtStatus* ORT_API_CALL append_by_name(OrtSessionOptions* session, const char* name, const char* const* keys,
                                       const char* const* values, size_t count) noexcept {
  const char* provider = own_name(name);
  if (!provider) return real().api->SessionOptionsAppendExecutionProvider(session, name, keys, values, count);
  Options options;
  for (size_t i = 0; i < count; ++i) options[keys[i]] = values[i];
  return append(session, provider, options);
}

OrtStatus* ORT_API_CALL create_rocm_options(OrtROCMProviderOptions** out) noexcept {
  return guarded([&] { *out = new OrtROCMProviderOptions(); });
}
OrtStatus* ORT_API_CALL update_rocm_options(OrtROCMProviderOptions* options, const char* const* keys,
                                            const char* const* values, size_t count) noexcept {
  return guarded([&] {
    for (size_t i = 0; i < count; ++i) update(*options, keys[i], values[i]);
  });
}
OrtStatus* ORT_API_CALL rocm_options_text(const OrtROCMProviderOptions* options, OrtAllocator* allocator,
                                          char** out) noexcept {
  return guarded([&] {
    std::string list;
    for (const auto& [key, value] : of_struct(*options)) list += (list.empty() ? "" : ";") + key + "=" + value;
    *out = static_cast<char*>(allocator->Alloc(allocator, list.size() + 1));
    std::memcpy(*out, list.c_str(), list.size() + 1);
  });
}
void ORT_API_CALL release_rocm_options(OrtROCMProviderOptions* options) noexcept { delete options; }

const OrtApi* ORT_API_CALL get_table(uint32_t version) noexcept {
  static OrtApi table;
  static std::once_flag once;
  const OrtApi* theirs = real().base->GetApi(version);
  // A program with newer headers may use entries that our copy of the table lacks, so it gets the original table.
  if (!theirs || version > ORT_API_VERSION || theirs != real().api) return theirs;
  std::call_once(once, [&] {
    table = *theirs;
    table.SessionOptionsAppendExecutionProvider_MIGraphX = append_migraphx;
    table.SessionOptionsAppendExecutionProvider_ROCM = append_rocm;
    table.SessionOptionsAppendExecutionProvider = append_by_name;
    table.CreateArenaCfg = create_arena;
    table.CreateArenaCfgV2 = create_arena_of_keys;
    table.ReleaseArenaCfg = release_arena;
    table.CreateROCMProviderOptions = create_rocm_options;
    table.UpdateROCMProviderOptions = update_rocm_options;
    table.GetROCMProviderOptionsAsString = rocm_options_text;
    table.ReleaseROCMProviderOptions = release_rocm_options;
  });
  return &table;
}

OrtStatus* append_device(OrtSessionOptions* session, const char* provider, int id) {
  return append(session, provider, {{"device_id", std::to_string(id)}});
}

}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED const OrtApiBase* ORT_API_CALL OrtGetApiBase() noexcept {
  if (!real().base || !real().api) return real().base;
  static const OrtApiBase own = {.GetApi = get_table, .GetVersionString = real().base->GetVersionString};
  return &own;
}

EXPORTED OrtStatus* ORT_API_CALL OrtSessionOptionsAppendExecutionProvider_MIGraphX(OrtSessionOptions* session,
                                                                                   int device_id) noexcept {
  return append_device(session, migraphx, device_id);
}
EXPORTED OrtStatus* ORT_API_CALL OrtSessionOptionsAppendExecutionProvider_ROCM(OrtSessionOptions* session,
                                                                               int device_id) noexcept {
  return append_device(session, rocm, device_id);
}
EXPORTED OrtStatus* ORT_API_CALL OrtSessionOptionsAppendExecutionProvider_ROCm(OrtSessionOptions* session,
                                                                               int device_id) noexcept {
  return append_device(session, rocm, device_id);
}
