// SPDX-License-Identifier: Apache-2.0
#include "lower/gpu/constant_sizes.h"

#include <map>

#include "base/hash.h"
#include "base/text.h"

namespace weft {
namespace {

class Versions {
 public:
  explicit Versions(Plan& plan) : plan_(plan) {
    for (KernelId id : plan_.kernels.ids()) ids_[plan_.kernels[id].name] = id;
  }

  void run() {
    for (PlanStep& step : plan_.steps) {
      auto* launch = step.as<LaunchStep>();
      if (!launch || has_few_registers(step)) continue;
      launch->kernel = version(launch->kernel, step.sizes);
      for (StepVariant& variant : launch->variants) variant.kernel = version(variant.kernel, variant.sizes);
    }
    drop_unused_kernels();
  }

 private:
  /// True for attention_gpu with a mask and ranges of keys. With literal strides LLVM computes more addresses before the
  /// loops, and some AMD chips then spill a register.
  bool has_few_registers(const PlanStep& step) const {
    constexpr size_t operands = 4;  // q, k, v and the result
    const PlanKernel& kernel = plan_.kernels[launch_of(step).kernel];
    return kernel.code.starts_with("#include \"attention_gpu.h\"") && step.buffers.size() > operands + 1;
  }

  /// Returns the version of kernel `id` for these sizes; the kernel itself if no size is a constant, or if there are too
  /// many versions.
  KernelId version(KernelId id, const std::vector<SizeId>& sizes) {
    constexpr int most_versions = 256;
    const PlanKernel& kernel = plan_.kernels[id];
    std::string head = cat("WEFT_KERNEL_AHEAD(", kernel.name, ",");
    size_t at = kernel.code.find(head);
    if (at == std::string::npos) return id;
    std::string body = with_constants(kernel.code.substr(at + head.size()), constant_sizes(plan_, sizes));
    if (kernel.code.ends_with(body)) return id;
    std::string stem = kernel.name.substr(0, kernel.name.rfind('_')), before = kernel.code.substr(0, at);
    std::string name = cat(stem, "_", to_string(hash128(cat(before, body))).substr(0, 6));
    std::string code = cat(before, "WEFT_KERNEL_AHEAD(", name, ",", body);
    if (auto found = ids_.find(name); found != ids_.end())
      return plan_.kernels[found->second].code == code ? found->second : id;  // another kernel's hash may begin alike
    if (count_ == most_versions) return id;
    ++count_;
    PlanKernel with = kernel;
    with.name = name;
    with.code = std::move(code);
    return ids_[name] = plan_.kernels.add(std::move(with));
  }

  void drop_unused_kernels() {
    std::map<KernelId, KernelId> moved;
    Table<PlanKernel> kept;
    for (auto* steps : {&plan_.load_steps, &plan_.steps}) {
      for (PlanStep& step : *steps) {
        auto* launch = step.as<LaunchStep>();
        if (!launch) continue;
        std::vector<KernelId*> used{&launch->kernel};
        for (StepVariant& variant : launch->variants) used.push_back(&variant.kernel);
        for (KernelId* kernel : used) {
          auto [entry, is_new] = moved.try_emplace(*kernel, kept.end_id());
          if (is_new) kept.push_back(plan_.kernels[*kernel]);
          *kernel = entry->second;
        }
      }
    }
    plan_.kernels = std::move(kept);
  }

  Plan& plan_;
  std::map<std::string, KernelId> ids_;  // by name
  int count_ = 0;                        // versions so far
};

}  // namespace

ConstantSizes constant_sizes(const Plan& plan, const std::vector<SizeId>& sizes) {
  ConstantSizes known;
  for (SizeId id : sizes) {
    const Dim& size = plan.sizes[id];
    known.push_back(size.is_constant() ? std::optional(size.value()) : std::nullopt);
  }
  return known;
}

std::string with_constants(std::string code, const ConstantSizes& sizes) {
  for (size_t i = 0; i < sizes.size(); ++i) {
    std::string from = cat("const i64 s", i, " = WEFT_SIZE(", i, ");");
    size_t at = code.find(from);
    if (sizes[i] && at != std::string::npos)
      code.replace(at, from.size(), cat("constexpr i64 s", i, " = ", *sizes[i], ";"));
  }
  return code;
}

void use_constant_sizes(Plan& plan) { Versions(plan).run(); }

}  // namespace weft
