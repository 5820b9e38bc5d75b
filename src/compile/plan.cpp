// SPDX-License-Identifier: Apache-2.0
// Turns an imported program into the plan for one chip: passes, lowering, memory.
#include <algorithm>
#include <map>

#include "base/chip_features.h"
#include "base/log.h"
#include "compile/stages.h"
#include "compile/timer.h"
#include "ir/text.h"
#include "lower/cpu_parts.h"
#include "lower/lower.h"
#include "passes/fold_constants.h"
#include "passes/passes.h"
#include "plan/in_place.h"
#include "plan/lifetimes.h"
#include "runtime/saved.h"
#include "runtime/sharing.h"

namespace weft {
namespace {

void add(CompileReport& report, Pipeline& run) {
  report.phase_seconds.insert(report.phase_seconds.end(), run.seconds().begin(), run.seconds().end());
  for (const auto& [pass, count] : run.changes()) report.pass_changes[std::string(pass)] += count;
}

DType type_of(Precision precision) {
  return precision == Precision::f32 ? DType::f32 : precision == Precision::bf16 ? DType::bf16 : DType::f16;
}

size_t count_of(PassGroup group) { return std::ranges::count(pass_list(), group, &PassInfo::group); }

/// Runs the shared passes up to `stage`. Returns true if there is a shared pass of that name.
bool run_shared(Program& program, const CompileOptions& options, std::string_view stage, CompileReport& report) {
  Pipeline run(program, {.dump_directory = options.dump, .stop_after = stage});
  FoldingScope folding(program);
  run_passes(run, PassGroup::shared);
  add(report, run);
  return run.stopped();
}

bool run_for_chip(Program& program, const PassContext& context, const CompileOptions& options, std::string_view stage,
                  CompileReport& report) {
  Pipeline run(program,
               {.dump_directory = options.dump, .stop_after = stage, .first_number = count_of(PassGroup::shared) + 1},
               context);
  run_passes(run, PassGroup::for_chip);
  add(report, run);
  return run.stopped();
}

}  // namespace

PassContext context_of(const Chip& chip, const CompileOptions& options) {
  return {.chip = chip, .precision = type_of(options.precision), .keep_f32 = options.keep_f32};
}

void run_shared_passes(Program& program, const CompileOptions& options, CompileReport& report) {
  run_shared(program, options, {}, report);
}

void run_chip_passes(Program& program, const PassContext& context, const CompileOptions& options,
                     CompileReport& report) {
  run_for_chip(program, context, options, {}, report);
}

std::unique_ptr<Program> optimised(std::unique_ptr<Program> program, const CompileOptions& options,
                                   std::string_view stage) {
  CompileReport report;
  if (run_shared(*program, options, stage, report) || stage.empty()) return program;
  Place place = find_place(options);
  PassContext context = context_of(place.chip, options);
  if (stage != "final") find_pass(stage, context);  // throws E503 if there is no such pass
  if (place.has_passes) run_for_chip(*program, context, options, stage, report);
  return program;
}

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
  source.donations = options.donate;
  return std::make_shared<const ProgramSource>(std::move(source));
}

/// Plans the parts of a GPU's program that run on the CPU. Products stay f32, because no part has a large product.
static Table<PlanPart> plan_parts(Program& program, const CompileOptions& options) {
  Table<PlanPart> parts;
  for (TakenPart& part : take_cpu_parts(program)) {
    check_can_compile_for(host_chip());
    CompileReport report;
    Plan plan = make_plan(*part.program, host_chip(), {}, {.threads = options.threads}, report);
    parts.push_back({.plan = std::make_shared<Plan>(std::move(plan)), .names = std::move(part.names)});
  }
  return parts;
}

Plan make_plan(Program& program, const Chip& chip, const ProgramSource& asked, const CompileOptions& options,
               CompileReport& report) {
  Table<PlanPart> parts;
  if (!is_cpu(chip.kind)) parts = plan_parts(program, options);
  PassContext context{.chip = chip, .precision = asked.precision, .keep_f32 = asked.keep_f32, .ranks = options.ranks};
  run_chip_passes(program, context, options, report);
  LowerOptions lowering;
  bool narrows_memory = !is_cpu(chip.kind) || multiplies(asked.precision, chip);
  if (narrows_memory) lowering = {.storage = asked.precision, .keep_f32 = asked.keep_f32};
  lowering.choose = options.choose;
  lowering.libraries = options.libraries;
  lowering.are_connected = options.ranks.are_connected;
  lowering.compute_units = options.compute_units;
  Timer timer;
  Plan plan = lower(program, chip, lowering);
  plan.parts = std::move(parts);
  plan_lifetimes(plan);
  plan_in_place(plan, options.ranks.report ? options.ranks.report->kept : asked.donations);
  share_working_memory(plan);
  for (const std::string& note : donation_notes(plan)) log(LogLevel::info, note);
  report.phase_seconds.emplace_back("lower", timer.seconds());
  if (debug_enabled(2, "compile"))
    log_text(LogLevel::debug, cat("planned ", plan.steps.size(), " steps for ", chip.arch));
  return plan;
}

}  // namespace weft
