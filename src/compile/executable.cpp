// SPDX-License-Identifier: Apache-2.0
// Makes an executable from a plan: compiles the machine code, then builds the executable for the device.
#include "base/error.h"
#include "base/knobs.h"
#include "base/log.h"
#include "compile/stages.h"
#include "compile/timer.h"
#include "ir/core_ops.h"
#include "kernel_build/codegen_loader.h"
#include "kernel_build/kernel_build.h"
#include "kernel_build/kernel_cache.h"
#include "kernel_build/kernel_pack.h"
#include "runtime/cpu_executable.h"
#include "runtime/gpu_executable.h"
#include "runtime/ref_executable.h"
#include "targets/gpu/device.h"

namespace weft {

/// Copies constants and default values in mapped files into memory, because other processes may change the files.
static void leave_files(Program& program) {
  for (const auto& module : program.modules()) {
    for (Instruction& i : *module) {
      if (auto* constant = i.as<Constant>(); constant && !constant->tensor.data.empty()) {
        Constant own = *constant;
        own.tensor.data = own.tensor.data.in_memory();
        i.op = std::move(own);
      }
    }
  }
  for (auto& [name, tensor] : program.defaults) tensor.data = tensor.data.in_memory();
}

/// Logs the plan at the levels of WEFT_DEBUG: 1 the chip, 3 each step with its reason, 4 each kernel's source, 6 the
/// assembly of `image`. The name of this part for WEFT_DEBUG is "plan".
static void show_plan(const Plan& plan, std::span<const std::byte> image) {
  auto show = [](int scale, const auto&... parts) {
    if (debug_enabled(scale, "plan")) log_text(LogLevel::debug, cat(parts...));
  };
  show(1, "compiled for ", plan.chip);
  for (const Table<PlanStep>* steps : {&plan.load_steps, &plan.steps}) {
    for (const PlanStep& step : *steps) show(3, step_name(plan, step), ": ", step.reason, ", from ", step.source);
  }
  for (const PlanKernel& kernel : plan.kernels) show(4, "source of ", kernel.name, "\n", kernel.code);
  if (debug_enabled(6, "plan")) show(6, "assembly\n", codegen().disassemble(image, plan.chip));
}

/// Throws the error for a kernel that does not compile: E217 for a custom operator's source, else a bug in Weft.
[[noreturn]] static void blame(const Plan& plan, const Error& error) {
  for (const PlanStep& step : plan.steps) {
    const auto* launch = step.as<LaunchStep>();
    if (!launch) continue;
    const PlanKernel& kernel = plan.kernels[launch->kernel];
    if (kernel.kind != KernelKind::custom || error.info().what.find(kernel.name) == std::string::npos) continue;
    throw Error({.kind = ErrorKind::usage,
                 .code = "E217",
                 .what = "the source of a custom operator does not compile",
                 .where = step.source,
                 .why = error.info().what});
  }
  throw error;
}

std::shared_ptr<Executable> make_reference_for(std::unique_ptr<Program> program, const Place& place,
                                               const CompileOptions& options, CompileReport report) {
  const char* refused = options.precision != Precision::f32 && !place.has_passes ? "takes no other precision"
                        : !options.donate.empty()                                ? "updates nothing in place"
                                                                                 : nullptr;
  if (refused)
    throw Error({.kind = ErrorKind::usage,
                 .code = "E502",
                 .what = cat("the reference computes in float64 with memory of its own and ", refused)});
  leave_files(*program);
  return make_reference(std::move(program), std::move(report));
}

std::vector<KernelSource> kernel_sources(const Plan& plan) {
  std::vector<KernelSource> sources;
  for (const PlanKernel& kernel : plan.kernels) {
    sources.push_back({.name = kernel.name,
                       .code = kernel.code,
                       .work_group = kernel.threads,
                       .occupancy = kernel.occupancy,
                       .checked = knobs().checked});
  }
  return sources;
}

Bytes build_image(Plan& plan, const CompileOptions& options, CompileReport& report) {
  plan.compiler = codegen_build();
  BuildCounts before = build_counts();
  auto progress = [&](int done, int total) {
    if (options.progress) options.progress(Progress("kernels", done, total));
  };
  Timer timer;
  static KernelCache none({}, 0);
  BuiltKernels built;
  try {
    built = build_kernels_or_throw(kernel_sources(plan), plan.chip,
                                   {.cache = options.cache ? nullptr : &none,
                                    .pack = options.cache ? &KernelPack::shared() : nullptr,
                                    .progress = progress});
  } catch (const Error& error) {
    blame(plan, error);
  }
  report.phase_seconds.emplace_back("kernels", timer.seconds());
  int64_t in_parts = 0;
  for (PlanPart& part : plan.parts) {
    CompileReport inner;
    Bytes image = build_image(*part.plan, options, inner);
    part.image = {.dtype = DType::u8, .dims = {static_cast<int64_t>(image.size())}, .data = image};
    in_parts += inner.kernels;
  }
  BuildCounts after = build_counts();
  report.kernels = static_cast<int64_t>(plan.kernels.size()) + in_parts;
  report.kernels_compiled = after.compiles - before.compiles;
  report.kernels_from_cache = after.kernel_hits - before.kernel_hits;
  report.kernels_from_pack = after.pack_hits - before.pack_hits;
  show_plan(plan, built.image);
  return built.image;
}

std::shared_ptr<Executable> run_on(const Runner& runner, ChipProgram program, Origin origin, CompileReport report) {
  auto& [plan, image] = program;
  for (Port& port : plan.inputs) {
    if (port.default_value) port.default_value->data = port.default_value->data.in_memory();
  }
  if (is_cpu(plan.chip.kind) && runs_code_for(host_chip(), plan.chip))
    return make_cpu_executable(std::move(program), runner.host, std::move(origin), std::move(report));
  if (!runner.gpu) return make_null_executable(std::move(program), std::move(origin), std::move(report));
  Timer timer;
  auto executable =
      make_gpu_executable(std::move(program), runner.gpu, std::move(origin), std::move(report), runner.host);
  log(LogLevel::info, "loaded on ", runner.gpu->name(), " in ", timer.seconds(), " s");
  for (const StepInfo& step : executable->steps()) {
    if (step.device == "cpu")
      log(LogLevel::warning, "device ", runner.gpu->name(), ": the cpu runs, between copies: ", step.reason);
  }
  return executable;
}

}  // namespace weft
