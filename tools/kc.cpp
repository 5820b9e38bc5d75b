// SPDX-License-Identifier: Apache-2.0
// weft-kc: compiles one kernel file through libweft-codegen, for CI (every kernel header for every family of chips) and
// for developers of kernels.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "kernel_build/codegen_loader.h"

namespace {

constexpr const char* usage =
    "usage: weft-kc FILE.cpp [options]      compile a kernel file; several files are linked into one image\n"
    "  --chip NAME       host (default), x86-64-v3, x86-64-v4, gfx942, gfx1100, sm_90a ...; given twice: one after the "
    "other\n"
    "  --features LIST   on top of the chip: +avx512bf16,+avx512vnni\n"
    "  -o FILE           write the linked image\n"
    "  --asm             print the assembly\n"
    "  --time            print milliseconds of each step, best of 5\n"
    "  --group N         threads of a GPU work group (256)\n"
    "  --occupancy N     wanted waves per SIMD or work groups per SM\n"
    "  --warnings        clang's -Wall -Wextra\n"
    "  --checked, --vectorize\n";

struct Options {
  std::vector<std::string> files, chips;
  std::string features, output;
  bool assembly = false, time = false;
  weft::KernelSource source;
};

[[noreturn]] void stop(const std::string& why) {
  std::fprintf(stderr, "weft-kc: %s\n%s", why.c_str(), usage);
  std::exit(2);
}

Options parse(int count, char** words) {
  Options options;
  options.source.sanitizer = weft::Sanitizer::none;
  for (int i = 1; i < count; ++i) {
    std::string word = words[i];
    auto value = [&]() -> std::string { return i + 1 < count ? words[++i] : (stop(word + " needs a value"), ""); };
    if (word == "--chip") options.chips.push_back(value());
    else if (word == "--features") options.features = value();
    else if (word == "-o") options.output = value();
    else if (word == "--asm") options.assembly = true;
    else if (word == "--time") options.time = true;
    else if (word == "--group") options.source.work_group = std::atoi(value().c_str());
    else if (word == "--occupancy") options.source.occupancy = std::atoi(value().c_str());
    else if (word == "--warnings") options.source.warnings = true;
    else if (word == "--checked") options.source.checked = true;
    else if (word == "--vectorize") options.source.vectorize = true;
    else if (word.starts_with("-")) stop("unknown option " + word);
    else options.files.push_back(word);
  }
  if (options.files.empty()) stop("no file given");
  if (options.chips.empty()) options.chips.push_back("host");
  return options;
}

void print_resources(const std::vector<weft::ResourceUse>& kernels) {
  for (const auto& k : kernels) {
    std::printf("  %s: %d vgpr (%d acc), %d sgpr, spills %d+%d, scratch %d, lds %d, group %d, wave %d\n",
                k.kernel.c_str(), k.vgprs, k.agprs, k.sgprs, k.vgpr_spills, k.sgpr_spills, k.scratch_bytes, k.lds_bytes,
                k.work_group, k.wave);
  }
}

weft::CodegenResult compile(const weft::KernelSource& source, const weft::Chip& chip, bool time) {
  auto best = weft::codegen().compile(source, chip);
  auto total = [](const weft::CompileTimes& t) { return t.front_end_ms + t.optimise_ms + t.emit_ms; };
  for (int round = 0; time && best.ok && round < 5; ++round) {
    auto again = weft::codegen().compile(source, chip);
    if (total(again.times) < total(best.times)) best.times = again.times;
  }
  std::fputs(best.diagnostics.c_str(), stderr);
  if (time) {
    std::printf("%s for %s: front end %.1f, optimise %.1f, emit %.1f, total %.1f ms, %zu bytes\n", source.name.c_str(),
                chip.arch.c_str(), best.times.front_end_ms, best.times.optimise_ms, best.times.emit_ms,
                total(best.times), best.bytes.size());
  }
  return best;
}

weft::KernelSource read_source(const Options& options, const std::string& path) {
  weft::KernelSource source = options.source;
  source.name = std::filesystem::path(path).stem().string();
  source.code = weft::as_text(weft::map_file(path));
  return source;
}

bool build(const Options& options, weft::Chip chip) {
  if (!options.features.empty()) chip.features = options.features;
  std::vector<std::vector<std::byte>> objects;
  for (const auto& path : options.files) {
    auto result = compile(read_source(options, path), chip, options.time);
    if (!result.ok) return false;
    if (options.assembly) std::fputs(weft::codegen().disassemble(result.bytes, chip).c_str(), stdout);
    objects.push_back(std::move(result.bytes));
  }
  std::vector<std::span<const std::byte>> views(objects.begin(), objects.end());
  auto image = weft::codegen().link(views, chip, {});
  std::fputs(image.diagnostics.c_str(), stderr);
  if (!image.ok) return false;
  print_resources(image.kernels);
  if (!options.output.empty()) weft::write_file(options.output, image.bytes);
  return true;
}

}  // namespace

int main(int count, char** words) {
  try {
    Options options = parse(count, words);
    bool all = true;
    for (const auto& chip : options.chips) all = build(options, weft::chip_named(chip)) && all;
    return all ? 0 : 1;
  } catch (const weft::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.info().kind);
  }
}
