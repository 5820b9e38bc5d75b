// SPDX-License-Identifier: Apache-2.0
#include "runtime/packed_weights.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>

#include "base/error.h"
#include "base/knobs.h"
#include "runtime/memory_limit.h"
#include "targets/cpu/memory.h"

namespace weft {
namespace {

/// The least size in bytes of packed weights that programs share; smaller weights are not worth a key.
constexpr int64_t least_shared = 4096;

/// One packed weight in the block of the program that packed it.
struct Packed {
  std::weak_ptr<const AlignedMemory> block;
  std::byte* data = nullptr;
};

/// The packed weights of this process that programs can share, by key.
class Registry {
 public:
  static Registry& instance() {
    static Registry registry;
    return registry;
  }
  size_t size() {
    std::scoped_lock lock(mutex_);
    std::erase_if(packed_, [](const auto& entry) { return entry.second.block.expired(); });
    return packed_.size();
  }
  std::pair<std::shared_ptr<const AlignedMemory>, std::byte*> find(const Hash128& key) {
    std::scoped_lock lock(mutex_);
    auto found = packed_.find(key);
    return found == packed_.end() ? std::pair(std::shared_ptr<const AlignedMemory>(), nullptr)
                                  : std::pair(found->second.block.lock(), found->second.data);
  }
  void add(const Hash128& key, const std::shared_ptr<const AlignedMemory>& block, std::byte* data) {
    std::scoped_lock lock(mutex_);
    Packed& entry = packed_[key];
    if (entry.block.expired()) entry = {block, data};
  }

 private:
  std::mutex mutex_;
  std::map<Hash128, Packed> packed_;
};

/// The keys of packed weights. Weights without a key are not shared, for example small weights and weights that several
/// load steps write. With an allocator of the caller, WEFT_CHECKED or WEFT_BREAK_KERNEL, no weight has a key.
class Keys {
 public:
  Keys(const Plan& plan, const HostAllocator& allocator) : plan_(plan), writers_(plan.buffers.size()) {
    may_share_ = !plan.compiler.empty() && !allocator.allocate && !knobs().checked && knobs().break_kernel.empty();
    for (const PlanStep& step : plan.load_steps) {
      for (BufferId id : step.outputs) ++writers_[id];
    }
  }

  std::optional<Hash128> key_of(const PlanStep& step) const {
    if (!may_share(step)) return std::nullopt;
    const PlanKernel& kernel = plan_.kernels[launch_of(step).kernel];
    std::string text = cat("packed 1\n", plan_.compiler, "\n", plan_.chip, "\n", kernel.name, "\n");
    for (SizeId size : step.sizes) text += cat(plan_.sizes[size], " ");
    for (BufferId id : step.buffers) text += id == step.outputs[0] ? "result " : cat(content_of(id), " ");
    return hash128(text + kernel.code);
  }

 private:
  bool may_share(const PlanStep& step) const {
    if (!may_share_ || step.outputs.size() != 1) return false;
    BufferId output = step.outputs[0];
    auto is_fixed = [&](BufferId id) { return id == output || plan_.buffers[id].kind == BufferKind::constant; };
    return writers_[output] == 1 && plan_.buffers[output].bytes.value() >= least_shared &&
           std::ranges::all_of(step.buffers, is_fixed);
  }

  Hash128 content_of(BufferId id) const {
    int index = plan_.buffers[id].index;
    return plan_.constant_hashes.empty() ? hash128(plan_.constants[index].data) : plan_.constant_hashes[index];
  }

  const Plan& plan_;
  bool may_share_;
  PerBuffer<int> writers_;
};

/// The number of steps that still read each constant. At 0, the pages of the constant's file are dropped.
class Sources {
 public:
  explicit Sources(const Plan& plan) : plan_(plan), readers_(plan.constants.size()) {
    for (const auto* steps : {&plan.load_steps, &plan.steps}) {
      for (const PlanStep& step : *steps) count(step, 1);
    }
  }
  /// Notes that a load step has run. Constants that runs read are never dropped.
  void leave(const PlanStep& step) { count(step, -1); }

 private:
  void count(const PlanStep& step, int change) {
    for (BufferId id : step.buffers) {
      if (plan_.buffers[id].kind != BufferKind::constant) continue;
      int index = plan_.buffers[id].index;
      readers_[index] += change;
      if (readers_[index] == 0) plan_.constants[index].data.drop_pages();
    }
  }

  const Plan& plan_;
  std::vector<int> readers_;
};

}  // namespace

size_t packed_weights_held() { return Registry::instance().size(); }

void PackedWeights::find_constants(const Plan& plan) {
  for (BufferId i : plan.buffers.ids()) {
    const PlanBuffer& buffer = plan.buffers[i];
    if (buffer.kind != BufferKind::constant) continue;
    memory_[i] = const_cast<std::byte*>(plan.constants[buffer.index].data.data());
  }
}

/// Allocates one block for all weights that this program packs, and sets their addresses.
void PackedWeights::place(const Plan& plan, const Host& host, const PerBuffer<bool>& is_shared) {
  PerBuffer<int64_t> offsets(plan.buffers.size());
  int64_t own = 0;
  for (BufferId i : plan.buffers.ids()) {
    if (plan.buffers[i].kind != BufferKind::persistent) continue;
    int64_t bytes = (plan.buffers[i].bytes.value() + 63) / 64 * 64;
    bytes_ += bytes;
    offsets[i] = own;
    if (!is_shared[i]) own += bytes;
  }
  check_packed_memory(plan, bytes_, host.memory_limit);
  blocks_.push_back(std::make_shared<const AlignedMemory>(own, host.allocator));
  for (BufferId i : plan.buffers.ids()) {
    if (plan.buffers[i].kind == BufferKind::persistent && !is_shared[i])
      memory_[i] = blocks_.back()->data() + offsets[i];
  }
}

PackedWeights::PackedWeights(const Plan& plan, const Host& host, const RunStep& run) : memory_(plan.buffers.size()) {
  Registry& registry = Registry::instance();
  Keys keys(plan, host.allocator);
  PerBuffer<bool> is_shared(plan.buffers.size());
  // A key is a hash of the contents. If there are no weights to share yet, computes each key only when its step runs.
  PerStep<std::optional<Hash128>> known(plan.load_steps.size());
  bool may_find = registry.size() > 0;
  for (StepId i : plan.load_steps.ids()) {
    if (!may_find) break;
    known[i] = keys.key_of(plan.load_steps[i]);
    if (!known[i]) continue;
    auto [block, data] = registry.find(*known[i]);
    if (!block) continue;
    BufferId output = plan.load_steps[i].outputs[0];
    memory_[output] = data;
    is_shared[output] = true;
    if (std::ranges::find(blocks_, block) == blocks_.end()) blocks_.push_back(block);
  }
  place(plan, host, is_shared);
  find_constants(plan);
  Sources sources(plan);
  for (StepId i : plan.load_steps.ids()) {
    const PlanStep& step = plan.load_steps[i];
    bool is_done = step.outputs.size() == 1 && is_shared[step.outputs[0]];
    if (!is_done) {
      std::optional<Hash128> key = may_find ? known[i] : keys.key_of(step);
      run(step, memory_);
      if (key) registry.add(*key, blocks_.back(), memory_[step.outputs[0]]);
    }
    sources.leave(step);
  }
}

}  // namespace weft
