// SPDX-License-Identifier: Apache-2.0
#include "plan/lifetimes.h"

#include <algorithm>
#include <set>
#include <string>

namespace weft {
namespace {

std::set<std::string> run_time_symbols(const Plan& plan) {
  std::set<std::string> names;
  for (const PlanStep& step : plan.steps) {
    for (const SizeSetting& setting : step.settings()) names.insert(setting.symbol.name);
  }
  return names;
}

/// Makes working buffers dynamic if only the run knows their size. Changes nothing in plans for captured GPU graphs,
/// because all sizes are known before the graph is replayed.
void mark_dynamic(Plan& plan) {
  std::set<std::string> names = run_time_symbols(plan);
  if (names.empty() || (!is_cpu(plan.chip.kind) && !is_led_by_host(plan))) return;
  for (PlanBuffer& buffer : plan.buffers) {
    if (buffer.kind != BufferKind::arena) continue;
    buffer.bytes.visit_symbols([&](const Symbol& symbol) {
      if (names.contains(symbol.name)) buffer.kind = BufferKind::dynamic;
    });
  }
}

/// If the buffers of a swap have different kinds or sizes, makes both dynamic.
void mark_swapped(Plan& plan) {
  for (bool changed = true; changed;) {
    changed = false;
    for (const PlanStep& step : plan.steps) {
      if (!step.is<SwapStep>()) continue;
      for (size_t i = 0; i + 1 < step.buffers.size(); i += 2) {
        PlanBuffer &a = plan.buffers[step.buffers[i]], &b = plan.buffers[step.buffers[i + 1]];
        if (a.kind == b.kind && (a.kind != BufferKind::arena || a.bytes == b.bytes)) continue;
        a.kind = b.kind = BufferKind::dynamic;
        changed = true;
      }
    }
  }
}

void note_uses(Plan& plan) {
  auto use = [&](BufferId id, StepId step) {
    if (!id) return;
    PlanBuffer& buffer = plan.buffers[id];
    bool is_there = buffer.kind == BufferKind::input;  // in use from step 0, so loops extend its lifetime too
    buffer.first_step = is_there ? StepId(0) : std::min(buffer.first_step, step);
    buffer.last_step = std::max(buffer.last_step, step);
  };
  for (StepId step : plan.steps.ids()) {
    for (BufferId id : plan.steps[step].buffers) use(id, step);
    for (const SizeSetting& setting : plan.steps[step].settings()) use(setting.buffer, step);
  }
}

/// If a buffer is written before a loop and read in the loop, extends the buffer's lifetime to the step after the jump
/// back. Jumps are in the order of the loops' ends, so inner loops extend lifetimes before outer loops.
bool stretch_over_loops(Plan& plan) {
  bool changed = false;
  for (StepId step : plan.steps.ids()) {
    const auto* jump = plan.steps[step].as<JumpStep>();
    if (!jump || jump->target > step) continue;
    StepId left = step + 1;
    for (PlanBuffer& buffer : plan.buffers) {
      if (buffer.first_step >= jump->target || buffer.last_step < jump->target || buffer.last_step >= left) continue;
      buffer.last_step = left;
      changed = true;
    }
  }
  return changed;
}

/// Gives both buffers of a swap the same lifetime.
bool join_swapped(Plan& plan) {
  bool changed = false;
  for (const PlanStep& step : plan.steps) {
    if (!step.is<SwapStep>()) continue;
    for (size_t i = 0; i + 1 < step.buffers.size(); i += 2) {
      PlanBuffer &a = plan.buffers[step.buffers[i]], &b = plan.buffers[step.buffers[i + 1]];
      if (a.first_step == b.first_step && a.last_step == b.last_step) continue;
      a.first_step = b.first_step = std::min(a.first_step, b.first_step);
      a.last_step = b.last_step = std::max(a.last_step, b.last_step);
      changed = true;
    }
  }
  return changed;
}

}  // namespace

void plan_lifetimes(Plan& plan) {
  mark_dynamic(plan);
  mark_swapped(plan);
  for (PlanBuffer& buffer : plan.buffers) {
    buffer.first_step = plan.steps.end_id();
    buffer.last_step = {};
  }
  note_uses(plan);
  for (bool changed = true; changed;) {
    changed = stretch_over_loops(plan);
    changed |= join_swapped(plan);
  }
}

}  // namespace weft
