// SPDX-License-Identifier: Apache-2.0
#include "base/chip_features.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace weft {
namespace {

#define GPU_FAMILY(name, ...) constexpr GpuFamily name{__VA_ARGS__};
#include "base/chips.def"

constexpr auto gpu_models = std::to_array<GpuModel>({
#define GPU(name, family, units, is_tested, lacks) {family, #name, units, is_tested, lacks},
#include "base/chips.def"
});

constexpr std::string_view sm = "sm_";

/// Returns the compute capability as a number: 86 for "sm_86".
int capability_of(const GpuModel& model) {
  int number = 0;
  for (char c : model.arch.substr(sm.size()))
    if (c >= '0' && c <= '9') number = 10 * number + (c - '0');
  return number;
}

const char* macro_of(MatrixUnit unit) {
  switch (unit) {
    case MatrixUnit::none: break;
    case MatrixUnit::mfma_short: return "WEFT_MFMA=1";
    case MatrixUnit::mfma: return "WEFT_MFMA=2";
    case MatrixUnit::mfma_long: return "WEFT_MFMA=3";
    case MatrixUnit::wmma_twice: return "WEFT_RDNA_WMMA=3";
    case MatrixUnit::wmma: return "WEFT_RDNA_WMMA=4";
    case MatrixUnit::mma: return "WEFT_MMA=1";
  }
  return nullptr;
}

}  // namespace

std::string_view vendor_name(ChipKind kind) { return is_cpu(kind) ? "cpu" : kind == ChipKind::amd ? "amd" : "nvidia"; }

const GpuModel& gpu_model(std::string_view arch) {
  if (auto found = std::ranges::find(gpu_models, arch, &GpuModel::arch); found != gpu_models.end()) return *found;
  std::string known;
  for (const GpuModel& model : gpu_models) {
    if (model.arch.starts_with(arch.substr(0, 1))) known += cat(known.empty() ? "" : ", ", model.arch);
  }
  throw Error({.kind = ErrorKind::usage,
               .code = "E204",
               .what = cat("chip '", printable(arch), "' is not one that Weft compiles for"),
               .hint = cat("it compiles for ", known)});
}

Chip nvidia_chip(int capability) {
  int newest = 0;
  for (const GpuModel& model : gpu_models) {
    if (model.kind == ChipKind::nvidia) newest = std::max(newest, capability_of(model));
  }
  std::string plain = cat(sm, std::min(capability, newest));
  auto own = std::ranges::find(gpu_models, plain + "a", &GpuModel::arch);  // sm_90a code runs only on capability 9.0
  bool has_own = capability <= newest && own != gpu_models.end();
  return {.kind = ChipKind::nvidia, .arch = std::string(has_own ? own->arch : gpu_model(plain).arch)};
}

std::vector<std::string> tested_chips(std::string_view vendor) {
  std::vector<std::string> names;
  auto add_cpu = [&](std::string_view name, bool is_tested) {
    if (is_tested && vendor == vendor_name(ChipKind::x86)) names.push_back(cat(vendor, ":", name));
  };
#define CPU(name, kind, level, is_tested) add_cpu(name, is_tested);
#include "base/chips.def"
  for (const GpuModel& model : gpu_models) {
    if (model.is_tested && vendor == vendor_name(model.kind)) names.push_back(cat(vendor, ":", model.arch));
  }
  return names;
}

std::vector<std::string> kernel_macros(const Chip& chip) {
  if (is_cpu(chip.kind)) return {};
  auto model = std::ranges::find(gpu_models, std::string_view(chip.arch), &GpuModel::arch);
  if (model == gpu_models.end()) return {};
  std::vector<std::string> macros{cat("WEFT_WAVE=", model->wave)};
  if (const char* matrix = macro_of(model->matrix)) macros.emplace_back(matrix);
  if (model->float8 != Float8Unit::none) macros.push_back("WEFT_FLOAT8=1");
  if (model->early_launch) macros.push_back("WEFT_EARLY_LAUNCH=1");
  if (model->warp_groups) macros.push_back("WEFT_WARP_GROUPS=1");
  return macros;
}

bool is_float8(DType type) {
  return type == DType::f8e4m3fn || type == DType::f8e4m3fnuz || type == DType::f8e5m2 || type == DType::f8e5m2fnuz;
}

bool multiplies_float8(const GpuModel& gpu, DType type) {
  if (type == DType::f8e4m3fn || type == DType::f8e5m2) return gpu.float8 == Float8Unit::ocp;
  return (type == DType::f8e4m3fnuz || type == DType::f8e5m2fnuz) && gpu.float8 == Float8Unit::fnuz;
}

bool multiplies(DType type, const Chip& chip) {
  return type == DType::f32 || (type == DType::bf16 && has_feature(chip, "avx512bf16"));
}

bool multiplies_bytes(const Chip& chip) { return has_feature(chip, "avx512vnni") || has_feature(chip, "avxvnni"); }

bool multiplies_tiles(const Chip& chip) { return has_feature(chip, "amx-int8"); }

Chip plain_chip(const Chip& chip) {
  if (chip.kind != ChipKind::x86) return chip;
  constexpr std::array seen{"+amx-bf16",   "+amx-int8",   "+amx-tile", "+avx512bf16",
                            "+avx512vbmi", "+avx512vnni", "+avxvnni"};
  Chip plain{.arch = chip.arch};
  for (std::string_view feature : split(chip.features, ',')) {
    if (std::ranges::find(seen, feature) != seen.end())
      plain.features += cat(plain.features.empty() ? "" : ",", feature);
  }
  return plain;
}

std::string chip_name(const Chip& chip) {
  if (!is_cpu(chip.kind)) return chip.arch;
  std::string name = chip.arch;
  for (char c : chip.features) {
    if (c != ',') name += c;
  }
  return name;
}

}  // namespace weft
