// SPDX-License-Identifier: Apache-2.0
#include "runtime/sharing.h"

#include <algorithm>

#include "base/error.h"

namespace weft {

bool overlap(std::span<const std::byte> a, std::span<const std::byte> b) {
  return !a.empty() && !b.empty() && a.data() < b.data() + b.size() && b.data() < a.data() + a.size();
}

/// True if a step copies the whole input of `pair` to a part of the output that no other step writes.
static bool is_moved_apart(const Plan& plan, const InPlace& pair) {
  auto is_buffer = [&](BufferId id, BufferKind kind, int index) {
    const PlanBuffer& buffer = plan.buffers[id];
    return buffer.kind == kind && buffer.index == index;
  };
  return std::ranges::any_of(plan.steps, [&](const PlanStep& step) {
    return step.moves_apart && is_buffer(step.moves, BufferKind::input, pair.input) &&
           is_buffer(step.outputs[0], BufferKind::output, pair.output);
  });
}

std::vector<size_t> inputs_in_the_way(const Plan& plan, std::span<const Tensor> inputs, size_t index,
                                      std::span<const std::byte> memory) {
  std::vector<size_t> found;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (overlap(inputs[i].data, memory)) found.push_back(i);
  }
  if (found.size() != 1 || inputs[found[0]].data.data() != memory.data()) return found;
  InPlace pair{static_cast<int>(found[0]), static_cast<int>(index)};
  bool may_share = std::ranges::find(plan.in_place, pair) != plan.in_place.end();
  bool fits = inputs[found[0]].data.size() == memory.size() || (may_share && is_moved_apart(plan, pair));
  return may_share && fits ? std::vector<size_t>() : found;
}

void refuse_overlap(const Plan& plan, std::span<const Tensor> outputs, size_t index) {
  for (size_t other = 0; other < index; ++other) {
    if (!overlap(outputs[other].data, outputs[index].data)) continue;
    throw Error({.kind = ErrorKind::usage,
                 .code = "E313",
                 .what = cat("the memory for output '", printable(plan.outputs[index].name), "' overlaps that of '",
                             printable(plan.outputs[other].name), "'")});
  }
}

const Tensor* donated_input(const Plan& plan, std::span<const Tensor> given, size_t index, size_t bytes) {
  auto found = std::ranges::find(plan.donations, static_cast<int>(index), &Donation::output);
  if (found == plan.donations.end() || !found->why_not.empty()) return nullptr;
  int input = found->input;
  if (input >= std::ssize(given) || !given[input].data.data()) return nullptr;
  size_t room = given[input].data.size();
  bool will_do = room == bytes || (room > bytes && is_moved_apart(plan, {found->input, found->output}));
  return will_do ? &given[input] : nullptr;
}

std::vector<std::string> donation_notes(const Plan& plan) {
  std::vector<std::string> notes;
  for (const Donation& d : plan.donations) {
    std::string input = printable(plan.inputs[d.input].name);
    std::string output = printable(plan.outputs[d.output].name);
    notes.push_back(d.why_not.empty()
                        ? cat("output '", output, "' is written in the place of input '", input, "'")
                        : cat("output '", output, "' cannot take the place of input '", input, "': ", d.why_not));
  }
  return notes;
}

}  // namespace weft
