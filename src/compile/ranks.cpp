// SPDX-License-Identifier: Apache-2.0
// Compiles a model for several devices: the pass `shard` makes one program for each device from the same source.
#include <algorithm>

#include "base/error.h"
#include "compile/stages.h"
#include "runtime/ranks.h"
#include "targets/gpu/communicators.h"

namespace weft {
namespace {

/// Returns the collective steps of a plan as text, to compare them among the ranks.
std::string meetings(const Plan& plan) {
  std::string text;
  for (const PlanStep& step : plan.steps) {
    const auto* exchange = step.as<CollectiveStep>();
    if (!exchange) continue;
    DType type = plan.buffers[step.buffers[0]].shape.dtype;
    text += cat(enum_name(exchange->fn), " ", exchange->elements, " ", type, "; ");
  }
  return text;
}

std::vector<bool> are_split(const std::vector<Port>& ports, const ShardReport& report,
                            std::string DonationRequest::* name) {
  std::vector<bool> split;
  for (const Port& port : ports) split.push_back(std::ranges::find(report.kept, port.name, name) != report.kept.end());
  return split;
}

class RankCompiler {
 public:
  RankCompiler(std::shared_ptr<const ProgramSource> source, const CompileOptions& options, std::vector<Place> places)
      : source_(std::move(source)), options_(options), places_(std::move(places)) {
    options_.tune = {};
    for (const Place& place : places_) {
      if (place.runner.gpu) devices_.push_back(place.runner.gpu);
    }
    are_connected_ = !devices_.empty() && gpu::connect(devices_);
  }

  RankPrograms run(CompileReport report) {
    RankPrograms programs;
    for (size_t r = 0; r < places_.size(); ++r) programs.ranks.push_back(compile_rank(r, std::exchange(report, {})));
    programs.split_inputs = are_split(programs.ranks[0]->inputs(), first_, &DonationRequest::input);
    programs.split_outputs = are_split(programs.ranks[0]->outputs(), first_, &DonationRequest::output);
    programs.devices = devices_, programs.are_connected = are_connected_;
    programs.notes = std::move(first_.notes);
    return programs;
  }

 private:
  std::shared_ptr<Executable> compile_rank(size_t rank, CompileReport report) {
    const Place& place = places_[rank];
    ShardReport sharded;
    CompileOptions decided = decided_by_tunings(place.chip, options_);
    decided.compute_units = compute_units(place.runner);
    decided.ranks = {.count = static_cast<int64_t>(places_.size()),
                     .number = static_cast<int64_t>(rank),
                     .donations = source_->donations,
                     .report = &sharded,
                     .are_connected = are_connected_};
    std::unique_ptr<Program> program = read_source(*source_);
    Plan plan = make_plan(*program, place.chip, *source_, decided, report);
    program.reset();
    if (rank == 0) first_ = sharded, meetings_ = meetings(plan);
    check(meetings_ == meetings(plan), "all ranks meet at the same steps");
    Bytes image = build_image(plan, options_, report);
    for (const Tensor& constant : source_->constants) constant.data.check_file();
    return run_on(runner_of(place), {std::move(plan), std::move(image)}, {}, std::move(report));
  }

  /// Returns the runner of a rank. On CPUs each rank gets an equal share of the threads.
  Runner runner_of(const Place& place) const {
    Runner runner = place.runner;
    auto ranks = static_cast<int>(places_.size());
    if (!runner.gpu) runner.host.threads = std::max(1, runner.host.threads / ranks);
    return runner;
  }

  std::shared_ptr<const ProgramSource> source_;
  CompileOptions options_;
  std::vector<Place> places_;
  std::vector<std::shared_ptr<gpu::Device>> devices_;  // empty on CPUs
  bool are_connected_ = false;
  ShardReport first_;
  std::string meetings_;
};

}  // namespace

std::shared_ptr<Executable> compile_ranks(std::unique_ptr<Program> program, const CompileOptions& options,
                                          CompileReport report) {
  run_shared_passes(*program, options, report);
  auto source = source_of(*program, options);
  program.reset();
  return compile_ranks(std::move(source), options, std::move(report));
}

std::shared_ptr<Executable> compile_ranks(std::shared_ptr<const ProgramSource> source, const CompileOptions& options,
                                          CompileReport report) {
  if (options.tune > 0) {
    throw Error({.kind = ErrorKind::usage,
                 .code = "E502",
                 .what = "a program that is split over several devices is not tuned",
                 .hint = "tune the model on one of them: what is kept is used"});
  }
  std::vector<Place> places = find_places(options);
  if (places[0].runner.gpu) gpu::need_collectives(*places[0].runner.gpu);
  check_can_compile_for(places[0].chip);
  return make_ranked(RankCompiler(std::move(source), options, std::move(places)).run(std::move(report)));
}

}  // namespace weft
