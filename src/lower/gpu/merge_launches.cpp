// SPDX-License-Identifier: Apache-2.0
#include "lower/gpu/merge_launches.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/hash.h"
#include "base/text.h"
#include "lower/gpu/constant_sizes.h"
#include "lower/gpu/products.h"
#include "lower/kernel_builder.h"

namespace weft {
namespace {

constexpr size_t max_parts = 8, look_back = 8;
constexpr int64_t max_blocks = 1024;  // most blocks of a launch to merge, at typical sizes: larger launches gain little
constexpr int64_t max_stage_blocks = 4;  // most blocks of a stage, for any sizes; one thread block runs them all

/// Steps that become one launch. The steps of a stage are independent of each other. If there are several stages, one
/// thread block runs the launch, with a barrier between stages.
struct LaunchGroup {
  struct Stage {
    std::vector<StepId> members = {};
    std::set<BufferId> read = {}, written = {}, written_apart = {};  // see PlanStep::writes_apart
  };
  std::vector<Stage> stages = {{}};
  bool may_grow = false;
  bool is_tiled = false;  ///< all members launch the same kernels; else: any small kernels

  std::vector<StepId> members() const {
    std::vector<StepId> all;
    for (const Stage& stage : stages) all.insert(all.end(), stage.members.begin(), stage.members.end());
    return all;
  }
};

bool meets(const std::set<BufferId>& a, const std::vector<BufferId>& b) {
  return std::ranges::any_of(b, [&](BufferId id) { return a.contains(id); });
}

/// True if `a` and `b` launch the same kernels; sizes may differ.
bool launch_alike(const LaunchStep& a, const LaunchStep& b) {
  auto is_same = [](const StepVariant& p, const StepVariant& q) { return p.kernel == q.kernel && p.from == q.from; };
  return a.kernel == b.kernel && a.work == b.work && std::ranges::equal(a.variants, b.variants, is_same);
}

class Merger {
 public:
  explicit Merger(Plan& plan) : plan_(plan), names_(plan.kernels) {}

  void run() {
    PerStep<StepId> moved;  // new targets of jumps: for each old step and the end, the first step of its basic block
    for (StepId i : plan_.steps.ids()) {
      if (begins_basic_block(i)) first_ = groups_.size();
      moved.emplace_back(first_);
      place(i);
    }
    moved.emplace_back(groups_.size());
    Table<PlanStep> steps;
    for (const LaunchGroup& group : groups_) steps.push_back(merged(group));
    for (PlanStep& step : steps) {
      if (StepId* target = step.target()) *target = moved[*target];
    }
    plan_.steps = std::move(steps);
  }

 private:
  /// True for steps past which no step may move: all but launches and collectives; also spare launches and launches
  /// that use mailboxes.
  bool is_fixed(const PlanStep& step) const {
    const auto* launch = step.as<LaunchStep>();
    auto is_mailbox = [&](BufferId buffer) { return plan_.buffers[buffer].kind == BufferKind::mailbox; };
    return launch ? launch->is_spare || std::ranges::any_of(step.buffers, is_mailbox) : !step.is<CollectiveStep>();
  }
  /// True if a basic block starts at step `i`; the steps of a basic block always run one after another.
  bool begins_basic_block(StepId i) {
    if (targets_.empty()) {
      for (const PlanStep& step : plan_.steps) targets_.insert(step.target() ? *step.target() : StepId());
    }
    return i == StepId(0) || is_fixed(plan_.steps[i]) || is_fixed(plan_.steps[i - 1]) || targets_.contains(i);
  }

  /// Adds the step to the last group that can take it, if the step is independent of all later groups; else makes a new
  /// group. A group on which the step depends can take it if one thread block can run both.
  void place(StepId i) {
    bool is_tiled = has_tiles(plan_.steps[i]), may_join = is_tiled || is_small(plan_.steps[i]),
         moves = bool(plan_.steps[i].moves);
    size_t at = groups_.size();
    for (size_t seen = 0; at > first_ && seen < look_back; --at, ++seen) {
      LaunchGroup& group = groups_[at - 1];
      size_t stage = stage_after(group, i);
      bool may_take = may_join && group.may_grow && group.is_tiled == is_tiled && group.members().size() < max_parts;
      if (may_take && is_tiled) may_take = launch_alike(launch_of(first_of(group)), launch_of(plan_.steps[i]));
      if (stage == 0 && group.stages.size() == 1 && may_take) return add(group.stages[0], i);
      if (may_take && !is_tiled) {
        if (LaunchGroup::Stage* found = stage_with_room(group, stage, i)) return add(*found, i);
      }
      if (stage > 0) break;
    }
    // A step that moves an operand to its result goes early, so that later steps can join groups after it.
    auto where = moves ? groups_.begin() + static_cast<std::ptrdiff_t>(at) : groups_.end();
    add(groups_.insert(where, LaunchGroup{.may_grow = may_join, .is_tiled = is_tiled})->stages[0], i);
  }

  const PlanStep& first_of(const LaunchGroup& group) const { return plan_.steps[group.stages[0].members[0]]; }

  void add(LaunchGroup::Stage& stage, StepId i) {
    const PlanStep& step = plan_.steps[i];
    stage.members.push_back(i);
    stage.read.insert(step.buffers.begin(), step.buffers.end());
    stage.written.insert(step.outputs.begin(), step.outputs.end());
    for (BufferId id : step.outputs) {
      if (step.writes_apart) stage.written_apart.insert(id);
      else stage.written_apart.erase(id);
    }
  }

  /// Returns the first stage of the group that could contain step `i`: 0 if the step does not depend on the group; the
  /// number of stages if it depends on the last stage.
  size_t stage_after(const LaunchGroup& group, StepId i) const {
    size_t stage = group.stages.size();
    while (stage > 0 && !depends(group.stages[stage - 1], i)) --stage;
    return stage;
  }

  bool depends(const LaunchGroup::Stage& stage, StepId i) const {
    const PlanStep& step = plan_.steps[i];
    for (BufferId id : step.buffers) {
      bool writes = std::ranges::find(step.outputs, id) != step.outputs.end();
      bool both_apart = writes && step.writes_apart && stage.written_apart.contains(id);
      if (stage.written.contains(id) && !both_apart) return true;
    }
    std::vector<BufferId> others = step.outputs;
    if (step.writes_apart) std::erase_if(others, [&](BufferId id) { return stage.written_apart.contains(id); });
    return meets(stage.read, others);
  }

  /// Returns a stage of the group, from `first` on, that can take step `i` if one thread block runs the group; perhaps
  /// a new stage. Null: no stage has room, or a stage may be too large for one thread block.
  LaunchGroup::Stage* stage_with_room(LaunchGroup& group, size_t first, StepId i) const {
    auto is_reduction = [&](StepId m) { return starts_with(kernel_of(plan_.steps[m]), {"reduce.h"}); };
    if (is_reduction(i) || std::ranges::any_of(group.members(), is_reduction)) return nullptr;  // it has barriers
    int64_t more = most_blocks({i});
    auto room = [&](const LaunchGroup::Stage& stage) { return max_stage_blocks - most_blocks(stage.members); };
    if (more > max_stage_blocks || std::ranges::any_of(group.stages, [&](const auto& s) { return room(s) < 0; }))
      return nullptr;
    for (size_t at = first; at < group.stages.size(); ++at) {
      if (room(group.stages[at]) >= more) return &group.stages[at];
    }
    return first > 0 ? &group.stages.emplace_back() : nullptr;
  }
  /// Returns the most blocks that these launches have together for any sizes.
  int64_t most_blocks(const std::vector<StepId>& members) const {
    Dim all;
    for (StepId m : members) all = all + launch_of(plan_.steps[m]).blocks;
    return std::min(all.upper_bound(), int64_t{1} << 32);
  }

  bool may_merge(const PlanStep& step) const {
    if (!step.is<LaunchStep>()) return false;
    const PlanKernel& kernel = kernel_of(step);
    bool stays = step.moves || (!step.in_place.empty() && writes_output(step));
    return !stays && kernel.code.find(head(kernel, step)) != std::string::npos &&
           typical_size(launch_of(step).blocks) <= max_blocks;
  }

  const PlanKernel& kernel_of(const PlanStep& step) const { return plan_.kernels[launch_of(step).kernel]; }

  static bool starts_with(const PlanKernel& kernel, std::initializer_list<std::string_view> headers) {
    return std::ranges::any_of(
        headers, [&](std::string_view h) { return kernel.code.starts_with(cat("#include \"", h, "\"")); });
  }

  /// True for products and convolutions: steps with the same kernel may share a launch.
  bool has_tiles(const PlanStep& step) const {
    return may_merge(step) &&
           starts_with(kernel_of(step), {"gemm_gpu.h", "gemv_gpu.h", "gemv_mma.h", "conv_gpu.h", "block_dot_gpu.h"});
  }

  bool is_small(const PlanStep& step) const {
    if (!may_merge(step)) return false;
    const PlanKernel& kernel = kernel_of(step);
    bool is_plain = kernel.threads == tasks::block_threads && kernel.shared_bytes == 0 && kernel.cluster == 1 &&
                    kernel.occupancy == 0;
    return is_plain && starts_with(kernel, {"pointwise.h", "transpose.h", "indexed.h", "pad.h", "reduce.h"});
  }

  /// True if the step writes an output, which may be the memory of an input.
  bool writes_output(const PlanStep& step) const {
    return std::ranges::any_of(step.outputs, [&](BufferId id) { return plan_.buffers[id].kind == BufferKind::output; });
  }

  static std::string head(const PlanKernel& kernel, const PlanStep& step) {
    return cat("WEFT_KERNEL_AHEAD(", kernel.name, ", ", step.buffers.size(), ", ", kernel.threads, ") {");
  }

  /// Returns the only member, or merges the members into one step.
  PlanStep merged(const LaunchGroup& group) {
    std::vector<StepId> members = group.members();
    if (members.size() == 1) return std::move(plan_.steps[members[0]]);
    return group.is_tiled ? repeated(members) : in_stages(group);
  }

  /// Merges launches of one kernel into one launch, and their variants likewise.
  PlanStep repeated(const std::vector<StepId>& members) {
    size_t count = members.size();
    const PlanStep& first = plan_.steps[members[0]];
    const LaunchStep& pattern = launch_of(first);
    PlanStep all{.reason = cat(first.reason, "; one launch for ", count), .decision = first.decision};
    add_all(all, members);
    LaunchStep& launch = launch_of(all);
    std::vector<const std::vector<SizeId>*> sizes;
    for (StepId m : members) sizes.push_back(&plan_.steps[m].sizes);
    launch.kernel = repeated_kernel(pattern.kernel, first, sizes);
    launch.work = pattern.work;
    for (VariantId v : pattern.variants.ids()) launch.variants.push_back(repeated_variant(members, v));
    return all;
  }

  StepVariant repeated_variant(const std::vector<StepId>& members, VariantId v) {
    const PlanStep& first = plan_.steps[members[0]];
    const StepVariant& pattern = launch_of(first).variants[v];
    StepVariant all{.from = pattern.from};
    std::vector<const std::vector<SizeId>*> sizes;
    for (StepId m : members) {
      const StepVariant& variant = launch_of(plan_.steps[m]).variants[v];
      all.sizes.push_back(size_id(variant.blocks));
      all.blocks = all.blocks + variant.blocks;
      sizes.push_back(&variant.sizes);
    }
    for (const std::vector<SizeId>* mine : sizes) all.sizes.insert(all.sizes.end(), mine->begin(), mine->end());
    all.kernel = repeated_kernel(pattern.kernel, first, sizes);
    return all;
  }

  /// Returns a kernel for launches of kernel `id` with these sizes and operands like those of `first`. Constant sizes
  /// that are equal in all launches are literals.
  KernelId repeated_kernel(KernelId id, const PlanStep& first, const std::vector<const std::vector<SizeId>*>& sizes) {
    PlanKernel kernel = plan_.kernels[id];
    ConstantSizes common = constant_sizes(plan_, *sizes[0]);
    for (size_t i = 0; i < common.size(); ++i) {
      auto is_same = [&](const std::vector<SizeId>* mine) { return (*mine)[i] == (*sizes[0])[i]; };
      if (!std::ranges::all_of(sizes, is_same)) common[i] = std::nullopt;
    }
    std::string code = with_constants(kernel.code, common), hash = to_string(hash128(code)).substr(0, 6);
    std::string name = cat(kernel.name, "_times_", sizes.size(), code == kernel.code ? "" : cat("_", hash));
    std::string part = as_part(code, head(kernel, first), kernel.name);
    std::string body = cat(sizes.size() * first.buffers.size(), ", ", kernel.threads, ") {\n  choose_part<",
                           sizes.size(), ", ", first.buffers.size(), ", ", common.size(),
                           ">(WEFT_LAUNCH, [&](const auto& part) WEFT_LAMBDA { ", kernel.name, "(part); });\n}\n");
    kernel.name = name;
    return kernel_id(std::move(kernel), part, body);
  }

  /// Adds the launches, reads and writes of all members to `all`, whose sizes begin with the number of blocks of each
  /// member.
  void add_all(PlanStep& all, const std::vector<StepId>& members) {
    for (StepId m : members) {
      const PlanStep& step = plan_.steps[m];
      const Dim& blocks = launch_of(step).blocks;
      all.sizes.push_back(size_id(blocks));
      launch_of(all).blocks = launch_of(all).blocks + blocks;
      all.flops = all.flops + step.flops, all.bytes = all.bytes + step.bytes;
    }
    for (StepId m : members) append(all, plan_.steps[m]);
    all.source = plan_.steps[members[0]].source;
  }

  /// Merges launches of small kernels into one launch. If there are several stages, one thread block runs them all.
  PlanStep in_stages(const LaunchGroup& group) {
    PlanStep all;
    std::map<std::string, std::string> parts;  // key: the code of a part; value: the part's name
    std::vector<StepId> members = group.members();
    bool is_one_block = group.stages.size() > 1, has_constants = takes_constants(members), notes_faults = false;
    int64_t most = 1;  // blocks of the largest stage
    for (const LaunchGroup::Stage& stage : group.stages) most = std::max(most, most_blocks(stage.members));
    int threads = tasks::block_threads * static_cast<int>(is_one_block ? most : 1);
    std::string code, body;
    size_t buffers = 0, sizes = members.size(), member = 0;
    for (const LaunchGroup::Stage& stage : group.stages) {
      if (member > 0) body += "  barrier();\n";
      std::string calls, count;
      for (StepId m : stage.members) {
        const PlanStep& step = plan_.steps[m];
        const PlanKernel& kernel = kernel_of(step);
        std::string part = has_constants ? with_constants(kernel.code, constant_sizes(plan_, step.sizes)) : kernel.code;
        auto [entry, is_new] = parts.try_emplace(part, cat(kernel.name, "_", parts.size()));
        if (is_new) code += as_part(part, head(kernel, step), entry->second);
        const Dim& blocks = launch_of(step).blocks;
        bool is_number = has_constants && blocks.is_constant();
        std::string size = is_number ? cat(blocks.value()) : cat("WEFT_SIZE(", member, ")");
        calls += cat("    if (block >= 0 && block < ", size, ") ", entry->second, "(launch_part<", tasks::block_threads,
                     ">(weft_launch, ", buffers, ", ", sizes, ", block, ", size, "));\n    block -= ", size, ";\n");
        buffers += step.buffers.size(), sizes += step.sizes.size(), ++member;
        count += cat(count.empty() ? "" : " + ", size);
        notes_faults |= kernel.notes_faults;
      }
      std::string first = is_one_block ? cat("thread_id() / ", tasks::block_threads) : "block_id()";
      std::string next = is_one_block ? cat(most) : cat("block_count(", threads, ")");
      body += cat("  WEFT_NO_UNROLL for (i64 at = ", first, "; at < ", count, "; at += ", next,
                  ") {\n    i64 block = at;\n", calls, "  }\n");
    }
    add_all(all, members);
    if (is_one_block) launch_of(all).blocks = 1;
    const std::string& pattern = kernel_of(first_of(group)).name;
    std::string stem = pattern.substr(0, pattern.rfind('_'));
    std::string name =
        cat(stem, "_and_", members.size() - 1, "_more_", to_string(hash128(cat(code, body))).substr(0, 6));
    launch_of(all).kernel = kernel_id({.name = name, .code = {}, .threads = threads, .notes_faults = notes_faults},
                                      code, cat(buffers, ", ", threads, ") {\n", body, "}\n"));
    all.reason = cat(first_of(group).reason, is_one_block ? "; one thread block for " : "; one launch for ",
                     members.size(), " kernels");
    return all;
  }

  /// True for the first few launches of the same kernels with different sizes, which then are literals: fetching the
  /// instructions takes most of the time of a small launch. More would take long to compile.
  bool takes_constants(const std::vector<StepId>& members) {
    constexpr size_t most_versions = 4;
    std::string kernels, sizes;
    for (StepId m : members) {
      kernels += cat(kernel_of(plan_.steps[m]).name, " ");
      sizes += cat(launch_of(plan_.steps[m]).blocks, ":");
      for (SizeId size : plan_.steps[m].sizes) sizes += cat(size, ",");
    }
    std::set<std::string>& seen = versions_[kernels];
    return seen.contains(sizes) || (seen.size() < most_versions && seen.insert(sizes).second);
  }

  static void append(PlanStep& all, const PlanStep& step) {
    all.buffers.insert(all.buffers.end(), step.buffers.begin(), step.buffers.end());
    all.sizes.insert(all.sizes.end(), step.sizes.begin(), step.sizes.end());
    for (BufferId id : step.outputs) {
      if (std::ranges::find(all.outputs, id) == all.outputs.end()) all.outputs.push_back(id);
    }
  }

  /// Turns `code`, a kernel that begins with `head`, into a function `name` that takes a LaunchPart or LaunchChoice.
  static std::string as_part(std::string code, const std::string& head, const std::string& name) {
    return code.replace(code.find(head), head.size(), cat("WEFT_KERNEL_PART(", name, ") {"));
  }

  SizeId size_id(const Dim& dim) {
    auto found = std::ranges::find(plan_.sizes, dim);
    if (found == plan_.sizes.end()) found = plan_.sizes.insert(found, dim);
    return SizeId(found - plan_.sizes.begin());
  }

  /// Returns the id of a kernel whose source is `parts` and then an entry with this body.
  KernelId kernel_id(PlanKernel kernel, const std::string& parts, const std::string& body) {
    auto code = [&](const std::string& name) { return cat(parts, "WEFT_KERNEL_AHEAD(", name, ", ", body); };
    return names_.find_or_add(plan_.kernels, std::move(kernel), code);
  }

  Plan& plan_;
  KernelNames names_;
  std::vector<LaunchGroup> groups_;
  size_t first_ = 0;                                       // first group of the basic block
  std::map<std::string, std::set<std::string>> versions_;  // see takes_constants
  std::set<StepId> targets_;  // targets of branches and jumps, and StepId() for other steps
};

}  // namespace

void merge_launches(Plan& plan) { Merger(plan).run(); }

}  // namespace weft
