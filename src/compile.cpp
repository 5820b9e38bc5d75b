// SPDX-License-Identifier: Apache-2.0
// Compiles a model from its file to an executable. Read this file first.
#include "compile.h"

#include "base/error.h"
#include "base/file_reading.h"
#include "base/watch.h"
#include "compile/by_sizes.h"
#include "compile/specialise.h"
#include "compile/stages.h"
#include "compile/timer.h"
#include "compile/tune.h"
#include "frontends/onnx/file/reader.h"

namespace weft {

/// Runs the stages after the frontend: passes, lowering to a plan, code generation, making the executable.
std::shared_ptr<Executable> compile_program(std::unique_ptr<Program> program, const CompileOptions& options,
                                            CompileReport report) {
  check_watch();
  if (device_names(options).size() > 1) return compile_ranks(std::move(program), options, std::move(report));
  Place place = find_place(options);
  if (place.has_passes) {
    check_can_compile_for(place.chip);
    run_shared_passes(*program, options, report);
  }
  if (place.reference) {
    if (place.has_passes) run_chip_passes(*program, context_of(place.chip, options), options, report);
    return make_reference_for(std::move(program), place, options, std::move(report));
  }
  auto source = source_of(*program, options);
  return make_at(place, options, [&](const Place& at) {
    CompileOptions decided = options;
    decided.compute_units = compute_units(at.runner);
    decide_by_tunings(*source, at, decided);
    std::unique_ptr<Program> whole = program ? std::move(program) : read_source(*source);
    Plan plan = make_plan(*whole, at.chip, *source, decided, report);
    whole.reset();
    Bytes image = build_image(plan, options, report);
    for (const Tensor& constant : source->constants) constant.data.check_file();
    return run_on(at.runner, {std::move(plan), std::move(image)}, {.source = source, .file = {}}, report);
  });
}

TuneReport tune_file(const std::filesystem::path& given, const CompileOptions& options) {
  const std::filesystem::path path = model_file(given);
  Place place = find_place(options);
  CompileOptions found = options;
  found.libraries = find_libraries(place, options);
  found.compute_units = compute_units(place.runner);
  return reading_files([&] {
    if (Bytes file = map_file(path); is_saved_program(file))
      return tune(SavedFile(std::move(file)).source(), place, found);
    std::unique_ptr<Program> program = import_file(path, options);
    CompileReport report;
    run_shared_passes(*program, options, report);
    auto source = source_of(*program, options);
    program.reset();
    return tune(*source, place, found);
  });
}

std::shared_ptr<Executable> compile_decided(std::shared_ptr<const onnx::Model> model, std::unique_ptr<Program> program,
                                            onnx::SizeDecisions decisions, const CompileOptions& options,
                                            CompileReport report) {
  auto made = compile_program(std::move(program), options, std::move(report));
  if (decisions.made.empty()) return made;
  return make_by_sizes(std::move(model), std::move(decisions), std::move(made), options);
}

static std::shared_ptr<Executable> compile_model(const std::function<onnx::Model()>& read,
                                                 const CompileOptions& options) {
  find_place(options);  // reports a missing device before any work
  Timer timer;
  auto model = std::make_shared<const onnx::Model>(read());
  onnx::SizeDecisions decisions;
  Imported imported = import_static(model, options, &decisions);
  CompileReport report{.phase_seconds = {{"import", timer.seconds()}}};
  if (imported.model) return make_specialising(std::move(imported), options, true, std::move(report));
  return compile_decided(std::move(model), std::move(imported.program), std::move(decisions), options,
                         std::move(report));
}

/// Compiles a model of a framework other than ONNX; null if the file is no such model.
static std::shared_ptr<Executable> compile_other(const Bytes& file, const ModelPlace& place,
                                                 const CompileOptions& options) {
  find_place(options);
  Timer timer;
  auto program = import_other(file, place, options);
  if (!program) return nullptr;
  return compile_program(std::move(program), options, {.phase_seconds = {{"import", timer.seconds()}}});
}

std::shared_ptr<Executable> compile_file(const std::filesystem::path& given, const CompileOptions& options) {
  Watch watch(options.deadline, options.stop);
  WatchScope scope(&watch);
  const std::filesystem::path path = model_file(given);
  return reading_files([&] {
    Bytes file = map_file(path);
    if (is_saved_program(file)) return load_saved(std::move(file), options, path.string());
    if (auto made = compile_other(file, place_of(path), options)) return made;
    onnx::ReadOptions limits{.max_nodes = options.max_nodes, .max_nesting = options.max_nesting};
    return compile_model([&] { return onnx::read_model(path, limits); }, options);
  });
}

std::shared_ptr<Executable> compile_bytes(Bytes model, const CompileOptions& options) {
  Watch watch(options.deadline, options.stop);
  WatchScope scope(&watch);
  return reading_files([&] {
    if (is_saved_program(model)) return load_saved(std::move(model), options, "the saved program");
    if (auto made = compile_other(model, {"the model", options.folder}, options)) return made;
    onnx::ReadOptions limits{
        .external_data_dir = options.folder, .max_nodes = options.max_nodes, .max_nesting = options.max_nesting};
    return compile_model([&] { return onnx::read_model(std::move(model), limits); }, options);
  });
}

std::shared_ptr<Executable> compile(Imported imported, const CompileOptions& options) {
  Watch watch(options.deadline, options.stop);
  WatchScope scope(&watch);
  if (!options.shapes.empty() || !options.symbols.empty() || !options.constants.empty()) {
    throw Error({.kind = ErrorKind::usage,
                 .code = "E502",
                 .what = "sizes and constants can be chosen when a model file is read, not for a program that is "
                         "built already"});
  }
  return reading_files([&] {
    if (imported.model) return make_specialising(std::move(imported), options, false, {});
    return compile_program(std::move(imported.program), options, {});
  });
}

std::shared_ptr<Executable> compile(std::unique_ptr<Program> program, const CompileOptions& options) {
  return compile(Imported{.program = std::move(program)}, options);
}

std::unique_ptr<Program> import_file(const std::filesystem::path& given, const CompileOptions& options) {
  const std::filesystem::path path = model_file(given);
  return reading_files([&] {
    Bytes file = map_file(path);
    if (is_saved_program(file)) return read_source(SavedFile(file).source());
    if (auto program = import_other(file, place_of(path), options)) return program;
    return import(onnx::read_model(path), options);
  });
}

/// Imports a model for callers that need a single program. If there are static inputs, imports the program for likely
/// values.
static Imported import_likely(Bytes file, const ModelPlace& place, const std::function<onnx::Model()>& read,
                              CompileOptions options) {
  if (is_saved_program(file)) return {.program = read_source(SavedFile(std::move(file)).source())};
  if (auto program = import_other(file, place, options)) return {.program = std::move(program)};
  if (!options.static_inputs) options.static_inputs = {"*"};
  return import_static(std::make_shared<const onnx::Model>(read()), options);
}

Imported import_any(const std::filesystem::path& given, const CompileOptions& options) {
  const std::filesystem::path path = model_file(given);
  return reading_files(
      [&] { return import_likely(map_file(path), place_of(path), [&] { return onnx::read_model(path); }, options); });
}

Imported import_any(Bytes model, const CompileOptions& options) {
  return reading_files([&] {
    return import_likely(
        model, {"the model", options.folder},
        [&] { return onnx::read_model(model, {.external_data_dir = options.folder}); }, options);
  });
}

}  // namespace weft
