// SPDX-License-Identifier: Apache-2.0
#include "plan/in_place.h"

#include <algorithm>

#include "base/error.h"

namespace weft {
namespace {

BufferId find_buffer(const Plan& plan, BufferKind kind, int index) {
  auto is_it = [&](const PlanBuffer& b) { return b.kind == kind && b.index == index; };
  auto found = std::ranges::find_if(plan.buffers, is_it);
  return found == plan.buffers.end() ? BufferId() : BufferId(found - plan.buffers.begin());
}

bool contains(const std::vector<BufferId>& list, BufferId item) { return std::ranges::find(list, item) != list.end(); }

/// Returns why `output` cannot use the memory of `input` in step `at`, which writes `output`; empty if it can.
std::string why_not_at(const Plan& plan, BufferId input, BufferId output, StepId at) {
  const PlanBuffer& from = plan.buffers[input];
  const PlanBuffer& to = plan.buffers[output];
  const PlanStep& step = plan.steps[at];
  bool is_move = step.moves == input;
  if (is_move && step.moves_apart) return {};
  bool may_be_equal = known_equal(from.bytes, to.bytes) || (is_move && !known_different(from.bytes, to.bytes));
  if (!may_be_equal) return cat("it has ", from.bytes, " bytes, the output ", to.bytes);
  StepId begins = to.first_step, last = from.last_step, changed = at;
  if (begins != at) return cat(plan.steps[begins].source, " writes the output before the input is moved there");
  while (is_move && ++changed < plan.steps.end_id() && !contains(plan.steps[changed].outputs, output)) {
  }
  bool is_read_in_time = is_move ? last < changed : last == at;
  return is_read_in_time ? "" : cat(plan.steps[last].source, " still reads it when the output is written");
}

/// Returns why `output` cannot use the memory of `input` in any step that could compute it in place; empty if it can.
std::string why_not(const Plan& plan, BufferId input, BufferId output) {
  std::string why = "the output is not computed from it elementwise in place";
  const PlanBuffer& to = plan.buffers[output];
  for (StepId at = std::max(to.first_step, StepId(0)); at <= to.last_step; ++at) {
    const PlanStep& step = plan.steps[at];
    if (!contains(step.outputs, output) || (step.moves != input && !contains(step.in_place, input))) continue;
    why = why_not_at(plan, input, output, at);
    if (why.empty()) break;
  }
  return why;
}

int find_port(const std::vector<Port>& ports, const std::string& name, const char* what) {
  auto found = std::ranges::find(ports, name, &Port::name);
  if (found != ports.end()) return static_cast<int>(found - ports.begin());
  std::vector<std::string> names;
  for (const Port& port : ports) names.push_back(port.name);
  throw Error({.kind = ErrorKind::usage,
               .code = "E310",
               .what = cat("there is no ", what, " '", printable(name), "' for a donation"),
               .hint = cat("the ", what, "s are ", names)});
}

Donation answer(const Plan& plan, const DonationRequest& request) {
  Donation donation{find_port(plan.inputs, request.input, "input"), find_port(plan.outputs, request.output, "output")};
  for (const Donation& other : plan.donations) {
    if (other.input != donation.input && other.output != donation.output) continue;
    throw Error(
        {.kind = ErrorKind::usage,
         .code = "E310",
         .what = cat("'", printable(request.input), "' or '", printable(request.output), "' is donated twice")});
  }
  BufferId input = find_buffer(plan, BufferKind::input, donation.input);
  BufferId output = find_buffer(plan, BufferKind::output, donation.output);
  donation.why_not = input && output ? why_not(plan, input, output) : "it is not used";
  return donation;
}

}  // namespace

void plan_in_place(Plan& plan, std::span<const DonationRequest> requests) {
  for (const PlanStep& step : plan.steps) {
    std::vector<BufferId> candidates = step.in_place;
    if (step.moves) candidates.push_back(step.moves);
    for (BufferId input : candidates) {
      const PlanBuffer& from = plan.buffers[input];
      const PlanBuffer& to = plan.buffers[step.outputs[0]];
      bool are_callers = from.kind == BufferKind::input && to.kind == BufferKind::output;
      InPlace pair{from.index, to.index};
      if (!are_callers || std::ranges::find(plan.in_place, pair) != plan.in_place.end()) continue;
      if (why_not(plan, input, step.outputs[0]).empty()) plan.in_place.push_back(pair);
    }
  }
  for (const DonationRequest& request : requests) {
    plan.donations.push_back(answer(plan, request));
    const Donation& donation = plan.donations.back();
    plan.inputs[donation.input].is_donated = donation.why_not.empty();
  }
}

void share_working_memory(Plan& plan) {
  PerBuffer<bool> moves_about(plan.buffers.size());
  for (const PlanStep& step : plan.steps) {
    for (BufferId id : step.buffers) {
      if (!step.is<LaunchStep>()) moves_about[id] = true;
    }
  }
  for (StepId at : plan.steps.ids()) {
    const PlanStep& step = plan.steps[at];
    if (step.outputs.size() != 1) continue;
    std::vector<BufferId> candidates = step.in_place;
    if (step.moves) candidates.push_back(step.moves);
    PlanBuffer& to = plan.buffers[step.outputs[0]];
    for (BufferId id : candidates) {
      const PlanBuffer& from = plan.buffers[id];
      bool ends_here = from.first_step < from.last_step && from.last_step == at && to.first_step == at;
      bool may_share = from.kind == BufferKind::arena && to.kind == BufferKind::arena && ends_here &&
                       known_equal(from.bytes, to.bytes) && !moves_about[id] && !moves_about[step.outputs[0]];
      if (may_share && !to.shares) to.shares = id;
    }
  }
}

}  // namespace weft
