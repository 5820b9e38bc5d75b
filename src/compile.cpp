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
#include "passes/expand_quantize.h"
#include "passes/integer_products.h"
#include "passes/passes.h"
#include "passes/pipeline.h"
#include "passes/reduce_precision.h"
#include "passes/rows_last.h"
#include "plan/in_place.h"
#include "plan/lifetimes.h"
#include "runtime/codegen_loader.h"
#include "runtime/cpu_executable.h"
#include "runtime/kernel_build.h"
#include "runtime/kernel_cache.h"
#include "runtime/saved.h"
#include "runtime/sharing.h"
#include "runtime/show_plan.h"
#include "targets/cpu/thread_pool.h"
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

/// Kernel sources -> machine code -> something that runs.
std::shared_ptr<Executable> load(Plan plan, CompileReport report, const CompileOptions& options) {
  std::vector<KernelSource> sources;
  for (const PlanKernel& kernel : plan.kernels) {
    sources.push_back({.name = kernel.name, .code = kernel.code, .checked = knobs().checked});
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
  return make_cpu_executable(std::move(plan), built.image, host_of(options), std::move(report));
}

/// Kernels are written for fused multiply-adds, which x86-64 has from AVX2 (v3) on.
const Chip& chip_to_compile_for() {
  const Chip& chip = host_chip();
  if (has_feature(chip, "fma") && has_feature(chip, "avx2")) return chip;
  throw Error(
      {.kind = ErrorKind::unsupported,
       .code = "E204",
       .what = cat("the cpu target needs AVX2 and FMA (x86-64-v3); this machine is ", chip.arch),
       .hint = knobs().cpu.empty() ? "--device ref runs anywhere, slowly" : "WEFT_CPU asked for the lesser chip"});
}

std::shared_ptr<Executable> compile_cpu(Job job) {
  Program& program = *job.program;
  optimise(program, job.options, {}, job.report);
  Pipeline run(program, {.dump_directory = job.options.dump_directory});
  bool bytes = multiplies_bytes(host_chip());
  run(bytes ? "byte_products" : "integer_products", bytes ? byte_products : integer_products);
  run("fold_scales", fold_scales);
  run("expand_quantize", expand_quantize);
  run("channels_last", channels_last);
  run("rows_last", rows_last);
  if (job.options.precision != Precision::f32) {
    DType type = job.options.precision == Precision::bf16 ? DType::bf16 : DType::f16;
    run("reduce_precision", [&](Module& module) { return reduce_precision(module, type, job.options.keep_f32); });
  }
  add(job.report, run);
  Timer timer;
  Plan plan = lower(program, chip_to_compile_for());
  plan_lifetimes(plan);
  plan_in_place(plan, job.options.donations);
  for (const std::string& note : donation_notes(plan)) log(LogLevel::info, note);
  job.report.phase_seconds.emplace_back("lower", timer.seconds());
  return load(std::move(plan), std::move(job.report), job.options);
}

struct Device {
  std::string_view name;
  std::shared_ptr<Executable> (*compile)(Job);
};
/// "auto" takes the first.
constexpr Device devices[] = {
    {"cpu", compile_cpu},
    {"ref", compile_reference},
};

const Device& find_device(const std::string& name) {
  if (name == "auto") return devices[0];
  auto found = std::ranges::find(devices, name, &Device::name);
  if (found != std::end(devices)) return *found;
  std::vector<std::string> known = {"auto"};
  for (const Device& device : devices) known.emplace_back(device.name);
  throw Error({.kind = ErrorKind::unsupported,
               .code = "E501",
               .what = cat("there is no device '", printable(name), "'"),
               .hint = cat("the devices are ", known)});
}

std::shared_ptr<Executable> compile_for(std::unique_ptr<Program> program, const CompileOptions& options,
                                        CompileReport report) {
  return find_device(options.device).compile({std::move(program), options, std::move(report)});
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
  for (size_t axis = 0; axis < request.sizes.size(); ++axis) {
    auto [low, high] = request.sizes[axis];
    onnx::Dimension size = declared ? (*declared)[axis] : onnx::Dimension{};
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
  find_device(options.device);  // before any work
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

void refuse_other_device(const std::string& device) {
  if (find_device(device).compile == compile_cpu) return;
  throw Error({.kind = ErrorKind::unsupported,
               .code = "E172",
               .what = cat("the saved program is for device 'cpu', '", printable(device), "' was asked for")});
}

/// Code for another chip can only be compiled again, from the sources in the file.
void check_can_recompile(const Chip& chip, const CompileOptions& options) {
  bool is_x86 = chip.kind == ChipKind::x86;
  if (is_x86 && options.recompile && !find_codegen_library().empty()) return;
  throw Error({.kind = ErrorKind::unsupported,
               .code = "E172",
               .what = cat("the saved program is for ", printable(to_string(chip)), ", this machine is ", host_chip()),
               .why = !is_x86              ? "its kernels are written for another kind of chip"
                      : !options.recompile ? "compiling it again was not allowed"
                                           : "there is no libweft-codegen to compile it again",
               .hint = "compile the model again on this machine"});
}

std::shared_ptr<Executable> load_saved(Bytes file, const CompileOptions& options) {
  refuse_late_options(options);
  refuse_other_device(options.device);
  Timer timer;
  LoadedPlan saved = load_plan(std::move(file));
  CompileReport report{.phase_seconds = {{"load", timer.seconds()}},
                       .kernels = static_cast<int64_t>(saved.plan.kernels.size())};
  if (runs_code_for(host_chip(), saved.plan.chip) && !knobs().checked)
    return make_cpu_executable(std::move(saved.plan), saved.image, host_of(options), std::move(report));
  check_can_recompile(saved.plan.chip, options);
  saved.plan.chip = chip_to_compile_for();
  return load(std::move(saved.plan), std::move(report), options);
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

std::unique_ptr<Program> import_file(const std::filesystem::path& path, const CompileOptions& options) {
  if (is_saved_plan(map_file(path))) {
    throw Error({.kind = ErrorKind::usage,
                 .code = "E102",
                 .what = cat(printable(path.string()), " is a saved program, not a model"),
                 .hint = "give the model that it was compiled from"});
  }
  return import(onnx::read_model(path), options);
}

std::unique_ptr<Program> optimised(std::unique_ptr<Program> program, const CompileOptions& options,
                                   std::string_view stage) {
  CompileReport report;
  optimise(*program, options, stage, report);
  return program;
}

}  // namespace weft
