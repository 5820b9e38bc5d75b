// SPDX-License-Identifier: Apache-2.0
#include "compile/places.h"

#include <algorithm>
#include <optional>

#include "base/chip_features.h"
#include "base/error.h"
#include "base/knobs.h"
#include "base/log.h"
#include "base/text.h"
#include "compile.h"
#include "compile/stages.h"
#include "targets/cpu/thread_pool.h"
#include "targets/gpu/device.h"

namespace weft {
namespace {

Host host_of(const CompileOptions& options) {
  int64_t threads = options.threads ? options.threads : knobs().threads;
  if (threads < 0 || threads > max_threads) {
    throw Error({.kind = ErrorKind::usage,
                 .code = "E203",
                 .what = cat("the number of threads is ", threads, ", not 0 to ", max_threads)});
  }
  return {threads ? static_cast<int>(threads) : available_threads(), options.allocator, options.executor,
          options.memory_limit};
}

Place gpu_place(const std::shared_ptr<gpu::Device>& device, const CompileOptions& options) {
  return {.chip = device->info().chip, .runner = {.host = host_of(options), .gpu = device}};
}

/// Returns the chip, present or not, with a name such as "amd:gfx942"; nothing for the name of a device ("amd:0").
std::optional<Chip> named_chip(std::string_view name) {
  size_t colon = name.find(':');
  bool is_chip = colon != name.npos && name.find_first_not_of("0123456789", colon + 1) != name.npos;
  if (!is_chip || gpu::is_device_name(name)) return std::nullopt;
  Chip chip = chip_named(std::string(name.substr(colon + 1)));
  return name.substr(0, colon) == vendor_name(chip.kind) ? std::optional(chip) : std::nullopt;
}

/// Returns the place of a chip. Plans for the chip run here only if it is a CPU and this machine has all its features.
Place place_of(const Chip& chip, const CompileOptions& options) {
  if (is_cpu(chip.kind) && runs_code_for(host_chip(), chip))
    return {.chip = chip, .runner = {.host = host_of(options)}};
  return {.chip = chip};
}

Place choose_place(const CompileOptions& options) {
  if (gpu::devices().empty()) return cpu_place(options);
  log(LogLevel::note, "device auto: ", gpu::devices()[0]->name());
  return gpu_place(gpu::devices()[0], options);
}

[[noreturn]] void refuse_name(const char* what, const std::string& name) {
  throw Error({.kind = ErrorKind::unsupported,
               .code = "E501",
               .what = cat("there is no ", what, " '", printable(name), "'"),
               .hint = "the devices are auto, cpu, ref, gpu, nvidia:0, amd:0; a chip that is not here can be compiled "
                       "for: nvidia:sm_90a, amd:gfx942, cpu:x86-64-v4, cpu:aarch64; --target takes amd:all as well"});
}

}  // namespace

int compute_units(const Runner& runner) { return runner.gpu ? runner.gpu->info().compute_units : 0; }

Place cpu_place(const CompileOptions& options) { return {.chip = host_chip(), .runner = {.host = host_of(options)}}; }

std::vector<std::string> device_names(const CompileOptions& options) {
  std::vector<std::string> names;
  for (std::string_view name : split(options.device, ',')) names.emplace_back(trim(name));
  if (options.device.empty() || options.device.ends_with(',')) names.emplace_back();
  return names;
}

static Place find_one(const CompileOptions& options) {
  const std::string& name = options.device;
  if (name == "auto") return choose_place(options);
  if (name == "cpu") return cpu_place(options);
  if (name == "ref") return {.reference = true, .has_passes = false};
  if (name.starts_with("ref:")) return {.reference = true, .chip = find_target(name.substr(4))};
  if (gpu::is_device_name(name)) return gpu_place(gpu::open_device(name), options);
  if (auto chip = named_chip(name)) return place_of(*chip, options);
  refuse_name("device", name);
}

[[noreturn]] static void refuse_together(std::string what, std::string hint) {
  throw Error({.kind = ErrorKind::usage, .code = "E502", .what = std::move(what), .hint = std::move(hint)});
}

/// Throws unless all devices of a split model are present CPUs or GPUs with equal chips, each GPU named only once.
static void check_together(std::span<const Place> places, const std::vector<std::string>& names) {
  for (size_t i = 0; i < places.size(); ++i) {
    const Place& place = places[i];
    bool is_cpu_here = !place.reference && is_cpu(place.chip.kind) && runs_code_for(host_chip(), place.chip);
    if (names[i] == "auto" || (!place.runner.gpu && !is_cpu_here))
      refuse_together(cat("'", printable(names[i]), "' cannot be one of several devices"),
                      "name GPUs that are here, or cpu");
    if (place.chip != places[0].chip)
      refuse_together(cat("'", printable(names[0]), "' is ", places[0].chip.arch, ", and '", printable(names[i]),
                          "' is ", place.chip.arch),
                      "devices that compute a model together are of one kind");
    for (size_t other = 0; place.runner.gpu && other < i; ++other) {
      if (places[other].runner.gpu == place.runner.gpu)
        refuse_together(cat("the GPU ", place.runner.gpu->name(), " is named twice"), "name each GPU once");
    }
  }
}

std::vector<Place> find_places(const CompileOptions& options) {
  std::vector<std::string> names = device_names(options);
  std::vector<Place> places;
  for (const std::string& name : names) {
    CompileOptions one = options;
    one.device = name;
    places.push_back(find_one(one));
  }
  if (places.size() > 1) check_together(places, names);
  return places;
}

Place find_place(const CompileOptions& options) { return find_places(options).front(); }

/// True for errors that might not occur on the CPU, such as too little memory. Errors of usage, cancelling, the model
/// and operators without any kernel occur on every device.
static bool is_of_the_gpu(const ErrorInfo& error) {
  if (error.code == "E402") return false;
  return error.kind == ErrorKind::unsupported || error.kind == ErrorKind::device || error.code == "E400" ||
         error.code == "E401" || error.kind == ErrorKind::internal;
}

std::shared_ptr<Executable> make_at(const Place& place, const CompileOptions& options,
                                    const std::function<std::shared_ptr<Executable>(const Place&)>& make) {
  if (options.device != "auto" || !place.runner.gpu) return make(place);
  try {
    return make(place);
  } catch (const Error& error) {
    if (!is_of_the_gpu(error.info())) throw;
    log(LogLevel::warning, "device auto: the model runs on the cpu, as it cannot on ", place.runner.gpu->name(), ": ",
        error.info().what, error.info().where.empty() ? "" : " at ", error.info().where);
  }
  return make(cpu_place(options));
}

std::vector<std::string> target_names(const std::string& name) {
  size_t vendor = name.size() - std::min<size_t>(name.size(), 4);
  std::vector<std::string> names;
  if (name.ends_with(":all")) names = tested_chips(name.substr(0, vendor));
  return names.empty() ? std::vector{name} : names;
}

Chip find_target(const std::string& name) {
  auto chip = name == "cpu" ? std::optional(host_chip()) : named_chip(name);
  if (!chip) refuse_name("target", name);
  check_can_compile_for(*chip);
  return *chip;
}

void check_can_compile_for(const Chip& chip) {
  if (!is_cpu(chip.kind)) {
    if (std::string_view lacks = gpu_model(chip.arch).lacks; !lacks.empty())
      log(LogLevel::warning, chip.arch, " is slower with Weft than it could be: ", lacks);
    return;
  }
  if (chip.kind != ChipKind::x86 || (has_feature(chip, "fma") && has_feature(chip, "avx2"))) return;
  bool is_here = chip == host_chip();
  throw Error({.kind = ErrorKind::unsupported,
               .code = "E204",
               .what = cat("the cpu target needs AVX2 and FMA (x86-64-v3); ",
                           is_here ? "this machine is " : "--device names ", chip.arch),
               .hint = is_here && knobs().cpu.empty() ? "--device ref runs anywhere, slowly"
                       : is_here                      ? "WEFT_CPU names an older chip"
                                                      : ""});
}

}  // namespace weft
