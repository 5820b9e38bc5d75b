// SPDX-License-Identifier: Apache-2.0
#include "runtime/buckets.h"

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "base/random.h"

namespace weft {

static int64_t round_up(int64_t value, int64_t most) {
  if (value <= 4) return value;
  auto power = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(value - 1)));  // power < value <= 2 * power
  int64_t step = std::max<int64_t>(power / 4, 1);
  return std::min((value + step - 1) / step * step, most);
}

/// Returns the larger of two values of `dim`: at the run's sizes, and at the bucket's bounds. The value at the bounds
/// may be undefined (a division by zero, for example); then returns the value at the run's sizes.
static int64_t at_bound(const Dim& dim, const SymbolValues& values, const SymbolValues& bound) {
  int64_t now = values.evaluate(dim);
  try {
    return std::max(now, bound.evaluate(dim));
  } catch (const Error&) {
    return now;
  }
}

SymbolValues bucket_of(const SymbolValues& values, const Plan& plan) {
  SymbolValues bound = values;
  if (bound.find(std::string(run_seed))) bound.set(std::string(run_seed), 0);  // all seeds share a bucket
  auto round = [&](const Symbol& symbol) {
    if (const int64_t* value = values.find(symbol.name)) bound.set(symbol.name, round_up(*value, symbol.max));
  };
  for (const Port& port : plan.inputs) {
    for (const Dim& dim : port.type.shape.dims) dim.visit_symbols(round);
  }
  for (const PlanStep& step : plan.steps) {
    for (const SizeSetting& setting : step.settings()) round(setting.symbol);
  }
  return bound;
}

bool BucketPlan::holds(const PerBuffer<int64_t>& wanted_bytes, const PerStep<int64_t>& wanted_work) const {
  return std::ranges::equal(wanted_bytes, bytes, std::less_equal{}) &&
         std::ranges::equal(wanted_work, work, std::less_equal{});
}

PerBuffer<int64_t> buffer_bytes(const Plan& plan, const SymbolValues& values) {
  PerBuffer<int64_t> bytes;
  bytes.reserve(plan.buffers.size());
  for (const PlanBuffer& buffer : plan.buffers) bytes.push_back(values.evaluate(buffer.bytes));
  return bytes;
}

PerStep<int64_t> step_work(const Plan& plan, const SymbolValues& values) {
  PerStep<int64_t> work;
  work.reserve(plan.steps.size());
  for (const PlanStep& step : plan.steps) {
    const auto* launch = step.as<LaunchStep>();
    work.push_back(!launch || launch->variants.empty() ? 0 : values.evaluate(launch->work));
  }
  return work;
}

DeviceLayout place_on_device(const Plan& plan, const PerBuffer<int64_t>& bytes) {
  constexpr int64_t alignment = 256;
  std::vector<ArenaRequest> requests;
  std::vector<BufferId> owners;
  for (BufferId i : plan.buffers.ids()) {
    const PlanBuffer& buffer = plan.buffers[i];
    bool is_arena = buffer.kind == BufferKind::arena && buffer.last_step;
    bool is_outer = buffer.kind == BufferKind::input || buffer.kind == BufferKind::output;
    if (!is_arena && !is_outer) continue;
    int64_t room = (std::max<int64_t>(bytes[i], 1) + alignment - 1) / alignment * alignment;
    requests.push_back(
        {room, is_outer ? StepId(0) : buffer.first_step, is_outer ? plan.steps.end_id() : buffer.last_step});
    owners.push_back(i);
  }
  ArenaLayout placed = place(requests);
  DeviceLayout layout{.offsets = PerBuffer<int64_t>(plan.buffers.size()), .bytes = placed.bytes};
  for (size_t i = 0; i < owners.size(); ++i) layout.offsets[owners[i]] = placed.offsets[i];
  return layout;
}

BucketPlan plan_bucket(const Plan& plan, const SymbolValues& values, const SymbolValues& bound) {
  BucketPlan bucket;
  for (const PlanBuffer& buffer : plan.buffers) bucket.bytes.push_back(at_bound(buffer.bytes, values, bound));
  DeviceLayout layout = place_on_device(plan, bucket.bytes);
  bucket.offsets = std::move(layout.offsets);
  bucket.arena_bytes = layout.bytes;
  for (const PlanStep& step : plan.steps) {
    static const LaunchStep none;
    const LaunchStep& launch = step.is<LaunchStep>() ? launch_of(step) : none;
    int64_t work = launch.variants.empty() ? 0 : at_bound(launch.work, values, bound);
    bucket.work.push_back(work);
    VariantId chosen = variant_for(launch, work);
    const Dim& blocks = chosen ? launch.variants[chosen].blocks : launch.blocks;
    bucket.variants.push_back(chosen);
    bucket.blocks.push_back(std::max<int64_t>(at_bound(blocks, values, bound), 0));
  }
  return bucket;
}

}  // namespace weft
