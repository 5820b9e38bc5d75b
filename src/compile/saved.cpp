// SPDX-License-Identifier: Apache-2.0
// Loads saved programs: chooses the code that runs here, or compiles the program that the file contains.
#include "runtime/saved.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "base/error.h"
#include "base/knobs.h"
#include "base/log.h"
#include "compile/stages.h"
#include "ir/text.h"
#include "kernel_build/codegen_loader.h"
#include "ops/registry.h"

namespace weft {
namespace {

enum class Stage : uint8_t { always, compiling };

/// Appends the option's name to `late` if its stage is `compiling` and its value is not the default.
template <Stage stage, class T>
void find_late(const char* name, const T& value, std::string& late) {
  if constexpr (stage == Stage::compiling) {
    bool is_given;
    if constexpr (requires { value.empty(); }) is_given = !value.empty();
    else is_given = value != T();
    if (is_given) late += cat(late.empty() ? "" : ", ", name);
  }
}

/// Throws E502 for options that apply only when a model is compiled.
void refuse_late_options(const CompileOptions& options) {
  std::string late;
#define OPTION(kind, name, initial, api, stage, ...) find_late<Stage::stage>(#name, options.name, late);
#include "compile/options.def"
  if (late.empty()) return;
  throw Error({.kind = ErrorKind::usage,
               .code = "E502",
               .what = cat(late, " can be chosen when a model is compiled, not for a saved program")});
}

std::string names_of(const std::vector<Chip>& chips) {
  std::string names;
  for (const Chip& chip : chips) names += (names.empty() ? "" : "; ") + printable(to_string(chip));
  return names;
}

/// Returns the index of the chip with the greatest `reach` among those chips for which `here` can run code.
std::optional<size_t> best_for(const Chip& here, const std::vector<Chip>& chips) {
  std::optional<size_t> best;
  for (size_t i = 0; i < chips.size(); ++i) {
    if (runs_code_for(here, chips[i]) && (!best || reach(chips[i]) > reach(chips[*best]))) best = i;
  }
  return best;
}

/// Returns the device for a saved program; throws E172 for the reference. `auto` takes the CPU if the file has code for
/// the CPU but not for the GPU, to avoid a compilation.
Place place_for(const std::vector<Chip>& chips, const CompileOptions& options) {
  Place place = find_place(options);
  if (place.reference) {
    throw Error({.kind = ErrorKind::unsupported,
                 .code = "E172",
                 .what = cat("the saved program is for ", names_of(chips), ", not for device 'ref'"),
                 .hint = "the reference takes the model itself"});
  }
  if (options.device != "auto" || best_for(place.chip, chips)) return place;
  Place cpu = cpu_place(options);
  return best_for(cpu.chip, chips) ? cpu : place;
}

void check_can_recompile(const std::vector<Chip>& chips, const Chip& here, const CompileOptions& options) {
  if (options.recompile && !find_codegen_library().empty()) return;
  throw Error({.kind = ErrorKind::unsupported,
               .code = "E172",
               .what = cat("the saved program is for ", names_of(chips), "; what is here is ", here),
               .why = !options.recompile ? "compiling it again was not allowed"
                                         : "there is no libweft-codegen to compile it again",
               .hint = "compile the model again on this machine, or name this chip with --target"});
}

bool runs_parts_of(const Plan& plan) {
  return std::ranges::all_of(plan.parts,
                             [](const PlanPart& part) { return runs_code_for(host_chip(), part.plan->chip); });
}

std::shared_ptr<Executable> load_file(Bytes bytes, const CompileOptions& options) {
  refuse_late_options(options);
  auto begin = std::chrono::steady_clock::now();
  SavedFile file(bytes);
  Place place = place_for(file.chips(), options);
  std::optional<size_t> chosen;
  if (device_names(options).size() == 1) chosen = best_for(place.chip, file.chips());
  CompileReport report;
  if (chosen && !knobs().checked) {
    ChipProgram program = file.program(*chosen);
    report.kernels = static_cast<int64_t>(program.plan.kernels.size());
    std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    report.phase_seconds = {{"load", taken.count()}};
    Origin origin{.source = {}, .file = bytes};
    if (runs_parts_of(program.plan))
      return run_on(place.runner, std::move(program), std::move(origin), std::move(report));
  }
  check_can_recompile(file.chips(), place.chip, options);
  if (device_names(options).size() > 1)
    return compile_ranks(std::make_shared<const ProgramSource>(file.source()), options, std::move(report));
  check_can_compile_for(place.chip);
  log(LogLevel::note, "the saved program is for ", names_of(file.chips()), "; compiling it for ", place.chip);
  auto source = std::make_shared<const ProgramSource>(file.source());
  return make_at(place, options, [&](const Place& at) {
    CompileOptions decided = decided_by_tunings(at.chip, options);
    decided.compute_units = compute_units(at.runner);
    ChipProgram program = compile_source(*source, at.chip, decided, report);
    return run_on(at.runner, std::move(program), {.source = source, .file = {}}, report);
  });
}

Tensor stored_constant(const ProgramSource& source, std::string_view name) {
  size_t number = source.constants.size();
  auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error == std::errc() && end == name.data() + name.size() && number < source.constants.size())
    return source.constants[number];
  throw Error({.kind = ErrorKind::model, .code = "E191", .what = cat("there is no constant '", printable(name), "'")});
}

}  // namespace

std::unique_ptr<Program> read_source(const ProgramSource& source) {
  return parse_program(source.text, make_op, [&](std::string_view name) { return stored_constant(source, name); });
}

ChipProgram compile_source(const ProgramSource& source, const Chip& chip, const CompileOptions& options,
                           CompileReport& report) {
  std::unique_ptr<Program> program = read_source(source);
  Plan plan = make_plan(*program, chip, source, options, report);
  Bytes image = build_image(plan, options, report);
  return {std::move(plan), std::move(image)};
}

std::shared_ptr<Executable> load_saved(Bytes file, const CompileOptions& options, const std::string& name) {
  try {
    return load_file(std::move(file), options);
  } catch (Error& error) {
    error.set_where(printable(name));
    throw;
  }
}

CompileReport save(const Executable& executable, const std::filesystem::path& path,
                   std::span<const std::string> targets, const CompileOptions& options) {
  SavedProgram program = executable.saved();
  std::vector<Chip> chips;
  for (const std::string& target : targets) {
    for (const std::string& name : target_names(target)) chips.push_back(find_target(name));
  }
  CompileReport all;
  for (const Chip& chip : chips) {
    auto is_for_chip = [&](const ChipProgram& known) { return known.plan.chip == chip; };
    if (std::ranges::any_of(program.chips, is_for_chip)) continue;
    CompileReport report;
    program.chips.push_back(compile_source(*program.source, chip, decided_by_tunings(chip, options), report));
    all.kernels += report.kernels;
    all.kernels_compiled += report.kernels_compiled;
    all.kernels_from_cache += report.kernels_from_cache;
    all.kernels_from_pack += report.kernels_from_pack;
  }
  write_saved(path, program);
  return all;
}

}  // namespace weft
