// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu_executable.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/kept_file.h"
#include "base/knobs.h"
#include "base/overloaded.h"
#include "base/random.h"
#include "base/watch.h"
#include "kernels/launch.h"
#include "runtime/arena.h"
#include "runtime/bind.h"
#include "runtime/blocks.h"
#include "runtime/checked.h"
#include "runtime/faults.h"
#include "runtime/host_values.h"
#include "runtime/memory_limit.h"
#include "runtime/outputs.h"
#include "runtime/packed_weights.h"
#include "runtime/planned_executable.h"
#include "runtime/ranks.h"
#include "runtime/saved.h"
#include "runtime/sharing.h"
#include "runtime/size_schedule.h"
#include "targets/cpu/memory.h"
#include "targets/cpu/object.h"
#include "targets/cpu/workers.h"

namespace weft {
namespace {

using KernelEntry = void(const LaunchArgs*, i64 begin, i64 end);
using KernelPlan = void(const i64* sizes, i64* out);

struct Kernel {
  KernelEntry* entry;
  KernelPlan* plan;
};

struct BoundStep {
  std::vector<int64_t> sizes;
  int64_t tasks = 0, scratch_bytes = 0;
};

/// All values that depend only on sizes; kept while runs have the same input sizes. Entries for run-time sizes change
/// while the steps run.
struct BoundSizes {
  Table<int64_t, SizeId> sizes;  // values of Plan::sizes
  PerStep<BoundStep> steps;
  PerBuffer<int64_t> buffer_bytes;
  ArenaLayout arena;
  std::vector<BufferId> arena_buffers;  // the buffer of each entry of arena.offsets
  int64_t scratch_bytes = 0;            // for one thread
};

/// The threads of a run, their scratch memory, and the conditions that end the run early.
struct Launcher {
  const Workers& workers;
  std::byte* scratch = nullptr;
  int64_t scratch_stride = 0;  // bytes from one thread's scratch to the next
  Watch* watch = nullptr;
  CheckedRun* checked = nullptr;  // set if kernels were compiled with checks
};

struct StepRun {
  KernelEntry* entry;
  LaunchArgs args;
  const Launcher& launcher;

  static void run(void* context, int64_t begin, int64_t end, int worker) {
    const auto& step = *static_cast<StepRun*>(context);
    LaunchArgs args = step.args;
    args.scratch = step.launcher.scratch + worker * step.launcher.scratch_stride;
    if (!step.launcher.watch) return step.entry(&args, begin, end);
    // A step may take long, so it runs in pieces of about 5 to 20 ms, and the watch is checked between the pieces.
    for (int64_t piece = std::max<int64_t>(1, (end - begin) / 256); begin < end;) {
      if (step.launcher.watch->is_over()) return;
      auto start = std::chrono::steady_clock::now();
      int64_t last = begin + std::min(piece, end - begin);
      step.entry(&args, begin, last);
      begin = last;
      auto taken = std::chrono::steady_clock::now() - start;
      if (taken < shortest_piece) piece = std::min(piece, INT64_MAX / 2) * 2;
      else if (taken > 4 * shortest_piece) piece = std::max<int64_t>(piece / 2, 1);
    }
  }

  static constexpr std::chrono::milliseconds shortest_piece{5};
};

class CpuExecutable final : public PlannedExecutable, public std::enable_shared_from_this<CpuExecutable> {
 public:
  CpuExecutable(ChipProgram program, const Host& host, Origin origin, CompileReport report)
      : PlannedExecutable(std::move(program), std::move(origin), std::move(report)),
        object_(plan_.kernels.empty() ? LoadedObject() : LoadedObject(image_, plan_.program)),
        host_(host),
        workers_(host),
        schedule_(plan_) {
    for (const PlanKernel& kernel : plan_.kernels) {
      kernels_.push_back(
          {object_.function<KernelEntry>(kernel.name), object_.function<KernelPlan>(cat(kernel.name, "_plan"))});
    }
    for (const std::string& text : plan_.strings) strings_.code(text);
    find_dynamic();
    load();
  }

  std::unique_ptr<Context> new_context() const override;
  std::string device() const override {
    return cat("cpu (", plan_.chip.arch, plan_.chip.tune.empty() ? "" : cat(", ", plan_.chip.tune), "), ",
               workers_.width(), workers_.width() == 1 ? " thread" : " threads",
               workers_.are_the_hosts() ? " of the caller's" : "");
  }
  void detach() override;

  const StringPool& strings() const { return strings_; }
  bool is_random() const { return is_random_; }
  const Workers& workers() const { return workers_; }
  const HostAllocator& allocator() const { return host_.allocator; }
  int64_t constant_bytes() const {
    int64_t total = 0;
    std::vector<bool> is_read = constants_of_runs();
    for (size_t i = 0; i < is_read.size(); ++i) total += is_read[i] ? std::ssize(plan_.constants[i].data) : 0;
    return total;
  }
  int64_t packed_bytes() const { return weights_.bytes(); }
  int64_t memory_limit() const { return host_.memory_limit > 0 ? host_.memory_limit : default_memory_limit(); }
  const std::string& kernel_name(const PlanStep& step) const { return plan_.kernels[launch_of(step).kernel].name; }
  /// Returns the addresses of the persistent and constant buffers; null for other buffers.
  const PerBuffer<std::byte*>& weights() const { return weights_.memory(); }

  const SizeSchedule& schedule() const { return schedule_; }
  const std::vector<BufferId>& dynamic_buffers() const { return dynamic_; }
  /// Returns the dynamic buffers that step `step` is the last to use.
  std::span<const BufferId> last_read(StepId step) const {
    return last_read_.empty() ? std::span<const BufferId>() : last_read_[step];
  }

  const PerStep<std::vector<bool>>& last_container_reads() const { return last_container_reads_; }

  /// Computes the sizes in `due` and the launches of the steps in `due`.
  void update(BoundSizes& bound, const SizeSchedule::Due& due, const SymbolValues& values) const {
    for (SizeId id : due.sizes) bound.sizes[id] = values.evaluate(plan_.sizes[id]);
    for (StepId id : due.steps) {
      bound.steps[id] = bind(plan_.steps[id], bound.sizes);
      bound.scratch_bytes = std::max(bound.scratch_bytes, bound.steps[id].scratch_bytes);
    }
  }

  BoundSizes bind(const SymbolValues& values) const {
    BoundSizes bound{.sizes = Table<int64_t, SizeId>(plan_.sizes.size()),
                     .steps = PerStep<BoundStep>(plan_.steps.size()),
                     .buffer_bytes = {},
                     .arena = {},
                     .arena_buffers = {}};
    update(bound, schedule_.due({}), values);
    place_buffers(bound, values);
    return bound;
  }

  void run_step(const PlanStep& step, const BoundStep& bound, const PerBuffer<std::byte*>& memory,
                const Launcher& launcher) const {
    std::vector<void*> buffers;
    for (BufferId id : step.buffers) buffers.push_back(memory[id]);
    KernelFault fault;
    LaunchArgs args{.buffers = buffers.data(),
                    .sizes = reinterpret_cast<const i64*>(bound.sizes.data()),
                    .scratch_bytes = launcher.scratch_stride,
                    .fault = &fault};
    KernelId kernel = launch_of(step).kernel;
    StepRun run{kernels_[kernel].entry, args, launcher};
    if (launcher.checked) {
      run.args.scratch = launcher.scratch;
      fault = launcher.checked->run(run.entry, run.args, step.buffers, bound.tasks);
    } else {
      launcher.workers.run(bound.tasks, &StepRun::run, &run);
    }
    if (fault.kind != FaultKind::none) report_fault(plan_, step, kernel, fault);
    if (!knobs().break_kernel.empty() && kernel_name(step).find(knobs().break_kernel) != std::string::npos) {
      damage(step, memory);
    }
  }

 private:
  void place_buffers(BoundSizes& bound, const SymbolValues& values) const {
    std::vector<ArenaRequest> requests;
    PerBuffer<size_t> places(plan_.buffers.size());  // index of each arena buffer's request
    for (BufferId i : plan_.buffers.ids()) {
      const PlanBuffer& buffer = plan_.buffers[i];
      bound.buffer_bytes.push_back(schedule_.is_run_time(buffer.bytes) ? 0 : values.evaluate(buffer.bytes));
      if (buffer.kind != BufferKind::arena || !buffer.last_step) continue;
      bound.arena_buffers.push_back(i);
    }
    auto begin = [&](BufferId id) { return std::pair(plan_.buffers[id].first_step, id); };
    std::ranges::sort(bound.arena_buffers, {}, begin);
    for (BufferId i : bound.arena_buffers) {
      const PlanBuffer& buffer = plan_.buffers[i];
      // In a checked run buffers share no memory, because each buffer is filled with NaNs before its first write.
      bool shares = buffer.shares && !knobs().checked;
      places[i] = shares ? places[buffer.shares] : requests.size();
      if (shares) requests[places[i]].last = buffer.last_step;
      else requests.push_back({bound.buffer_bytes[i], buffer.first_step, buffer.last_step});
    }
    ArenaLayout layout = place(requests);
    bound.arena.bytes = layout.bytes;
    for (BufferId id : bound.arena_buffers) bound.arena.offsets.push_back(layout.offsets[places[id]]);
    check_memory(plan_, bound.buffer_bytes, bound.arena.bytes, weights_.bytes(), host_.memory_limit);
  }

  BoundStep bind(const PlanStep& step, const Table<int64_t, SizeId>& sizes) const {
    BoundStep bound;
    for (SizeId size : step.sizes) bound.sizes.push_back(sizes[size]);
    const auto* launch = step.as<LaunchStep>();
    if (!launch) return bound;
    i64 out[2] = {0, 0};
    kernels_[launch->kernel].plan(reinterpret_cast<const i64*>(bound.sizes.data()), out);
    bound.tasks = out[0];
    bound.scratch_bytes = (out[1] + 63) / 64 * 64;
    return bound;
  }

  /// Returns the launch of a load step. The step's sizes must be constant, because no symbol has a value yet.
  BoundStep bind_load_step(const PlanStep& step) const {
    Table<int64_t, SizeId> sizes(plan_.sizes.size());
    for (SizeId size : step.sizes) {
      const Dim& dim = plan_.sizes[size];
      if (!dim.is_constant()) internal_error(cat(kernel_name(step), " runs before the size ", dim, " is known"));
      sizes[size] = dim.value();
    }
    return bind(step, sizes);
  }

  /// Damages results for tests: see the WEFT_BREAK_KERNEL knob.
  void damage(const PlanStep& step, const PerBuffer<std::byte*>& memory) const {
    for (BufferId id : step.outputs) {
      const PlanBuffer& buffer = plan_.buffers[id];
      if (is_float(buffer.shape.dtype)) std::memset(memory[id], 0x42, bits(buffer.shape.dtype) / 8);
    }
  }

  void find_dynamic() {
    for (BufferId i : plan_.buffers.ids()) {
      const PlanBuffer& buffer = plan_.buffers[i];
      if (buffer.kind != BufferKind::dynamic || !buffer.last_step) continue;
      dynamic_.push_back(i);
      last_read_.resize(plan_.steps.size());
      last_read_[buffer.last_step].push_back(i);
    }
  }

  /// Returns, for each constant of the plan, true if a step reads it (load steps do not count).
  std::vector<bool> constants_of_runs() const {
    std::vector<bool> is_read(plan_.constants.size());
    for (const PlanStep& step : plan_.steps) {
      for (BufferId id : step.buffers) {
        const PlanBuffer& buffer = plan_.buffers[id];
        if (buffer.kind == BufferKind::constant) is_read[buffer.index] = true;
      }
    }
    return is_read;
  }

  /// Copies into memory those mapped constants that steps read, because other processes may change the mapped files.
  void leave_files() {
    std::vector<bool> is_read = constants_of_runs();
    for (size_t i = 0; i < is_read.size(); ++i) {
      if (is_read[i]) plan_.constants[i].data = plan_.constants[i].data.in_memory();
    }
    weights_.find_constants(plan_);
  }

  /// Runs the load steps, which fill the persistent buffers.
  void load() {
    auto begin = std::chrono::steady_clock::now();
    AlignedMemory scratch;
    std::optional<CheckedRun> checked;
    if (knobs().checked) checked.emplace(fixed_bytes());
    weights_ = PackedWeights(plan_, host_, [&](const PlanStep& step, const PerBuffer<std::byte*>& memory) {
      check_watch();
      BoundStep bound = bind_load_step(step);
      int64_t bytes = bound.scratch_bytes * workers_.width();
      if (scratch.bytes() < bytes) scratch = AlignedMemory(bytes, host_.allocator);
      Launcher launcher{workers_, scratch.data(), bound.scratch_bytes, nullptr, checked ? &*checked : nullptr};
      run_step(step, bound, memory, launcher);
    });
    leave_files();
    std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    report_.phase_seconds.emplace_back("pack", taken.count());
    report_.constant_bytes = weights_.bytes();
  }

  /// Returns the bytes of each buffer of constant size; 0 for other buffers.
  PerBuffer<int64_t> fixed_bytes() const {
    PerBuffer<int64_t> bytes;
    for (const PlanBuffer& buffer : plan_.buffers) bytes.push_back(buffer.bytes.constant().value_or(0));
    return bytes;
  }

  std::string place_of(const PlanStep&) const override { return "cpu"; }

  StringPool strings_;
  LoadedObject object_;
  Host host_;
  Workers workers_;
  SizeSchedule schedule_;
  bool is_random_ = weft::is_random(plan_);
  std::vector<BufferId> dynamic_;
  PerStep<std::vector<BufferId>> last_read_;  // empty without dynamic buffers
  PerStep<std::vector<bool>> last_container_reads_ = weft::last_container_reads(plan_);
  Table<Kernel, KernelId> kernels_;
  PackedWeights weights_;
};

void CpuExecutable::detach() {
  std::vector<bool> is_read = constants_of_runs();
  for (size_t i = 0; i < is_read.size(); ++i) {
    Bytes& data = plan_.constants[i].data;
    if (!is_read[i]) data = {};
    else if (!is_kept(data)) data = Bytes::copy(data);
  }
  weights_.find_constants(plan_);
  origin_ = {};
}

class CpuContext final : public Context {
 public:
  explicit CpuContext(std::shared_ptr<const CpuExecutable> program)
      : program_(std::move(program)),
        pool_([this](int64_t bytes) { return AlignedMemory(bytes, program_->allocator()); }),
        blocks_(plan().buffers.size()),
        host_(plan(), program_->last_container_reads(), program_->strings(), program_->memory_limit()) {}

  std::vector<Tensor> run(std::span<const Tensor> given, const RunOptions& options) override {
    std::vector<Tensor> inputs = with_defaults(program_->inputs(), given);
    bind(inputs, options);
    host_.begin();
    given_ = given;
    inputs_ = std::move(inputs);
    bind_outputs(options);
    for (BufferId i : plan().buffers.ids()) {
      if (plan().buffers[i].kind == BufferKind::input) bind_input(i);
    }
    execute(options);
    check_read(plan().constants);
    check_read(inputs_);
    for (BufferId i : plan().buffers.ids()) {
      if (plan().buffers[i].kind == BufferKind::output && !memory_[i]) give_output(i, options);  // no step wrote it
      if (plan().buffers[i].kind == BufferKind::output) take_host_output(i);
    }
    release_all();
    inputs_.clear();
    return std::move(outputs_);
  }

  int64_t memory_bytes() const override { return arena_.bytes() + scratch_.bytes() + pool_.bytes(); }
  int64_t peak_memory_bytes() const override { return peak_; }
  MemoryUse memory() const override {
    return {.arena = arena_.bytes() + pool_.bytes(),
            .scratch = scratch_.bytes(),
            .peak = peak_,
            .weights = program_->packed_bytes(),
            .constants = program_->constant_bytes()};
  }

 private:
  const Plan& plan() const { return program_->plan(); }

  /// Computes everything that depends on sizes; skips this if the last run had the same sizes and no seed is needed.
  void bind(std::span<const Tensor> inputs, const RunOptions& options) {
    const SymbolValues* known = options.sizes;
    release_all();
    std::vector<std::vector<int64_t>> sizes;
    for (size_t i = 0; i < inputs.size(); ++i) sizes.push_back(inputs[i].dims);
    bool is_same = known ? known->all() == known_.all() : !program_->is_random();
    if (is_bound_ && is_same && sizes == input_sizes_) {
      for (size_t i = 0; i < inputs.size(); ++i) {
        const Type& wanted = plan().inputs[i].type;
        if (!wanted.is_tensor() || !inputs[i].is_tensor() || inputs[i].dtype != wanted.shape.dtype) is_bound_ = false;
      }
      if (is_bound_) return;
    }
    is_bound_ = false;
    if (known) known_ = *known;
    values_ = bind_symbols(plan().inputs, inputs, known);
    if (program_->is_random() && !known) values_.set(std::string(run_seed), seed_of(options));
    check_sizes(plan().checks, values_);
    bound_ = program_->bind(values_);
    reserve();
    input_sizes_ = std::move(sizes);
    is_bound_ = true;
  }

  void reserve() {
    reserve(arena_, bound_.arena.bytes);
    memory_ = program_->weights();
    for (size_t i = 0; i < bound_.arena_buffers.size(); ++i) {
      memory_[bound_.arena_buffers[i]] = arena_.data() + bound_.arena.offsets[i];
    }
  }

  void reserve(AlignedMemory& memory, int64_t bytes) {
    if (memory.bytes() >= bytes) return;
    memory = {};  // frees the old block first, so that only one is held
    memory = AlignedMemory(bytes, program_->allocator());
    note_peak();
  }
  void note_peak() { peak_ = std::max(peak_, memory_bytes()); }

  void bind_input(BufferId id) {
    const Tensor& input = inputs_[plan().buffers[id].index];
    if (host_.is_container(id)) host_.container(id) = input;
    else if (host_.is_text(id)) memory_[id] = host_.encode(id, input);
    else memory_[id] = const_cast<std::byte*>(input.data.data());
  }

  void bind_outputs(const RunOptions& options) {
    outputs_.assign(plan().outputs.size(), {});
    for (BufferId i : plan().buffers.ids()) {
      const PlanBuffer& buffer = plan().buffers[i];
      if (buffer.kind != BufferKind::output) continue;
      memory_[i] = nullptr;
      // The bytes may be known before the sizes are, because tensors with a size of 0 have no bytes.
      auto is_late = [&](const Dim& size) { return program_->schedule().is_run_time(size); };
      if (!is_late(buffer.bytes) && std::ranges::none_of(buffer.shape.dims, is_late)) give_output(i, options);
    }
  }

  /// Gives an output its memory. Copies inputs that overlap this memory, except an input that the output may overwrite.
  void give_output(BufferId id, const RunOptions& options) {
    if (host_.is_container(id)) return;
    size_t index = plan().buffers[id].index;
    bound_.buffer_bytes[id] = values_.evaluate(plan().buffers[id].bytes);
    if (host_.is_text(id)) {
      memory_[id] = host_.room(id, bound_.buffer_bytes[id]);
      return;
    }
    MutableTensor place = place_in(options, given_, index, bound_.buffer_bytes[id]);
    memory_[id] = place.data;
    outputs_[index] = std::move(place.tensor);
    for (size_t input : inputs_in_the_way(plan(), inputs_, index, outputs_[index].data)) {
      inputs_[input].data = Bytes::copy(inputs_[input].data);
      for (BufferId i : plan().buffers.ids()) {
        const PlanBuffer& buffer = plan().buffers[i];
        if (buffer.kind == BufferKind::input && std::cmp_equal(buffer.index, input)) bind_input(i);
      }
    }
    refuse_overlap(plan(), outputs_, index);
  }

  /// Stores an output of strings or a container, which runs cannot write into the caller's memory.
  void take_host_output(BufferId id) {
    int index = plan().buffers[id].index;
    if (host_.is_container(id)) outputs_[index] = std::move(host_.container(id));
    else if (host_.is_text(id))
      outputs_[index] = host_.decode(values_.dims(plan().buffers[id].shape.dims), memory_[id]);
  }

  // --- the steps -----------------------------------------------------------------------------------------------------

  /// Returns the memory for output `index`: given for this run, else the memory of a donated input, else new memory.
  MutableTensor place_in(const RunOptions& options, std::span<const Tensor> given, size_t index, size_t bytes) {
    const Port& port = plan().outputs[index];
    std::vector<int64_t> dims = values_.dims(port.type.shape.dims);
    bool is_given = index < options.output_memory.size() && options.output_memory[index].data();
    const Tensor* donated = is_given ? nullptr : donated_input(plan(), given, index, bytes);
    if (!donated) return place_output(options, index, port, std::move(dims), program_->allocator());
    Tensor tensor{.dtype = port.type.shape.dtype, .dims = std::move(dims), .data = donated->data.part(0, bytes)};
    return {tensor, const_cast<std::byte*>(tensor.data.data())};
  }

  /// True if a step that copies an operand need not run, because the operand already has the address of the result.
  bool is_there(const PlanStep& step) const {
    if (!step.moves) return false;
    BufferId from = step.moves, to = step.outputs[0];
    return memory_[from] == memory_[to] && (step.moves_apart || bound_.buffer_bytes[from] == bound_.buffer_bytes[to]);
  }

  void execute(const RunOptions& options) {
    std::optional<Workers> callers;
    if (options.executor) callers.emplace(*options.executor);
    Watch watch(options.deadline, options.stop);
    Launcher launcher{callers ? *callers : program_->workers(), nullptr, 0, watch.is_needed() ? &watch : nullptr};
    std::optional<CheckedRun> checked;
    if (knobs().checked) launcher.checked = &checked.emplace(bound_.buffer_bytes);
    reserve_scratch(launcher);
    auto start = std::chrono::steady_clock::now();
    auto now = [&] { return std::chrono::steady_clock::now() - start; };
    for (StepId i(0); i < plan().steps.end_id();) {
      const PlanStep& step = plan().steps[i];
      watch.check(step.source);
      if (options.rank) options.rank->check();
      if (checked) begin_buffers(*checked, i);
      auto begin = now();
      StepId next = execute(step, i, options, launcher);
      watch.check_whole(step.source);
      if (options.profile)
        options.profile->push_back({i.index(), begin, now(), values_.evaluate(step.flops), step_bytes(step)});
      if (options.observe) show(i, step, options);
      for (BufferId id : program_->last_read(i)) release(id);
      i = next;
    }
  }

  /// Marks as unwritten the buffers that this step is the first to write.
  void begin_buffers(CheckedRun& checked, StepId step) {
    for (BufferId i : memory_.ids()) {
      const PlanBuffer& buffer = plan().buffers[i];
      bool written_here = buffer.kind == BufferKind::arena || buffer.kind == BufferKind::output;
      if (written_here && memory_[i] && buffer.first_step == step) checked.begin(i, memory_[i]);
    }
  }

  /// Runs one step and returns the id of the next.
  StepId execute(const PlanStep& step, StepId id, const RunOptions& options, Launcher& launcher) {
    if (const auto* branch = step.as<BranchStep>()) return holds(*branch, step) ? id + 1 : branch->target;
    if (const auto* jump = step.as<JumpStep>()) return jump->target;
    std::visit(Overloaded{[&](const LaunchStep&) {
                            prepare_outputs(step, options, launcher);
                            if (!is_there(step)) program_->run_step(step, bound_.steps[id], memory_, launcher);
                          },
                          [&](const SizesStep&) {
                            set_sizes(step, [&](BufferId b, int at) { return read<int64_t>(b, at); }, values_);
                            program_->update(bound_, program_->schedule().due(id), values_);
                            reserve_scratch(launcher);
                          },
                          [&](const SwapStep&) { swap_buffers(step.buffers, launcher); },
                          [&](const GrowStep& g) { grow(step.buffers[0], values_.evaluate(g.bytes)); },
                          [&](const HostStep&) {
                            prepare_outputs(step, options, launcher);
                            host_.run(id, bound_.steps[id].sizes, memory_);
                            if (launcher.checked) launcher.checked->written(step.outputs);
                          },
                          [&](const CollectiveStep& c) {
                            prepare_outputs(step, options, launcher);
                            exchange(c, step, options);
                            if (launcher.checked) launcher.checked->written(step.outputs);
                          },
                          [](const auto&) { internal_error("a CPU runs all of a program, without libraries"); }},
               step.action);
    return id + 1;
  }

  bool holds(const BranchStep& branch, const PlanStep& step) const {
    return step.buffers.empty() ? values_.evaluate(branch.amount) > 0 : read<bool>(step.buffers[0], 0);
  }

  void exchange(const CollectiveStep& collective, const PlanStep& step, const RunOptions& options) {
    check(options.rank != nullptr, "a split program runs as one of several");
    BufferId from = step.buffers[0], to = step.buffers[1];
    options.rank->exchange({.fn = collective.fn,
                            .type = plan().buffers[from].shape.dtype,
                            .from = memory_[from],
                            .to = memory_[to],
                            .elements = values_.evaluate(collective.elements)},
                           nullptr);
  }

  void reserve_scratch(Launcher& launcher) {
    reserve(scratch_, bound_.scratch_bytes * launcher.workers.width());
    launcher.scratch = scratch_.data();
    launcher.scratch_stride = bound_.scratch_bytes;
  }

  template <class T>
  T read(BufferId buffer, int element) const {
    T value;
    std::memcpy(&value, memory_[buffer] + element * sizeof value, sizeof value);
    return value;
  }

  void prepare_outputs(const PlanStep& step, const RunOptions& options, const Launcher& launcher) {
    for (BufferId id : step.outputs) prepare(id, options, launcher);
  }

  /// Allocates a buffer that a step is about to write, unless it was placed before the run.
  void prepare(BufferId id, const RunOptions& options, const Launcher& launcher) {
    const PlanBuffer& buffer = plan().buffers[id];
    if (buffer.kind == BufferKind::output && !memory_[id]) give_output(id, options);
    if (buffer.kind != BufferKind::dynamic && buffer.kind != BufferKind::output) return;
    bound_.buffer_bytes[id] = values_.evaluate(buffer.bytes);
    if (launcher.checked) launcher.checked->resize(id, bound_.buffer_bytes[id]);
    if (buffer.kind == BufferKind::output) return;
    if (memory_[id] && blocks_[id].bytes() >= bound_.buffer_bytes[id]) return;
    release(id);
    hold(id, take(id, bound_.buffer_bytes[id]));
  }

  /// At least doubles a buffer that is too small, so that appending rows has an amortised constant cost.
  void grow(BufferId id, int64_t bytes) {
    int64_t held = memory_[id] ? blocks_[id].bytes() : 0;
    if (memory_[id] && held >= bytes) return;
    AlignedMemory larger = take(id, std::max(bytes, std::min(held, INT64_MAX / 2) * 2));
    std::copy_n(memory_[id], held, larger.data());
    release(id);
    hold(id, std::move(larger));
  }

  /// Takes a block from the pool, within the rest of the memory limit.
  AlignedMemory take(BufferId id, int64_t bytes) {
    int64_t most = program_->memory_limit() - program_->packed_bytes() - arena_.bytes() - scratch_.bytes();
    try {
      return pool_.take(bytes, std::max<int64_t>(most, 0));
    } catch (Error& error) {
      error.set_where(plan().buffers[id].value);
      throw;
    }
  }

  void hold(BufferId id, AlignedMemory block) {
    blocks_[id] = std::move(block);
    memory_[id] = blocks_[id].data();
    note_peak();
  }

  void swap_buffers(const std::vector<BufferId>& pairs, const Launcher& launcher) {
    for (size_t k = 0; k + 1 < pairs.size(); k += 2) swap_buffers(pairs[k], pairs[k + 1], launcher);
  }

  void swap_buffers(BufferId a, BufferId b, const Launcher& launcher) {
    if (launcher.checked) launcher.checked->swap(a, b);
    host_.swap(a, b);
    std::swap(memory_[a], memory_[b]);
    std::swap(blocks_[a], blocks_[b]);
    std::swap(bound_.buffer_bytes[a], bound_.buffer_bytes[b]);
  }

  void release(BufferId id) {
    if (!blocks_[id].data()) return;
    pool_.give_back(std::exchange(blocks_[id], {}));
    memory_[id] = nullptr;
  }
  void release_all() {
    for (BufferId id : program_->dynamic_buffers()) release(id);
  }

  /// Returns the bytes of all operands and results, which is the least memory traffic of the step.
  int64_t step_bytes(const PlanStep& step) const {
    int64_t total = 0;
    for (BufferId id : step.buffers) total += bound_.buffer_bytes[id];
    return total;
  }

  void show(StepId at, const PlanStep& step, const RunOptions& options) {
    for (BufferId id : step.outputs) {
      if (!is_whole_after(plan(), at, id)) continue;
      const PlanBuffer& buffer = plan().buffers[id];
      if (host_.is_container(id)) {
        options.observe(at.index(), buffer.value, host_.container(id));
        continue;
      }
      if (host_.is_text(id)) {
        options.observe(at.index(), buffer.value, host_.decode(values_.dims(buffer.shape.dims), memory_[id]));
        continue;
      }
      Tensor tensor{.dtype = buffer.shape.dtype, .dims = values_.dims(buffer.shape.dims)};
      tensor.data = Bytes::copy(std::span<const std::byte>(memory_[id], bound_.buffer_bytes[id]));
      options.observe(at.index(), buffer.value, tensor);
    }
  }

  std::shared_ptr<const CpuExecutable> program_;
  bool is_bound_ = false;
  std::vector<std::vector<int64_t>> input_sizes_;
  SymbolValues values_, known_;
  BoundSizes bound_;
  AlignedMemory arena_, scratch_;
  BlockPool<AlignedMemory> pool_;
  PerBuffer<AlignedMemory> blocks_;  // each buffer's block from the pool
  HostValues host_;
  PerBuffer<std::byte*> memory_;          // address of each buffer in this run
  std::vector<Tensor> inputs_, outputs_;  // of this run
  std::span<const Tensor> given_;         // the caller's inputs, without default values
  int64_t peak_ = 0;
};

std::unique_ptr<Context> CpuExecutable::new_context() const { return std::make_unique<CpuContext>(shared_from_this()); }

}  // namespace

std::shared_ptr<Executable> make_cpu_executable(ChipProgram program, const Host& host, Origin origin,
                                                CompileReport report) {
  return std::make_shared<CpuExecutable>(std::move(program), host, std::move(origin), std::move(report));
}

}  // namespace weft
