// SPDX-License-Identifier: Apache-2.0
#include "base/plan.h"

#include <algorithm>

#include "base/text.h"

namespace weft {

std::span<const std::string_view> names(StepKind) {
  static constexpr std::string_view list[] = {"kernel", "sizes", "branch",   "jump",    "swap",
                                              "grow",   "host",  "cpu_part", "library", "collective"};
  return list;
}

std::span<const std::string_view> names(CollectiveFn) {
  static constexpr std::string_view list[] = {"sum", "gather"};
  return list;
}

namespace {

/// Every size of a call that may have symbols.
template <class Call, class Visit>
void for_each_size(Call& call, const Visit& visit) {
  auto* c = std::get_if<LibraryConvolution>(&call.work);
  if (!c) return;
  for (auto* size : {&c->batch, &c->groups, &c->channels_in, &c->channels_out, &c->pixel}) visit(*size);
  for (auto* sizes : {&c->in, &c->out, &c->kernel, &c->stride, &c->dilation, &c->pad}) {
    for (auto& size : *sizes) visit(size);
  }
}

}  // namespace

size_t LibraryCall::operands() const {
  const auto* c = std::get_if<LibraryConvolution>(&work);
  return size_t{3} + (c && c->has_bias) + (c && c->has_other);
}

bool LibraryCall::has_symbols() const {
  bool found = false;
  for_each_size(*this, [&](const Dim& size) { found |= !size.is_constant(); });
  return found;
}

LibraryCall LibraryCall::at(const std::function<int64_t(const Dim&)>& number) const {
  LibraryCall call = *this;
  call.is_open |= has_symbols();
  for_each_size(call, [&](Dim& size) { size = number(size); });
  return call;
}

std::string LibraryCall::text() const {
  std::string line = cat(library, is_open ? " open" : "");
  if (const auto* p = std::get_if<LibraryProduct>(&work)) {
    line += cat(" product ", p->type, " ", p->result);
    for (int64_t size : {p->batch, p->m, p->n, p->k, p->a_row, p->b_row, p->a_batch, p->b_batch})
      line += cat(" ", size);
  } else {
    const auto& c = std::get<LibraryConvolution>(work);
    line += cat(" convolution ", c.type, c.has_bias ? " bias" : "", c.has_other ? " other" : "",
                c.has_relu ? " relu" : "", " ", c.in.size(), " axes");
  }
  for_each_size(*this, [&](const Dim& size) { line += cat(" ", size); });
  return line;
}

bool is_led_by_host(const Plan& plan) {
  auto is_decided = [&](const SizeSetting& setting) {
    return setting.buffer >= 0 && plan.buffers[static_cast<size_t>(setting.buffer)].kind == BufferKind::input;
  };
  return !is_cpu(plan.chip.kind) && !std::ranges::all_of(plan.steps, [&](const PlanStep& step) {
    return step.kind == StepKind::kernel || step.kind == StepKind::library || step.kind == StepKind::collective ||
           (step.kind == StepKind::sizes && std::ranges::all_of(step.settings, is_decided));
  });
}

static DType type_of(const LibraryCall& call) {
  return std::visit([](const auto& work) { return work.type; }, call.work);
}

std::string step_name(const Plan& plan, const PlanStep& step) {
  if (step.kind == StepKind::kernel) return plan.kernels[static_cast<size_t>(step.kernel)].name;
  if (step.kind == StepKind::host) return cat("host_", names(step.host.fn)[static_cast<size_t>(step.host.fn)]);
  if (step.kind == StepKind::collective)
    return cat("ranks_", names(step.collective)[static_cast<size_t>(step.collective)]);
  if (step.kind == StepKind::library) return cat(step.call.library, "_", type_of(step.call));
  return std::string(names(step.kind)[static_cast<size_t>(step.kind)]);
}

}  // namespace weft
