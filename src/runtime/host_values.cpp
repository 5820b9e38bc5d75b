// SPDX-License-Identifier: Apache-2.0
#include "runtime/host_values.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "base/error.h"
#include "host/run.h"
#include "runtime/memory_limit.h"

namespace weft {
namespace {

/// Copies `count` string numbers (i64) from memory.
std::vector<int64_t> codes_at(const std::byte* memory, int64_t count) {
  std::vector<int64_t> codes(count);
  if (count > 0) std::memcpy(codes.data(), memory, codes.size() * sizeof(int64_t));
  return codes;
}

bool holds_container(const Plan& plan, BufferId buffer) {
  const PlanBuffer& b = plan.buffers[buffer];
  if (b.kind == BufferKind::input) return !plan.inputs[b.index].type.is_tensor();
  if (b.kind == BufferKind::output) return !plan.outputs[b.index].type.is_tensor();
  return b.kind == BufferKind::value;
}

std::span<const BufferId> inputs_of(const PlanStep& step) {
  return std::span(step.buffers).first(step.buffers.size() - step.outputs.size());
}

/// True for functions that may return an operand, or part of it, without a copy.
bool passes_on(HostFn fn) {
  return fn == HostFn::same || fn == HostFn::insert || fn == HostFn::erase || fn == HostFn::collect ||
         fn == HostFn::item;
}

/// True if, on some path from step `from`, a host step reads the buffer's present contents or the run returns them.
bool is_read_from(const Plan& plan, StepId from, BufferId buffer) {
  auto contains = [](std::span<const BufferId> ids, BufferId id) { return std::ranges::find(ids, id) != ids.end(); };
  std::vector<std::pair<StepId, BufferId>> open = {{from, buffer}};
  std::set<std::pair<StepId, BufferId>> seen;
  while (!open.empty()) {
    auto [at, id] = open.back();
    open.pop_back();
    const PlanBuffer& holder = plan.buffers[id];
    if (at == plan.steps.end_id() && holder.kind == BufferKind::output) return true;
    bool is_over = holder.kind != BufferKind::output && at > holder.last_step;
    if (at == plan.steps.end_id() || is_over) continue;
    const PlanStep& step = plan.steps[at];
    const StepId* target = step.target();
    if (target && !seen.insert({at, id}).second) continue;
    if (step.is<HostStep>() && contains(inputs_of(step), id)) return true;
    if (contains(step.outputs, id)) continue;
    for (size_t k = 0; step.is<SwapStep>() && k < step.buffers.size(); ++k) {
      if (step.buffers[k] != id) continue;
      id = step.buffers[k ^ 1];
      break;
    }
    if (target) open.emplace_back(*target, id);
    if (!step.is<JumpStep>()) open.emplace_back(at + 1, id);
  }
  return false;
}

}  // namespace

PerStep<std::vector<bool>> last_container_reads(const Plan& plan) {
  PerStep<std::vector<bool>> reads;
  if (std::ranges::none_of(plan.steps, [](const PlanStep& s) { return s.is<HostStep>(); })) return reads;
  reads.resize(plan.steps.size());
  for (StepId i : plan.steps.ids()) {
    const PlanStep& step = plan.steps[i];
    const auto* host = step.as<HostStep>();
    if (!host) continue;
    auto operands = inputs_of(step);
    for (size_t k = 0; k < operands.size(); ++k) {
      bool is_again = std::ranges::find(operands.subspan(k + 1), operands[k]) != operands.end();
      bool is_free = holds_container(plan, operands[k]) && !is_again;
      reads[i].push_back(is_free && passes_on(host->call.fn) && !is_read_from(plan, i + 1, operands[k]));
    }
  }
  return reads;
}

bool HostValues::is_container(BufferId buffer) const { return holds_container(plan_, buffer); }

std::byte* HostValues::encode(BufferId buffer, const Tensor& input) {
  codes_[buffer] = strings_.encode(*input.strings);
  return reinterpret_cast<std::byte*>(codes_[buffer].data());
}

std::byte* HostValues::room(BufferId buffer, size_t bytes) {
  codes_[buffer].resize(std::max<size_t>(bytes / sizeof(int64_t), 1));
  return reinterpret_cast<std::byte*>(codes_[buffer].data());
}

Tensor HostValues::decode(std::vector<int64_t> dims, const std::byte* codes) const {
  int64_t count = element_count(dims);
  return strings_.decode(std::move(dims), codes_at(codes, count));
}

Tensor HostValues::operand(BufferId buffer, bool is_last, std::vector<int64_t> dims, const std::byte* memory) {
  if (is_container(buffer)) return is_last ? std::exchange(containers_[buffer], {}) : containers_[buffer];
  if (is_text(buffer)) return decode(std::move(dims), memory);
  DType type = plan_.buffers[buffer].shape.dtype;
  MutableTensor copy = allocate_tensor(type, std::move(dims));  // a copy, because a container may keep the tensor
  if (!copy.tensor.data.empty()) std::memcpy(copy.data, memory, copy.tensor.data.size());
  return copy.tensor;
}

void HostValues::store(BufferId buffer, const std::vector<int64_t>& dims, Tensor result, std::byte* memory) {
  if (is_container(buffer)) {
    check_container_memory(result, memory_limit_);
    containers_[buffer] = std::move(result);
    return;
  }
  check(result.is_tensor() && result.dims == dims && result.dtype == plan_.buffers[buffer].shape.dtype,
        "the host gives what the plan says");
  if (result.dtype != DType::string) {
    if (!result.data.empty()) std::memcpy(memory, result.data.data(), result.data.size());
    return;
  }
  std::vector<int64_t> codes = strings_.encode(*result.strings);
  if (!codes.empty()) std::memcpy(memory, codes.data(), codes.size() * sizeof(int64_t));
}

void HostValues::run(StepId id, std::span<const int64_t> sizes, const PerBuffer<std::byte*>& memory) {
  const PlanStep& step = plan_.steps[id];
  auto next_dims = [&] {
    auto dims = sizes.subspan(1, sizes[0]);
    sizes = sizes.subspan(1 + dims.size());
    return std::vector<int64_t>(dims.begin(), dims.end());
  };
  std::vector<Tensor> operands;
  size_t inputs = step.buffers.size() - step.outputs.size();
  for (size_t i = 0; i < inputs; ++i) {
    BufferId buffer = step.buffers[i];
    operands.push_back(operand(buffer, last_reads_[id][i], next_dims(), memory[buffer]));
  }
  try {
    std::vector<Tensor> results = run_host(step.as<HostStep>()->call, std::move(operands));
    check(results.size() == step.outputs.size(), "the host gives as many values as the plan says");
    for (size_t k = 0; k < results.size(); ++k)
      store(step.outputs[k], next_dims(), std::move(results[k]), memory[step.outputs[k]]);
  } catch (Error& error) {
    error.set_where(step.source);
    throw;
  }
}

}  // namespace weft
