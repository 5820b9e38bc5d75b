// SPDX-License-Identifier: Apache-2.0
// The whole way of a model, from its file to something that runs. Read this first.
#include "compile.h"

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "base/knobs.h"
#include "base/log.h"
#include "frontends/onnx/import.h"
#include "frontends/onnx/reader.h"
#include "lower/lower.h"
#include "passes/channels_last.h"
#include "passes/expand_composites.h"
#include "passes/expand_quantize.h"
#include "passes/inline_control.h"
#include "passes/integer_products.h"
#include "passes/passes.h"
#include "passes/pipeline.h"
#include "passes/reduce_precision.h"
#include "passes/rows_last.h"
#include "plan/in_place.h"
#include "plan/lifetimes.h"
#include "runtime/codegen_loader.h"
#include "runtime/cpu_executable.h"
#include "runtime/gpu_executable.h"
#include "runtime/kernel_build.h"
#include "runtime/kernel_cache.h"
#include "runtime/saved.h"
#include "runtime/sharing.h"
#include "runtime/show_plan.h"
#include "targets/cpu/thread_pool.h"
#include "targets/gpu/device.h"
#include "targets/ref/ref.h"

namespace weft {
namespace {

void add(CompileReport& report, Pipeline& run) {
  report.phase_seconds.insert(report.phase_seconds.end(), run.seconds().begin(), run.seconds().end());
  for (const auto& [pass, count] : run.changes()) report.pass_changes[std::string(pass)] += count;
}

/// Everything between the frontend and lowering, for every target but ref.
void optimise(Program& program, const CompileOptions& options, std::string_view stage, CompileReport& report) {
  Pipeline run(program, {.dump_directory = options.dump_directory, .stop_after = stage});
  add_passes(run);
  add(report, run);
  if (!stage.empty() && !run.stopped()) find_pass(stage);  // says which passes there are
}

// --- devices
// -----------------------------------------------------------------------------------------------------------

class Timer {
 public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count(); }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

struct Job {
  std::unique_ptr<Program> program;
  const CompileOptions& options;
  CompileReport report;
};

/// The reference runs the program as the frontend gave it, so that it judges the passes too.
std::shared_ptr<Executable> compile_reference(Job job) {
  const char* refused = job.options.precision != Precision::f32 ? "takes no other precision"
                        : !job.options.donations.empty()        ? "updates nothing in place"
                                                                : nullptr;
  if (refused)
    throw Error({.kind = ErrorKind::usage,
                 .code = "E502",
                 .what = cat("the reference computes in float64 with memory of its own and ", refused)});
  return make_reference(std::move(job.program), std::move(job.report));
}

Host host_of(const CompileOptions& options) {
  int threads = options.threads ? options.threads : static_cast<int>(knobs().threads);
  return {threads ? threads : available_threads(), options.allocator, options.executor};
}

/// A kernel that does not compile is a bug of ours, unless its source is the embedder's.
[[noreturn]] void blame(const Plan& plan, const Error& error) {
  for (const PlanStep& step : plan.steps) {
    const std::string& kernel = plan.kernels[static_cast<size_t>(step.kernel)].name;
    if (!kernel.starts_with("custom_") || error.info().what.find(kernel) == std::string::npos) continue;
    throw Error({.kind = ErrorKind::usage,
                 .code = "E217",
                 .what = "the source of a custom operator does not compile",
                 .where = step.source,
                 .why = error.info().what});
  }
  throw error;
}

/// Kernel sources -> machine code.
Bytes build_image(const Plan& plan, CompileReport& report, const CompileOptions& options) {
  std::vector<KernelSource> sources;
  for (const PlanKernel& kernel : plan.kernels) {
    sources.push_back(
        {.name = kernel.name, .code = kernel.code, .work_group = kernel.threads, .checked = knobs().checked});
  }
  BuildCounts before = build_counts();
  auto progress = [&](int done, int total) {
    if (options.progress) options.progress({"kernels", static_cast<size_t>(done), static_cast<size_t>(total)});
  };
  Timer timer;
  KernelCache none({}, 0);
  BuiltKernels built;
  try {
    built = build_kernels_or_throw(sources, plan.chip,
                                   {.cache = options.use_cache ? nullptr : &none, .progress = progress});
  } catch (const Error& error) {
    blame(plan, error);
  }
  report.phase_seconds.emplace_back("kernels", timer.seconds());
  BuildCounts after = build_counts();
  report.kernels = static_cast<int64_t>(plan.kernels.size());
  report.kernels_compiled = after.compiles - before.compiles;
  report.kernels_from_cache = after.kernel_hits - before.kernel_hits;
  show_plan(plan, built.image);
  return built.image;
}

/// What runs a plan: a thread pool, a device, or nothing for a chip that is not here.
struct Runner {
  Host host = {};
  std::shared_ptr<gpu::Device> gpu = {};
};

std::shared_ptr<Executable> run_on(const Runner& runner, Plan plan, Bytes image, CompileReport report) {
  if (plan.chip.kind == ChipKind::x86)
    return make_cpu_executable(std::move(plan), std::move(image), runner.host, std::move(report));
  if (!runner.gpu) return make_null_executable(std::move(plan), std::move(image), std::move(report));
  Timer timer;
  auto executable = make_gpu_executable(std::move(plan), std::move(image), runner.gpu, std::move(report));
  log(LogLevel::info, "loaded on ", runner.gpu->name(), " in ", timer.seconds(), " s");
  return executable;
}

std::shared_ptr<Executable> load(Plan plan, const Runner& runner, CompileReport report, const CompileOptions& options) {
  Bytes image = build_image(plan, report, options);
  return run_on(runner, std::move(plan), std::move(image), std::move(report));
}

/// Kernels are written for fused multiply-adds, which x86-64 has from AVX2 (v3) on.
void check_can_compile_for(const Chip& chip) {
  if (chip.kind != ChipKind::x86 || (has_feature(chip, "fma") && has_feature(chip, "avx2"))) return;
  throw Error(
      {.kind = ErrorKind::unsupported,
       .code = "E204",
       .what = cat("the cpu target needs AVX2 and FMA (x86-64-v3); this machine is ", chip.arch),
       .hint = knobs().cpu.empty() ? "--device ref runs anywhere, slowly" : "WEFT_CPU asked for the lesser chip"});
}

std::shared_ptr<Executable> compile_for_chip(Job job, const Chip& chip, const Runner& runner) {
  check_can_compile_for(chip);
  Program& program = *job.program;
  optimise(program, job.options, {}, job.report);
  Pipeline run(program, {.dump_directory = job.options.dump_directory});
  bool bytes = multiplies_bytes(host_chip());
  if (chip.kind == ChipKind::x86)  // GPUs multiply dequantised values
    run(bytes ? "byte_products" : "integer_products", bytes ? byte_products : integer_products);
  run("fold_scales", fold_scales);
  run("expand_quantize", expand_quantize);
  constexpr int64_t widest_gpu_head = 256;
  if (chip.kind != ChipKind::x86) {
    run("write_out_loops", write_out_loops);
    run("expand_grouped", expand_grouped);
  }
  run("expand_attention", [&](Module& module) {
    return expand_attention(module, chip.kind == ChipKind::x86 ? INT64_MAX : widest_gpu_head);
  });
  run("channels_last", channels_last);
  run("rows_last", rows_last);
  LowerOptions lowering;
  DType type = job.options.precision == Precision::bf16 ? DType::bf16 : DType::f16;
  if (job.options.precision != Precision::f32 && chip.kind != ChipKind::x86) {
    lowering = {.storage = type, .keep_f32 = job.options.keep_f32};
  } else if (job.options.precision != Precision::f32) {
    run("reduce_precision", [&](Module& module) { return reduce_precision(module, type, job.options.keep_f32); });
  }
  add(job.report, run);
  Timer timer;
  Plan plan = lower(program, chip, lowering);
  plan_lifetimes(plan);
  plan_in_place(plan, job.options.donations);
  for (const std::string& note : donation_notes(plan)) log(LogLevel::info, note);
  job.report.phase_seconds.emplace_back("lower", timer.seconds());
  return load(std::move(plan), runner, std::move(job.report), job.options);
}

/// Where a program is to run: what the name of a device means here.
struct Place {
  bool reference = false;
  Chip chip = {};
  Runner runner = {};
};

Place cpu_place(const CompileOptions& options) { return {.chip = host_chip(), .runner = {.host = host_of(options)}}; }

Place gpu_place(const std::shared_ptr<gpu::Device>& device) {
  return {.chip = device->info().chip, .runner = {.gpu = device}};
}

/// "amd:gfx942", "nvidia:sm_90a": a chip that need not be here.
std::optional<Chip> named_gpu_chip(std::string_view name) {
  size_t colon = name.find(':');
  if (colon == name.npos) return std::nullopt;
  std::string_view vendor = name.substr(0, colon), chip = name.substr(colon + 1);
  bool fits = (vendor == "amd" && chip.starts_with("gfx")) || (vendor == "nvidia" && chip.starts_with("sm_"));
  return fits ? std::optional(chip_named(std::string(chip))) : std::nullopt;
}

/// `auto` is the first GPU, or the CPU where there is none.
Place choose_place(const CompileOptions& options) {
  if (gpu::devices().empty()) return cpu_place(options);
  log(LogLevel::note, "device auto: ", gpu::devices()[0]->name());
  return gpu_place(gpu::devices()[0]);
}

Place find_place(const CompileOptions& options) {
  const std::string& name = options.device;
  if (name == "auto") return choose_place(options);
  if (name == "cpu") return cpu_place(options);
  if (name == "ref") return {.reference = true};
  if (gpu::is_device_name(name)) return gpu_place(gpu::open_device(name));
  if (auto chip = named_gpu_chip(name)) return {.chip = *chip};
  throw Error({.kind = ErrorKind::unsupported,
               .code = "E501",
               .what = cat("there is no device '", printable(name), "'"),
               .hint = "the devices are auto, cpu, ref, gpu, nvidia:0, amd:0; a chip that is not here can be compiled "
                       "for: nvidia:sm_90a, amd:gfx942"});
}

std::shared_ptr<Executable> compile_for(std::unique_ptr<Program> program, const CompileOptions& options,
                                        CompileReport report) {
  Place place = find_place(options);
  Job job{std::move(program), options, std::move(report)};
  if (place.reference) return compile_reference(std::move(job));
  return compile_for_chip(std::move(job), place.chip, place.runner);
}

// --- sizes that the caller asks for
// --------------------------------------------------------------------------------------

const onnx::ValueInfo& find_input(const std::string& name, const onnx::Graph& graph, const char* given) {
  auto input = std::ranges::find(graph.inputs, name, &onnx::ValueInfo::name);
  if (input != graph.inputs.end()) return *input;
  std::vector<std::string> names;
  for (const auto& known : graph.inputs) names.emplace_back(known.name);
  throw Error({.kind = ErrorKind::usage,
               .code = "E310",
               .what = cat(given, " given for '", printable(name), "', which is no input"),
               .hint = cat("the inputs are ", names)});
}

/// One input's request as the importer takes it. A size that the model names is bounded by its name, so that it holds
/// wherever the name is used.
void request_sizes(const ShapeRequest& request, const onnx::Graph& graph, onnx::ImportOptions& out) {
  const auto& declared = find_input(request.input, graph, "sizes are").type.dims;
  if (declared && declared->size() != request.sizes.size()) {
    throw Error({.kind = ErrorKind::usage,
                 .code = "E310",
                 .what = cat("input '", printable(request.input), "' has ", declared->size(), " axes, ",
                             request.sizes.size(), " sizes are given")});
  }
  Dims dims;
  const onnx::Dimension undeclared;
  for (size_t axis = 0; axis < request.sizes.size(); ++axis) {
    auto [low, high] = request.sizes[axis];
    const onnx::Dimension& size = declared ? (*declared)[axis] : undeclared;
    std::string name = size.name.empty() ? cat(request.input, "_", axis) : std::string(size.name);
    Symbol symbol{.name = name, .min = low, .max = high};
    if (size.value && low <= *size.value && *size.value <= high) symbol.min = symbol.max = *size.value;
    auto known = out.symbols.find(name);
    if (known != out.symbols.end()) symbol = known->second;
    out.symbols[name] = symbol;
    dims.push_back(Dim::symbol(symbol));
  }
  out.shapes[request.input] = dims;
}

std::unique_ptr<Program> import(const onnx::Model& model, const CompileOptions& options) {
  onnx::ImportOptions wanted;
  for (const auto& [name, size] : options.symbols) wanted.symbols[name] = {.name = name, .min = size, .max = size};
  wanted.fixed_defaults = options.fixed_defaults;
  wanted.operators = &options.operators;
  for (const ShapeRequest& request : options.shapes) request_sizes(request, model.graph, wanted);
  for (const auto& [name, value] : options.constants) find_input(name, model.graph, "a value is");
  wanted.constants = options.constants;
  return onnx::import_model(model, wanted);
}

std::shared_ptr<Executable> compile_model(const std::function<onnx::Model()>& read, const CompileOptions& options) {
  find_place(options);  // before any work
  auto begin = std::chrono::steady_clock::now();
  std::unique_ptr<Program> program = import(read(), options);
  std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  return compile_for(std::move(program), options, {.phase_seconds = {{"import", taken.count()}}});
}

// --- saved programs
// -----------------------------------------------------------------------------------------------------------

/// What was settled when the program was compiled.
void refuse_late_options(const CompileOptions& options) {
  const char* late = !options.shapes.empty() || !options.symbols.empty() ? "sizes"
                     : options.precision != Precision::f32               ? "precision"
                     : !options.keep_f32.empty()                         ? "nodes that stay in f32"
                     : !options.fixed_defaults.empty()                   ? "inputs with a fixed default"
                     : !options.donations.empty()                        ? "donations"
                     : !options.constants.empty()                        ? "constants"
                     : !options.dump_directory.empty()                   ? "dumps of passes"
                                                                         : nullptr;
  if (!late) return;
  throw Error({.kind = ErrorKind::usage,
               .code = "E502",
               .what = cat(late, " can be asked for when a model is compiled, not for a saved program")});
}

/// A named device must be of the kind that the program was compiled for; `auto` takes whatever runs it.
Place place_for(const Chip& chip, const CompileOptions& options) {
  Place place = find_place(options);
  if (!place.reference && place.chip.kind == chip.kind) return place;
  if (options.device == "auto" && chip.kind == ChipKind::x86) return cpu_place(options);
  throw Error({.kind = ErrorKind::unsupported,
               .code = "E172",
               .what = cat("the saved program is for ", printable(to_string(chip)), ", device '",
                           printable(options.device), "' was asked for")});
}

/// Code for another chip can only be compiled again, from the sources in the file.
void check_can_recompile(const Chip& chip, const Chip& here, const CompileOptions& options) {
  bool is_x86 = chip.kind == ChipKind::x86;  // the plan of a GPU is made for its wave and matrix units
  if (is_x86 && options.recompile && !find_codegen_library().empty()) return;
  throw Error({.kind = ErrorKind::unsupported,
               .code = "E172",
               .what = cat("the saved program is for ", printable(to_string(chip)), ", this machine is ", here),
               .why = !is_x86              ? "its kernels are written for that chip"
                      : !options.recompile ? "compiling it again was not allowed"
                                           : "there is no libweft-codegen to compile it again",
               .hint = "compile the model again on this machine"});
}

std::shared_ptr<Executable> load_saved(Bytes file, const CompileOptions& options) {
  refuse_late_options(options);
  Timer timer;
  LoadedPlan saved = load_plan(std::move(file));
  Place place = place_for(saved.plan.chip, options);
  CompileReport report{.phase_seconds = {{"load", timer.seconds()}},
                       .kernels = static_cast<int64_t>(saved.plan.kernels.size())};
  if (runs_code_for(place.chip, saved.plan.chip) && !knobs().checked)
    return run_on(place.runner, std::move(saved.plan), saved.image, std::move(report));
  check_can_recompile(saved.plan.chip, place.chip, options);
  check_can_compile_for(place.chip);
  saved.plan.chip = place.chip;
  return load(std::move(saved.plan), place.runner, std::move(report), options);
}

std::shared_ptr<Executable> load_saved(Bytes file, const CompileOptions& options, const std::string& source) {
  try {
    return load_saved(std::move(file), options);
  } catch (Error& error) {
    error.set_where(printable(source));
    throw;
  }
}

}  // namespace

std::shared_ptr<Executable> compile_file(const std::filesystem::path& path, const CompileOptions& options) {
  if (Bytes file = map_file(path); is_saved_plan(file)) return load_saved(std::move(file), options, path.string());
  return compile_model([&] { return onnx::read_model(path); }, options);
}

std::shared_ptr<Executable> compile_bytes(Bytes model, const CompileOptions& options,
                                          const std::filesystem::path& folder) {
  if (is_saved_plan(model)) return load_saved(std::move(model), options, "the saved program");
  return compile_model([&] { return onnx::read_model(std::move(model), {.external_data_dir = folder}); }, options);
}

std::shared_ptr<Executable> compile(std::unique_ptr<Program> program, const CompileOptions& options) {
  if (!options.shapes.empty() || !options.symbols.empty() || !options.constants.empty()) {
    throw Error({.kind = ErrorKind::usage,
                 .code = "E502",
                 .what = "sizes and constants can be asked for when a model file is read, not for a program that is "
                         "built already"});
  }
  return compile_for(std::move(program), options, {});
}

namespace {
void refuse_saved(const Bytes& model, const std::string& what) {
  if (!is_saved_plan(model)) return;
  throw Error({.kind = ErrorKind::usage,
               .code = "E102",
               .what = cat(what, " is a saved program, not a model"),
               .hint = "give the model that it was compiled from"});
}
}  // namespace

std::unique_ptr<Program> import_file(const std::filesystem::path& path, const CompileOptions& options) {
  refuse_saved(map_file(path), printable(path.string()));
  return import(onnx::read_model(path), options);
}

std::unique_ptr<Program> import_bytes(Bytes model, const CompileOptions& options, const std::filesystem::path& folder) {
  refuse_saved(model, "what was given");
  return import(onnx::read_model(std::move(model), {.external_data_dir = folder}), options);
}

std::unique_ptr<Program> optimised(std::unique_ptr<Program> program, const CompileOptions& options,
                                   std::string_view stage) {
  CompileReport report;
  optimise(*program, options, stage, report);
  return program;
}

}  // namespace weft
