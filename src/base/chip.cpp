// SPDX-License-Identifier: Apache-2.0
#include "base/chip.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <vector>

#include "base/chip_features.h"
#include "base/error.h"
#include "base/knobs.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace weft {
namespace {

enum Register : uint8_t { eax, ebx, ecx, edx };
enum State : uint8_t { any, ymm, zmm, tile };  // registers that the operating system must save; any: only basic ones

constexpr int extra = 5;  // the "level" of features that no x86-64 level implies

/// A row of FEATURE in cpu_features.def: a feature's name, its CPUID bit, the registers that the operating system must
/// save for it, and the lowest x86-64 level that implies it.
struct Feature {
  const char* name;
  uint32_t leaf, subleaf;
  Register where;
  int bit;
  State state;
  int level;
};

constexpr auto features = std::to_array<Feature>({
#define FEATURE(...) {__VA_ARGS__},
#define MODEL(...)
#include "base/cpu_features.def"
});

struct Processor {
  std::string_view name;
  ChipKind kind;
  int level;  // x86-64 level; 0 for other processors
};
constexpr auto processors = std::to_array<Processor>({
#define CPU(name, kind, level, is_tested) {name, ChipKind::kind, level},
#include "base/chips.def"
});

const Processor* processor_named(std::string_view name) {
  auto found = std::ranges::find(processors, name, &Processor::name);
  return found == processors.end() ? nullptr : &*found;
}

int level_of(std::string_view arch) {
  const Processor* found = processor_named(arch);
  return found ? found->level : 0;
}

[[noreturn]] void refuse(const std::string& name, const std::string& why) {
  throw Error({.kind = ErrorKind::usage,
               .code = "E204",
               .what = cat("chip '", printable(name), "' ", why),
               .hint = "known forms: host, x86-64-v3, x86-64-v4+avx512vnni, aarch64+dotprod, gfx942, sm_90a"});
}

/// Features of AArch64 processors that kernels test, in LLVM's spelling.
constexpr std::string_view arm_features[] = {"bf16", "dotprod", "fullfp16", "i8mm"};

bool is_feature(ChipKind kind, std::string_view name) {
  if (kind == ChipKind::arm) return std::ranges::find(arm_features, name) != std::end(arm_features);
  return std::ranges::find(features, name, &Feature::name) != features.end();
}

/// Returns the features of a Chip: sorted, so that equal chips have equal texts.
std::string features_text(const std::set<std::string_view>& names) {
  std::string text;
  for (std::string_view name : names) text += cat(text.empty() ? "+" : ",+", name);
  return text;
}

/// Returns the chip for a processor and further features: "x86-64-v4+avx512vnni", "aarch64+dotprod".
Chip chip_with_features(const std::string& name, size_t plus) {
  const Processor* processor = processor_named(name.substr(0, plus));
  if (!processor) refuse(name, "is of no known family");
  std::set<std::string_view> names;
  for (std::string_view feature : split(std::string_view(name).substr(plus + 1), '+')) {
    if (!is_feature(processor->kind, feature))
      refuse(name, cat("has a feature '", printable(feature), "' that is unknown"));
    names.insert(feature);
  }
  return {.kind = processor->kind, .arch = name.substr(0, plus), .features = features_text(names)};
}

#if defined(__x86_64__)

struct Leaf {
  std::array<uint32_t, 4> value{};
};

Leaf cpuid(uint32_t leaf, uint32_t subleaf) {
  Leaf out;
  auto& v = out.value;
  if (!__get_cpuid_count(leaf, subleaf, &v[eax], &v[ebx], &v[ecx], &v[edx])) return {};
  return out;
}

bool bit(uint32_t word, int position) { return word >> position & 1; }

/// Returns the bit mask of the register files that the operating system saves (XCR0); zero without OSXSAVE.
uint64_t saved_state() {
  if (!bit(cpuid(1, 0).value[ecx], 27)) return 0;
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t{high} << 32 | low;
}

/// True if this process may use AMX. Linux grants tile registers on request (arch_prctl ARCH_REQ_XCOMP_PERM, state 18).
bool may_use_tiles() { return ::syscall(SYS_arch_prctl, 0x1023, 18) == 0; }

bool saves(State state) {
  static const uint64_t saved = saved_state();
  switch (state) {
    case any: return true;
    case ymm: return (saved & 0x6) == 0x6;
    case zmm: return (saved & 0xe6) == 0xe6;
    case tile: {
      static const bool allowed = (saved & 0x60000) == 0x60000 && may_use_tiles();
      return allowed;
    }
  }
  return false;
}

bool on_host(const Feature& f) {
  if (f.leaf == 7 && f.subleaf > cpuid(7, 0).value[eax]) return false;
  return bit(cpuid(f.leaf, f.subleaf).value[f.where], f.bit) && saves(f.state);
}

int host_level() {
  int level = 1;
  auto complete = [](int wanted) {
    return std::ranges::all_of(features, [&](const Feature& f) { return f.level != wanted || on_host(f); });
  };
  while (level < 4 && complete(level + 1)) ++level;
  return level;
}

struct Model {
  uint32_t vendor;  // first four letters of the vendor's name in CPUID
  uint32_t family;
  uint32_t first, last;  // range of model numbers, both inclusive
  const char* name;
};

constexpr uint32_t amd = 0x68747541, intel = 0x756e6547;
constexpr auto processor_models = std::to_array<Model>({
#define FEATURE(...)
#define MODEL(...) {__VA_ARGS__},
#include "base/cpu_features.def"
});

std::string host_tune() {
  uint32_t vendor = cpuid(0, 0).value[ebx], word = cpuid(1, 0).value[eax];
  uint32_t family = word >> 8 & 15, model = word >> 4 & 15;
  if (family == 15) family += word >> 20 & 0xff;
  if (family >= 6) model |= word >> 12 & 0xf0;
  auto here = [&](const Model& m) {
    return m.vendor == vendor && m.family == family && m.first <= model && model <= m.last;
  };
  auto found = std::ranges::find_if(processor_models, here);
  return found == processor_models.end() ? "" : found->name;
}

std::string host_features() {
  std::set<std::string_view> names;
  for (const Feature& f : features) {
    if (on_host(f)) names.insert(f.name);
  }
  return features_text(names);
}

Chip ask_host() {
  int level = host_level();
  const Processor* processor = std::ranges::find(processors, level, &Processor::level);
  Chip chip{.arch = std::string(processor->name), .features = host_features(), .tune = host_tune()};
  const std::string& wish = knobs().cpu;
  if (wish.empty()) return chip;
  size_t plus = wish.find('+');
  Chip wanted = plus == std::string::npos ? Chip{.arch = wish} : chip_with_features(wish, plus);
  wanted.tune = chip.tune;
  bool is_here = level_of(wanted.arch) <= level && std::ranges::all_of(features, [&](const Feature& f) {
                   return !has_feature(wanted, f.name) || on_host(f);
                 });
  if (level_of(wanted.arch) == 0) refuse(wish, "(from WEFT_CPU) is not an x86-64 level");
  if (!is_here) refuse(wish, cat("(from WEFT_CPU) is above this machine, which is ", chip.arch));
  return wanted;
}

#elif defined(__aarch64__)

/// Returns those of `arm_features` that the operating system reports.
std::string host_features() {
  const uint64_t first = ::getauxval(AT_HWCAP), second = ::getauxval(AT_HWCAP2);
  const bool is_there[] = {(second & HWCAP2_BF16) != 0, (first & HWCAP_ASIMDDP) != 0, (first & HWCAP_ASIMDHP) != 0,
                           (second & HWCAP2_I8MM) != 0};
  std::set<std::string_view> names;
  for (size_t i = 0; i < std::size(is_there); ++i) {
    if (is_there[i]) names.insert(arm_features[i]);
  }
  return features_text(names);
}

Chip ask_host() {
  if (!knobs().cpu.empty() && knobs().cpu != "aarch64") refuse(knobs().cpu, "(from WEFT_CPU) is not this machine");
  return {.kind = ChipKind::arm, .arch = "aarch64", .features = knobs().cpu.empty() ? host_features() : ""};
}

#else

Chip ask_host() { refuse("host", "is neither x86-64 nor AArch64, the processors that the cpu target compiles for"); }

#endif

}  // namespace

const Chip& host_chip() {
  static const Chip chip = ask_host();
  return chip;
}

Chip chip_named(const std::string& name) {
  if (name == "host") return host_chip();
  if (size_t plus = name.find('+'); plus != name.npos) return chip_with_features(name, plus);
  if (const Processor* found = processor_named(name)) return {.kind = found->kind, .arch = name};
  if (name.starts_with("gfx") || name.starts_with("sm_")) return {.kind = gpu_model(name).kind, .arch = name};
  refuse(name, "is of no known family");
}

std::string to_string(const Chip& chip) {
  std::string text = chip.arch;
  if (!chip.features.empty()) text += " " + chip.features;
  if (!chip.tune.empty()) text += " tuned for " + chip.tune;
  return text;
}

bool has_feature(const Chip& chip, const std::string& feature) {
  for (auto listed : split(chip.features, ',')) {
    if (listed.substr(0, 1) == "+" && listed.substr(1) == feature) return true;
  }
  auto named = [&](const Feature& f) { return f.name == feature; };
  auto known = std::ranges::find_if(features, named);
  return chip.kind == ChipKind::x86 && known != features.end() && known->level <= level_of(chip.arch);
}

bool runs_code_for(const Chip& machine, const Chip& code) {
  if (machine.kind != code.kind || !is_cpu(code.kind)) return machine == code;
  int level = level_of(code.arch);
  bool is_within =
      code.kind == ChipKind::arm ? code.arch == machine.arch : level > 0 && level <= level_of(machine.arch);
  if (!is_within) return false;
  return std::ranges::all_of(split(code.features, ','), [&](std::string_view feature) {
    return feature.starts_with('+') && has_feature(machine, std::string(feature.substr(1)));
  });
}

int reach(const Chip& chip) {
  return level_of(chip.arch) * 1000 + static_cast<int>(std::ranges::count(chip.features, '+'));
}

}  // namespace weft
