// SPDX-License-Identifier: Apache-2.0
// The whole way of a model, from its file to something that runs. Read this first.
#include "compile.h"

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "base/file_reading.h"
#include "base/knobs.h"
#include "base/log.h"
#include "base/watch.h"
#include "compile/stages.h"
#include "compile/tune.h"
#include "frontends/onnx/import.h"
#include "frontends/onnx/reader.h"
#include "ir/core_ops.h"
#include "ir/text.h"
#include "lower/lower.h"
#include "passes/channels_last.h"
#include "passes/expand_composites.h"
#include "passes/expand_quantize.h"
#include "passes/fold_constants.h"
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
#include "targets/gpu/device.h"
#include "targets/ref/ref.h"

namespace weft {
namespace {

void add(CompileReport& report, Pipeline& run) {
  report.phase_seconds.insert(report.phase_seconds.end(), run.seconds().begin(), run.seconds().end());
  for (const auto& [pass, count] : run.changes()) report.pass_changes[std::string(pass)] += count;
}

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

/// No run reads a file, which others may change: what it would read there is copied.
void leave_files(Program& program) {
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

/// The reference runs the program as the frontend gave it, so that it judges the passes too; after the passes it may be
/// of another precision.
std::shared_ptr<Executable> compile_reference(Job job, bool has_passes) {
  const char* refused = job.options.precision != Precision::f32 && !has_passes ? "takes no other precision"
                        : !job.options.donations.empty()                       ? "updates nothing in place"
                                                                               : nullptr;
  if (refused)
    throw Error({.kind = ErrorKind::usage,
                 .code = "E502",
                 .what = cat("the reference computes in float64 with memory of its own and ", refused)});
  leave_files(*job.program);
  return make_reference(std::move(job.program), std::move(job.report));
}

/// A kernel that does not compile is a bug of ours, unless its source is the embedder's.
[[noreturn]] void blame(const Plan& plan, const Error& error) {
  for (const PlanStep& step : plan.steps) {
    const PlanKernel& kernel = plan.kernels[static_cast<size_t>(step.kernel)];
    if (kernel.kind != KernelKind::custom || error.info().what.find(kernel.name) == std::string::npos) continue;
    throw Error({.kind = ErrorKind::usage,
                 .code = "E217",
                 .what = "the source of a custom operator does not compile",
                 .where = step.source,
                 .why = error.info().what});
  }
  throw error;
}

}  // namespace

void optimise(Program& program, const CompileOptions& options, std::string_view stage, CompileReport& report) {
  Pipeline run(program, {.dump_directory = options.dump_directory, .stop_after = stage});
  FoldingScope folding(program);
  add_passes(run);
  add(report, run);
  if (!stage.empty() && !run.stopped()) find_pass(stage);  // says which passes there are
}

void prepare(Program& program, const Chip& chip, const ProgramSource& asked, const CompileOptions& options,
             CompileReport& report) {
  Pipeline run(program, {.dump_directory = options.dump_directory});
  run("expand_block_dots", [&](Module& module) { return expand_block_dots(module, is_cpu(chip.kind)); });
  if (!is_cpu(chip.kind)) run("signed_products", signed_products);
  else if (multiplies_tiles(chip)) run("tile_products", tile_products);
  else if (multiplies_bytes(chip)) run("byte_products", byte_products);
  else run("integer_products", integer_products);
  run("fold_scales", fold_scales);
  run("expand_quantize", expand_quantize);
  constexpr int64_t widest_gpu_head = 256;
  if (!is_cpu(chip.kind)) {
    run("write_out_loops", write_out_loops);
    run("expand_grouped", expand_grouped);
  }
  run("expand_attention",
      [&](Module& module) { return expand_attention(module, is_cpu(chip.kind) ? INT64_MAX : widest_gpu_head); });
  run("channels_last", channels_last);
  run("rows_last", rows_last);
  if (asked.precision != DType::f32 && is_cpu(chip.kind)) {
    run("reduce_precision", [&](Module& module) {
      return reduce_precision(module, asked.precision, asked.keep_f32, multiplies(asked.precision, chip));
    });
  }
  add(report, run);
}

Plan make_plan(Program& program, const Chip& chip, const ProgramSource& asked, const CompileOptions& options,
               CompileReport& report) {
  prepare(program, chip, asked, options, report);
  LowerOptions lowering;
  bool narrows_memory = !is_cpu(chip.kind) || multiplies(asked.precision, chip);
  if (narrows_memory) lowering = {.storage = asked.precision, .keep_f32 = asked.keep_f32};
  lowering.choose = options.choose;
  lowering.libraries = options.libraries;
  Timer timer;
  Plan plan = lower(program, chip, lowering);
  plan_lifetimes(plan);
  plan_in_place(plan, asked.donations);
  share_working_memory(plan);
  for (const std::string& note : donation_notes(plan)) log(LogLevel::info, note);
  report.phase_seconds.emplace_back("lower", timer.seconds());
  if (debug_enabled(2, "compile"))
    log_text(LogLevel::debug, cat("planned ", plan.steps.size(), " steps for ", chip.arch));
  return plan;
}

Bytes build_image(Plan& plan, const CompileOptions& options, CompileReport& report) {
  plan.compiler = codegen_build();
  std::vector<KernelSource> sources;
  for (const PlanKernel& kernel : plan.kernels) {
    sources.push_back({.name = kernel.name,
                       .code = kernel.code,
                       .work_group = kernel.threads,
                       .occupancy = kernel.occupancy,
                       .checked = knobs().checked});
  }
  BuildCounts before = build_counts();
  auto progress = [&](int done, int total) {
    if (options.progress) options.progress({"kernels", static_cast<size_t>(done), static_cast<size_t>(total)});
  };
  Timer timer;
  static KernelCache none({}, 0);
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
      make_gpu_executable(std::move(program), runner.gpu, std::move(origin), std::move(report), runner.host.allocator);
  log(LogLevel::info, "loaded on ", runner.gpu->name(), " in ", timer.seconds(), " s");
  return executable;
}

namespace {

DType type_of(Precision precision) {
  return precision == Precision::f32 ? DType::f32 : precision == Precision::bf16 ? DType::bf16 : DType::f16;
}

/// The program as every chip sees it, as text that refers to its large constants.
std::shared_ptr<const ProgramSource> source_of(const Program& program, const CompileOptions& options) {
  ProgramSource source;
  std::map<std::pair<const std::byte*, std::string>, size_t> known;
  PrintContext context{.name_blob = [&](const Tensor& tensor) {
    auto [number, is_new] = known.try_emplace({tensor.data.data(), cat(tensor.shape())}, source.constants.size());
    if (is_new) source.constants.push_back(tensor);
    return cat(number->second);
  }};
  source.text = print(program, context);
  source.precision = type_of(options.precision);
  source.keep_f32 = options.keep_f32;
  source.donations = options.donations;
  return std::make_shared<const ProgramSource>(std::move(source));
}

std::shared_ptr<Executable> compile_for(std::unique_ptr<Program> program, const CompileOptions& options,
                                        CompileReport report) {
  heed_watch();
  Place place = find_place(options);
  if (place.reference && !place.has_passes)
    return compile_reference({std::move(program), options, std::move(report)}, false);
  check_can_compile_for(place.chip);
  optimise(*program, options, {}, report);
  if (place.reference) {
    prepare(*program, place.chip, {.precision = type_of(options.precision), .keep_f32 = options.keep_f32}, options,
            report);
    return compile_reference({std::move(program), options, std::move(report)}, true);
  }
  auto source = source_of(*program, options);
  CompileOptions decided = options;
  decide_by_tunings(*source, place, decided);
  Plan plan = make_plan(*program, place.chip, *source, decided, report);
  program.reset();
  Bytes image = build_image(plan, options, report);
  Origin origin{.source = source, .file = {}};
  for (const Tensor& constant : source->constants) constant.data.check_file();
  return run_on(place.runner, {std::move(plan), std::move(image)}, std::move(origin), std::move(report));
}

}  // namespace

TuneReport tune_file(const std::filesystem::path& path, const CompileOptions& options) {
  Place place = find_place(options);
  CompileOptions found = options;
  found.libraries = find_libraries(place, options);
  return reading_files([&] {
    if (Bytes file = map_file(path); is_saved_program(file))
      return tune(SavedFile(std::move(file)).source(), place, found);
    std::unique_ptr<Program> program = import(onnx::read_model(path), options);
    CompileReport report;
    optimise(*program, options, {}, report);
    auto source = source_of(*program, options);
    program.reset();
    return tune(*source, place, found);
  });
}

namespace {

std::shared_ptr<Executable> compile_model(const std::function<onnx::Model()>& read, const CompileOptions& options) {
  find_place(options);  // before any work
  auto begin = std::chrono::steady_clock::now();
  std::unique_ptr<Program> program = import(read(), options);
  std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  return compile_for(std::move(program), options, {.phase_seconds = {{"import", taken.count()}}});
}

}  // namespace

std::shared_ptr<Executable> compile_file(const std::filesystem::path& path, const CompileOptions& options) {
  Watch watch(options.deadline, options.stop);
  WatchScope scope(&watch);
  return reading_files([&] {
    if (Bytes file = map_file(path); is_saved_program(file)) return load_saved(std::move(file), options, path.string());
    onnx::ReadOptions limits{.max_nodes = options.max_nodes, .max_nesting = options.max_nesting};
    return compile_model([&] { return onnx::read_model(path, limits); }, options);
  });
}

std::shared_ptr<Executable> compile_bytes(Bytes model, const CompileOptions& options,
                                          const std::filesystem::path& folder) {
  Watch watch(options.deadline, options.stop);
  WatchScope scope(&watch);
  return reading_files([&] {
    if (is_saved_program(model)) return load_saved(std::move(model), options, "the saved program");
    onnx::ReadOptions limits{
        .external_data_dir = folder, .max_nodes = options.max_nodes, .max_nesting = options.max_nesting};
    return compile_model([&] { return onnx::read_model(std::move(model), limits); }, options);
  });
}

std::shared_ptr<Executable> compile(std::unique_ptr<Program> program, const CompileOptions& options) {
  Watch watch(options.deadline, options.stop);
  WatchScope scope(&watch);
  if (!options.shapes.empty() || !options.symbols.empty() || !options.constants.empty()) {
    throw Error({.kind = ErrorKind::usage,
                 .code = "E502",
                 .what = "sizes and constants can be asked for when a model file is read, not for a program that is "
                         "built already"});
  }
  return reading_files([&] { return compile_for(std::move(program), options, {}); });
}

std::unique_ptr<Program> import_file(const std::filesystem::path& path, const CompileOptions& options) {
  return reading_files([&] {
    if (Bytes file = map_file(path); is_saved_program(file)) return read_source(SavedFile(file).source());
    return import(onnx::read_model(path), options);
  });
}

std::unique_ptr<Program> import_bytes(Bytes model, const CompileOptions& options, const std::filesystem::path& folder) {
  return reading_files([&] {
    if (is_saved_program(model)) return read_source(SavedFile(std::move(model)).source());
    return import(onnx::read_model(std::move(model), {.external_data_dir = folder}), options);
  });
}

std::unique_ptr<Program> optimised(std::unique_ptr<Program> program, const CompileOptions& options,
                                   std::string_view stage) {
  CompileReport report;
  optimise(*program, options, stage, report);
  return program;
}

}  // namespace weft
