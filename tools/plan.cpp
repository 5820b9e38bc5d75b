// SPDX-License-Identifier: Apache-2.0
// weft-plan MODEL CHIP...: prints a model's plan for each chip. Compiles kernels only with --objects. The text has every
// step with its operands and sizes, every buffer, and every kernel's source. tools/replay.py compares two such texts.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <vector>

#include "api/c/options_text.h"
#include "base/error.h"
#include "base/text.h"
#include "compile/places.h"
#include "compile/stages.h"
#include "kernel_build/codegen_loader.h"
#include "passes/pipeline.h"
#include "runtime/plan_bytes.h"

namespace weft {
namespace {

struct Words {
  std::string model;
  std::vector<std::string> chips;
  CompileOptions options;
  bool objects = false;
};

void line(const std::string& text) { std::printf("%s\n", text.c_str()); }

std::string sizes_of(const Plan& plan, const std::vector<SizeId>& ids) {
  std::vector<Dim> sizes;
  for (SizeId id : ids) sizes.push_back(plan.sizes[id]);
  return cat(sizes);
}

void show_steps(const Plan& plan, const char* title, const Table<PlanStep>& steps) {
  line(title);
  for (StepId i : steps.ids()) {
    const PlanStep& step = steps[i];
    line(cat(i, " ", step_name(plan, step), " from ", step.source));
    line(cat("  why: ", step.reason));
    static const LaunchStep none;
    const LaunchStep& launch = step.is<LaunchStep>() ? launch_of(step) : none;
    line(cat("  buffers ", step.buffers, " writes ", step.outputs, " blocks ", launch.blocks, " work ", launch.work));
    line(cat("  sizes ", sizes_of(plan, step.sizes)));
    for (const StepVariant& variant : launch.variants) {
      const std::string& kernel = plan.kernels[variant.kernel].name;
      line(cat("  from ", variant.from, ": ", kernel, " blocks ", variant.blocks));
      line(cat("    sizes ", sizes_of(plan, variant.sizes)));
    }
  }
}

void show_buffers(const Plan& plan) {
  constexpr std::string_view kinds[] = {"input", "output", "constant", "persistent", "arena", "dynamic", "value"};
  line("buffers");
  for (BufferId i : plan.buffers.ids()) {
    const PlanBuffer& b = plan.buffers[i];
    line(cat(i, " ", kinds[static_cast<size_t>(b.kind)], " ", b.shape, " bytes ", b.bytes, " steps ", b.first_step,
             "..", b.last_step, " shares ", b.shares, " '", b.value, "'"));
  }
}

void show_kernels(const Plan& plan, bool objects) {
  for (const PlanKernel& kernel : plan.kernels) {
    line(cat("kernel ", kernel.name, " threads ", kernel.threads, " shared ", kernel.shared_bytes, " occupancy ",
             kernel.occupancy, " cluster ", kernel.cluster, "\n", kernel.code));
    if (!objects) continue;
    KernelSource source{.name = kernel.name, .code = kernel.code};
    source.work_group = kernel.threads;
    source.occupancy = kernel.occupancy;
    CodegenResult result = codegen().compile(source, plan.chip);
    line(result.ok ? cat("object ", to_string(hash128(result.bytes))) : cat("object: ", result.diagnostics));
  }
}

/// Prints the plan, with a hash of its bytes, which also covers the fields that are not printed.
void show(const Plan& plan, bool objects) {
  show_steps(plan, "load steps", plan.load_steps);
  show_steps(plan, "steps", plan.steps);
  show_buffers(plan);
  show_kernels(plan, objects);
  ConstantStore constants;
  line(cat("plan ", to_string(hash128(encode(plan, constants)))));
  for (const PlacedConstant& constant : constants.places()) line(cat("constant ", to_string(constant.hash)));
}

void show_plan_for(const Words& words, const std::string& chip) {
  line(cat("=== ", chip));
  CompileReport report;
  CompileOptions options = words.options;
  options.device = chip;
  auto program = import_file(words.model, options);
  run_shared_passes(*program, options, report);
  Chip target = find_target(chip);
  PassContext context = context_of(target, options);
  ProgramSource asked{.precision = context.precision, .keep_f32 = context.keep_f32};
  show(make_plan(*program, target, asked, options, report), words.objects);
}

}  // namespace
}  // namespace weft

int main(int count, char** words) {
  weft::Words asked;
  CLI::App app("Prints what a model is compiled to for each chip, without compiling kernels.", "weft-plan");
  app.add_option("MODEL", asked.model)->required();
  app.add_option("CHIP", asked.chips, "cpu:x86-64-v4, amd:gfx942, nvidia:sm_90a ...")->required();
  std::string precision = "f32";
  app.add_option("--precision", precision, "f32, bf16 or f16");
  app.add_flag("--objects", asked.objects, "also compile every kernel and print a hash of its machine code");
  CLI11_PARSE(app, count, words);
  asked.options.cache = false;
  int code = 0;
  for (const std::string& chip : asked.chips) {
    try {
      asked.options.precision = weft::parse_precision(precision);
      weft::show_plan_for(asked, chip);
    } catch (const weft::Error& error) {
      weft::line(weft::cat("refused: ", error.what()));
      code = static_cast<int>(error.info().kind);
    }
  }
  return code;
}
