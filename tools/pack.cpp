// SPDX-License-Identifier: Apache-2.0
// weft-pack FILE MODEL... --chip CHIP...: compiles the kernels of models for each chip and writes them into a pack
// (kernel_build/kernel_pack.h). tools/pack.py makes the models and calls this program.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "api/c/options_text.h"
#include "base/chip_features.h"
#include "base/error.h"
#include "base/text.h"
#include "compile/places.h"
#include "compile/stages.h"
#include "kernel_build/codegen_loader.h"
#include "kernel_build/kernel_build.h"
#include "passes/pipeline.h"
#include "tools/write_pack.h"

namespace weft {
namespace {

/// The kernels of all models for one chip, without duplicates.
class Sources {
 public:
  explicit Sources(const std::string& chip) : device_(chip), chip_(plain_chip(find_target(chip))) {}

  void add_model(const std::string& path, const CompileOptions& asked) {
    CompileOptions options = asked;
    options.device = device_;
    CompileReport report;
    auto program = import_file(path, options);
    run_shared_passes(*program, options, report);
    ProgramSource source{.precision = context_of(chip_, options).precision};
    Plan plan = make_plan(*program, chip_, source, options, report);
    for (KernelSource& source : kernel_sources(plan)) {
      if (known_.insert(source.code).second) sources_.push_back(std::move(source));
    }
  }

  const std::string& level() const { return chip_.arch; }

  void compile(std::vector<PackEntry>& pack, uint32_t frame) const {
    std::vector<PackEntry> entries = build_for_pack(sources_, chip_);
    std::fprintf(stderr, "%s: %zu kernels, %zu entries\n", device_.c_str(), sources_.size(), entries.size());
    for (PackEntry& entry : entries) {
      entry.frame = frame;
      pack.push_back(std::move(entry));
    }
  }

 private:
  std::string device_;
  Chip chip_;
  std::vector<KernelSource> sources_ = {};
  std::set<std::string> known_ = {};
};

struct Words {
  std::string file;
  std::vector<std::string> models, chips, precisions{"f32"};
};

void make_pack(const Words& words) {
  std::vector<PackEntry> pack;
  // Chips of one level, such as x86-64-v3, share a frame, because their kernels are alike and compress well together.
  std::map<std::string, uint32_t> frames;
  for (const std::string& chip : words.chips) {
    Sources sources(chip);
    for (const std::string& model : words.models) {
      CompileOptions options;
      sources.add_model(model, options);
    }
    sources.compile(pack, frames.try_emplace(sources.level(), static_cast<uint32_t>(frames.size())).first->second);
  }
  write_pack(words.file, codegen_build(), pack);
  std::printf("%s: %zu entries\n", words.file.c_str(), pack.size());
}

}  // namespace
}  // namespace weft

int main(int count, char** words) {
  weft::Words asked;
  CLI::App app("Compiles the kernels of models into a pack.", "weft-pack");
  app.add_option("FILE", asked.file)->required();
  app.add_option("MODEL", asked.models)->required();
  app.add_option("--chip", asked.chips, "cpu:x86-64-v3, cpu:x86-64-v4+avx512vnni ...")->required()->delimiter(',');
  CLI11_PARSE(app, count, words);
  try {
    weft::make_pack(asked);
  } catch (const weft::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.info().kind);
  }
  return 0;
}
