// SPDX-License-Identifier: Apache-2.0
// GPU runs in which the host decides which step comes next. The host reads back conditions and sizes, computes
// dependent sizes, copies data for steps on the CPU, and launches kernels one by one, in order.
//
// If the sizes of the inputs alone determine the steps (as in a recurrent network's loop), perhaps with some elements of
// inputs, the second run with the same sizes, elements and addresses captures the launches of all trips as one graph.
#include <cstring>
#include <map>

#include "base/kept_file.h"
#include "base/overloaded.h"
#include "base/random.h"
#include "base/strings.h"
#include "base/watch.h"
#include "runtime/blocks.h"
#include "runtime/buckets.h"
#include "runtime/gpu_run.h"
#include "runtime/size_schedule.h"

namespace weft {
namespace {

class LedContext final : public GpuRun {
 public:
  explicit LedContext(std::shared_ptr<const GpuExecutable> program)
      : GpuRun(std::move(program)),
        schedule_(plan()),
        pool_([this](int64_t bytes) { return gpu::Memory(program_->gpu(), bytes, program_->allocator()); }),
        blocks_(plan().buffers.size()),
        variants_(plan().steps.size()),
        ending_(plan().steps.size()),
        follows_from_sizes_(!knobs().checked && !is_random(plan()) && steps_follow_from_sizes()) {
    for (const PlanStep& step : plan().steps) {
      first_.push_back(words_.size());
      words_.resize(words_.size() + step.sizes.size() + (knobs().checked ? 1 + 2 * step.buffers.size() : 0));
    }
    sizes_ = gpu::Memory(program_->gpu(), static_cast<int64_t>(words_.size() * sizeof(int64_t)));
    pinned_ = gpu::PinnedMemory(program_->gpu(), sizes_.bytes() * rounds);
    for (const auto& part : program_->parts()) parts_.push_back(part->new_context());
    for (BufferId i : plan().buffers.ids()) {
      const PlanBuffer& buffer = plan().buffers[i];
      if (buffer.kind == BufferKind::dynamic && buffer.last_step) ending_[buffer.last_step].push_back(i);
    }
  }

  ~LedContext() override {
    try {
      stream_.synchronize();
      if (queued_.get()) queued_.synchronize();
    } catch (...) {  // the run has reported the error
    }
  }

  std::vector<Tensor> run(std::span<const Tensor> given, const RunOptions& options) override {
    program_->gpu()->use();
    inputs_ = with_defaults(program_->inputs(), given);
    bool may_queue = options.stream && options.on_device && may_capture(options) && !reads_inputs();
    if (!may_queue) await_queued(options);
    bind(options);
    place_ports(options);
    bool is_captured = run_captured(options, may_queue);
    if (!is_captured) {
      if (may_queue) await_queued(options);
      stream_.fill(faults_.data(), 0, faults_.bytes());
      update(schedule_.due({}));
      execute(options);
    }
    finish(options, is_captured && may_queue);
    check_read(inputs_);
    inputs_.clear();
    return std::move(outputs_);
  }

  int64_t memory_bytes() const override { return GpuRun::memory_bytes() + pool_.bytes(); }

 private:
  /// The addresses of buffers at these sizes, before any step swaps some of them.
  struct Placed {
    SymbolValues values;
    PerBuffer<int64_t> bytes;
    PerBuffer<std::byte*> memory;
    Works works;
  };
  /// A launch of a captured run; without a kernel it is a library call.
  struct Launched {
    StepId step;
    KernelId kernel;
    int64_t blocks;
    PerBuffer<std::byte*> memory;
    size_t sizes;  // index of the launch's first size in Trace::words
  };
  struct Trace {
    std::vector<Launched> launches;
    std::vector<int64_t> words;
  };
  /// The launches of a run with these sizes and addresses. They are captured as a graph at the second such run.
  struct Captured {
    SymbolValues values;
    PerBuffer<std::byte*> memory;
    Works works;
    bool is_too_long = false;
    gpu::Memory sizes = {};
    gpu::Graph graph = {};
  };

  /// Waits for the last run on the caller's stream and for all work that the caller has queued there.
  void await_queued(const RunOptions& options) const {
    if (queued_.get()) queued_.synchronize();
    if (options.stream) stream_of(options).synchronize();
  }

  // --- before the first step -----------------------------------------------------------------------------------------

  void bind(const RunOptions& options) {
    release_all();
    stream_.synchronize();
    sent_ = 0;
    values_ = bind_symbols(plan().inputs, inputs_);
    if (is_random(plan())) values_.set(std::string(run_seed), seed_of(options));
    if (follows_from_sizes_) read_inputs(options);
    check_sizes(plan().checks, values_);
    if (!placed_ || !(placed_->values == values_)) place();
    bytes_ = placed_->bytes, memory_ = placed_->memory, works_ = placed_->works;
    place_mailbox(options);
    on_device_ = options.on_device;
  }

  /// True if elements of inputs are sizes, or decide which steps run.
  bool reads_inputs() const {
    auto reads = [](const SizeSetting& setting) { return bool(setting.buffer); };
    return std::ranges::any_of(plan().steps,
                               [&](const PlanStep& s) { return std::ranges::any_of(s.settings(), reads); });
  }

  /// Sets the symbols that are elements of inputs, so that they tell captured runs apart.
  void read_inputs(const RunOptions& options) {
    for (const PlanStep& step : plan().steps) {
      for (const SizeSetting& setting : step.settings()) {
        if (!setting.buffer) continue;
        const Tensor& input = inputs_[plan().buffers[setting.buffer].index];
        values_.set(setting.symbol.name, element_of(input, setting.element, options));
      }
    }
  }

  /// Places inputs and working buffers with sizes that are known before the run.
  void place() {
    placed_.reset();
    bytes_.assign(plan().buffers.size(), 0);
    for (BufferId i : bytes_.ids()) {
      if (!program_->is_hosted(i) && !is_late(i)) bytes_[i] = values_.evaluate(plan().buffers[i].bytes);
    }
    DeviceLayout layout = place_on_device(plan(), bytes_);
    check_device_memory(plan(), bytes_, layout.bytes, program_->packed_bytes() + program_->constant_bytes(),
                        program_->memory_limit());
    if (arena_.bytes() < layout.bytes) {
      if (queued_.get()) queued_.synchronize();
      graphs_.clear();
      arena_ = {};
      arena_ = gpu::Memory(program_->gpu(), layout.bytes, program_->allocator());
      note_peak();
    }
    memory_.assign(bytes_.size(), nullptr);
    for (BufferId i : memory_.ids()) {
      BufferKind kind = plan().buffers[i].kind;
      bool is_placed = kind != BufferKind::dynamic && kind != BufferKind::output && kind != BufferKind::mailbox;
      memory_[i] = program_->persistent(i);
      if (!memory_[i] && is_placed) memory_[i] = arena_.data() + layout.offsets[i];
    }
    offsets_ = std::move(layout.offsets);
    works_.clear();  // an entry per step; null: no library call, or a call with run-time sizes
    for (const PlanStep& step : plan().steps) {
      const auto* use = step.as<LibraryStep>();
      works_.push_back(use && !use->call.has_symbols() ? program_->work_of(step, values_) : nullptr);
    }
    placed_ = Placed{values_, bytes_, memory_, works_};
  }

  /// True if the buffer's size is computed during the run.
  bool is_late(BufferId id) const {
    const PlanBuffer& buffer = plan().buffers[id];
    auto is_run_time = [&](const Dim& size) { return schedule_.is_run_time(size); };
    return is_run_time(buffer.bytes) ||
           (buffer.kind == BufferKind::output && std::ranges::any_of(buffer.shape.dims, is_run_time));
  }

  void place_ports(const RunOptions& options) {
    outputs_.assign(plan().outputs.size(), {});
    hosted_.assign(plan().buffers.size(), {});
    fetched_.clear();
    StringPool strings;
    for (const std::string& text : plan().strings) strings.code(text);
    for (BufferId i : memory_.ids()) {
      const PlanBuffer& buffer = plan().buffers[i];
      if (buffer.kind == BufferKind::input) place_input(i, inputs_[buffer.index]);
      if (buffer.kind == BufferKind::output && !program_->is_hosted(i) && !is_late(i)) place_output(i, options);
      if (buffer.kind != BufferKind::constant || !program_->is_hosted(i)) continue;
      const Tensor& codes = plan().constants[buffer.index];
      hosted_[i] = strings.decode(codes.dims, codes.as<int64_t>());
    }
  }

  /// Places an input. If the input is in host memory, also stores it in `hosted_`, so that it need not be copied back.
  void place_input(BufferId id, const Tensor& input) {
    if (program_->is_hosted(id) || !on_device_) hosted_[id] = input;
    if (program_->is_hosted(id)) return;
    if (on_device_) memory_[id] = const_cast<std::byte*>(input.data.data());
    else stream_.copy_to_device(memory_[id], input.data.data(), bytes_[id]);
  }

  void place_output(BufferId id, const RunOptions& options) {
    give_output(id, inputs_, options, [&] {
      if (!is_late(id)) return arena_.data() + offsets_[id];
      blocks_[id] = take(id, bytes_[id]);
      return blocks_[id].data();
    });
  }

  // --- captured runs -------------------------------------------------------------------------------------------------

  /// True if sizes, and elements of inputs, determine which steps run, how often and at which addresses: the host reads
  /// back nothing that a step computes.
  bool steps_follow_from_sizes() const {
    auto is_computed = [&](const SizeSetting& setting) {
      return !setting.buffer || plan().buffers[setting.buffer].kind == BufferKind::input;
    };
    auto is_fixed = [&](const PlanStep& step) {
      if (step.is<SizesStep>()) return std::ranges::all_of(step.settings(), is_computed);
      if (step.is<BranchStep>()) return step.buffers.empty();
      return step.is<LaunchStep>() || step.is<LibraryStep>() || step.is<JumpStep>() || step.is<SwapStep>();
    };
    for (BufferId i : plan().buffers.ids()) {
      if (plan().buffers[i].kind == BufferKind::dynamic || program_->is_hosted(i) || is_late(i)) return false;
    }
    return std::ranges::all_of(plan().steps, is_fixed);
  }

  bool may_capture(const RunOptions& options) const {
    return follows_from_sizes_ && !options.profile && !options.observe && !options.deadline && !options.stop;
  }

  /// Runs the steps as one graph. Returns false if that is not possible, for example at the first run with these sizes.
  /// `may_queue`: the graph runs on the caller's stream, and nothing waits for it.
  bool run_captured(const RunOptions& options, bool may_queue) {
    if (!may_capture(options)) return false;
    auto is_it = [&](const Captured& c) { return c.values == values_ && c.memory == memory_ && c.works == works_; };
    auto known = std::ranges::find_if(graphs_, is_it);
    if (known == graphs_.end()) {
      constexpr size_t max_graphs = 8;
      if (graphs_.size() == max_graphs) {
        if (queued_.get()) queued_.synchronize();
        graphs_.erase(graphs_.begin());
      }
      graphs_.push_back({.values = values_, .memory = memory_, .works = works_});
      return false;
    }
    if (!known->graph && !known->is_too_long) capture(*known, options);
    if (!known->graph) return false;
    const gpu::Stream queue = may_queue ? stream_of(options) : gpu::Stream(program_->gpu(), stream_.get());
    if (queued_.get()) queue.wait(queued_);
    queue.launch(known->graph);
    return true;
  }

  /// Records the launches of the steps in a trace without making them, then captures them as a graph.
  void capture(Captured& run, const RunOptions& options) {
    constexpr size_t most = 1 << 14;  // limit of launches; each costs about a microsecond to capture, and some memory
    Trace trace;
    trace_ = &trace;
    try {
      update(schedule_.due({}));
      for (StepId i(0); i < plan().steps.end_id() && trace.launches.size() <= most;) i = execute(i, options);
    } catch (...) {
      trace_ = nullptr;
      throw;
    }
    trace_ = nullptr;
    run.is_too_long = trace.launches.size() > most;
    if (!run.is_too_long) capture(run, trace);
    memory_ = run.memory, bytes_ = placed_->bytes, values_ = run.values;  // undoes what the traced steps changed
  }

  void capture(Captured& run, const Trace& trace) {
    if (debug_enabled(2, "gpu")) log_text(LogLevel::debug, cat("capturing ", trace.launches.size(), " launches"));
    run.sizes = gpu::Memory(program_->gpu(), std::ssize(trace.words) * static_cast<int64_t>(sizeof(int64_t)));
    stream_.copy_to_device(run.sizes.data(), trace.words.data(), run.sizes.bytes());
    stream_.synchronize();
    stream_.begin_capture();
    stream_.fill(faults_.data(), 0, faults_.bytes());
    bool is_ours = false;  // the previous launch was a kernel of Weft, so the next launch may overlap with it
    for (const Launched& launch : trace.launches) {
      memory_ = launch.memory;
      if (!launch.kernel) call_library(launch.step);
      else
        launch_kernel(launch.step, launch.kernel, launch.blocks, run.sizes.data() + launch.sizes * sizeof(int64_t),
                      is_ours);
      is_ours = launch.kernel && (is_ours || launch.blocks > 0);
    }
    run.graph = stream_.end_capture();
  }

  // --- the steps -----------------------------------------------------------------------------------------------------

  void execute(const RunOptions& options) {
    const auto& steps = plan().steps;
    Watch watch(options.deadline, options.stop);
    is_behind_kernel_ = false;
    std::vector<std::pair<StepId, gpu::Event>> begun;
    auto note = [&](StepId step) {
      if (!options.profile) return;
      begun.emplace_back(step, gpu::Event(program_->gpu()));
      stream_.record(begun.back().second);
    };
    for (StepId i(0); i < steps.end_id();) {
      watch.check(steps[i].source);
      note(i);
      if (options.profile || options.observe) is_behind_kernel_ = false;
      StepId next = execute(i, options);
      if (watch.is_needed()) stream_.synchronize();
      if (options.observe) show(i, options);
      for (BufferId id : ending_[i]) release(id);
      i = next;
    }
    note(steps.end_id());
    if (options.profile) write_profile(begun, *options.profile);
  }

  void write_profile(const std::vector<std::pair<StepId, gpu::Event>>& begun, std::vector<StepTime>& profile) const {
    stream_.synchronize();
    auto at = [&](size_t k) {
      return std::chrono::nanoseconds(static_cast<int64_t>(begun[k].second.since(begun[0].second) * 1e6));
    };
    for (size_t k = 0; k + 1 < begun.size(); ++k) {
      const PlanStep& step = plan().steps[begun[k].first];
      profile.push_back({begun[k].first.index(), at(k), at(k + 1), values_.evaluate(step.flops), step_bytes(step)});
    }
  }

  /// Runs one step and returns the id of the next.
  StepId execute(StepId i, const RunOptions& options) {
    const PlanStep& step = plan().steps[i];
    if (const auto* branch = step.as<BranchStep>()) return holds(*branch, step) ? i + 1 : branch->target;
    if (const auto* jump = step.as<JumpStep>()) return jump->target;
    if (step.is<GrowStep>() || step.is<CollectiveStep>()) is_behind_kernel_ = false;
    std::visit(
        Overloaded{[&](const SizesStep&) { set_from(step, i); }, [&](const SwapStep&) { swap_buffers(step.buffers); },
                   [&](const GrowStep& g) { grow(step.buffers[0], values_.evaluate(g.bytes)); },
                   [&](const HostStep& host) { move_hosted(host, step); },
                   [&](const CollectiveStep&) {
                     prepare_outputs(step, options);
                     if (is_replaced(i)) return;
                     exchange(step, options.rank);
                     await_work(options);  // here, because later waits do not notice a failed rank
                   },
                   [&](const PartStep&) {
                     run_part(i, options);
                     is_behind_kernel_ = false;
                   },
                   [&](const auto&) {  // a launch or a library call
                     prepare_outputs(step, options);
                     if (!is_needless(i)) launch(i);
                   }},
        step.action);
    return i + 1;
  }

  bool holds(const BranchStep& branch, const PlanStep& step) const {
    return step.buffers.empty() ? values_.evaluate(branch.amount) > 0 : is_true(step.buffers[0]);
  }

  /// Copies a string tensor or a container; the copy shares the data.
  void move_hosted(const HostStep& host, const PlanStep& step) {
    check(host.call.fn == HostFn::same, "a function of the host is in a part for the processor");
    hosted_[step.buffers[1]] = hosted_[step.buffers[0]];
  }

  /// True for a step that would copy an operand onto itself, or that another step replaces.
  bool is_needless(StepId i) const {
    const PlanStep& step = plan().steps[i];
    if (is_replaced(i)) return true;
    if (!step.moves) return false;
    BufferId from = step.moves, to = step.outputs[0];
    return memory_[from] == memory_[to] && (step.moves_apart || bytes_[from] == bytes_[to]);
  }

  void launch(StepId i) {
    const PlanStep& step = plan().steps[i];
    if (trace_) return note_launch(i);
    if (step.is<LibraryStep>()) {
      is_behind_kernel_ = false;
      return call_library(i);
    }
    if (knobs().checked) {
      write_sizes(i);
      send(first_[i], first_[i] + step.sizes.size() + 1 + 2 * step.buffers.size());
    }
    launch_kernel(i, kernel_of(i), blocks_of(i), sizes_.data() + first_[i] * sizeof(int64_t), is_behind_kernel_);
    is_behind_kernel_ = true;
  }

  void launch_kernel(StepId i, KernelId kernel, int64_t blocks, const std::byte* sizes, bool overlap) const {
    const PlanStep& step = plan().steps[i];
    Extras extras{.sizes = sizes,
                  .watched = knobs().checked ? sizes + step.sizes.size() * sizeof(int64_t) : nullptr,
                  .fault = faults_.data() ? faults_.data() + i.index() * sizeof(KernelFault) : nullptr};
    program_->launch(stream_, step, kernel, blocks, memory_, extras, overlap);
    damage(step, kernel);
  }

  void note_launch(StepId i) {
    const PlanStep& step = plan().steps[i];
    bool is_library = step.is<LibraryStep>();
    trace_->launches.push_back(
        {i, is_library ? KernelId() : kernel_of(i), is_library ? 0 : blocks_of(i), memory_, trace_->words.size()});
    if (!is_library)
      trace_->words.insert(trace_->words.end(), words_.begin() + first_[i],
                           words_.begin() + first_[i] + step.sizes.size());
  }

  const StepVariant* variant_of(StepId i) const {
    return variants_[i] ? &launch_of(plan().steps[i]).variants[variants_[i]] : nullptr;
  }
  KernelId kernel_of(StepId i) const {
    return variant_of(i) ? variant_of(i)->kernel : launch_of(plan().steps[i]).kernel;
  }
  int64_t blocks_of(StepId i) const {
    return std::max<int64_t>(
        values_.evaluate(variant_of(i) ? variant_of(i)->blocks : launch_of(plan().steps[i]).blocks), 0);
  }

  // --- sizes ---------------------------------------------------------------------------------------------------------

  /// Computes the sizes of the steps in `due` and copies them to the device.
  void update(const SizeSchedule::Due& due) {
    if (due.steps.empty()) return;
    for (StepId id : due.steps) {
      if (plan().steps[id].is<LaunchStep>()) write_sizes(id);
    }
    if (knobs().checked) return;  // a checked step sends its sizes itself, with its stamps
    StepId last = due.steps.back();
    send(first_[due.steps.front()], first_[last] + plan().steps[last].sizes.size());
  }

  /// Queues a copy of words [begin, end) to the device.
  void send(size_t begin, size_t end) {
    if (trace_) return;
    is_behind_kernel_ = false;
    auto bytes = static_cast<int64_t>((end - begin) * sizeof(int64_t));
    if (sent_ + bytes > pinned_.bytes()) stream_.synchronize(), sent_ = 0;
    std::byte* from = pinned_.data() + sent_;
    if (bytes > 0) std::memcpy(from, words_.data() + begin, bytes);
    stream_.copy_to_device(sizes_.data() + begin * sizeof(int64_t), from, bytes);
    sent_ += bytes;
  }

  void write_sizes(StepId i) {
    const PlanStep& step = plan().steps[i];
    const LaunchStep& launch = launch_of(step);
    VariantId chosen = variant_for(launch, launch.variants.empty() ? 0 : values_.evaluate(launch.work));
    if (chosen && chosen != variants_[i]) program_->load_kernel(launch.variants[chosen].kernel);
    variants_[i] = chosen;
    int64_t* to = words_.data() + first_[i];
    for (SizeId id : chosen ? launch.variants[chosen].sizes : step.sizes) *to++ = values_.evaluate(plan().sizes[id]);
    if (!knobs().checked) return;
    *to++ = 0;
    for (BufferId id : step.buffers)
      *to++ = bytes_[id], *to++ = 0;  // no address of stamps, because a loop may write the buffer again
  }

  void set_from(const PlanStep& step, StepId i) {
    std::map<BufferId, std::vector<int64_t>> contents;
    auto read = [&](BufferId id, int element) {
      auto [found, is_new] = contents.try_emplace(id);
      if (is_new) found->second = to_int64s(on_host(id));
      return found->second.at(element);
    };
    set_sizes(step, read, values_);
    update(schedule_.due(i));
  }

  bool is_true(BufferId id) const { return to_int64s(on_host(id)).at(0) != 0; }

  // --- the host's copies ---------------------------------------------------------------------------------------------

  /// Waits for the stream; throws if a kernel recorded a fault, before the host uses results.
  void settle() const {
    check_faults(stream_, faults_, plan(), plan().steps, [&](StepId i) { return kernel_of(i); });
  }

  /// Returns the contents of a buffer; waits if they are on the device.
  Tensor on_host(BufferId id) const {
    if (program_->is_hosted(id) || hosted_[id].data.data()) return hosted_[id];
    Tensor copy = GpuRun::contents(id);
    settle();
    return copy;
  }

  void run_part(StepId i, const RunOptions& options) {
    const PlanStep& step = plan().steps[i];
    PartId part = step.as<PartStep>()->part;
    const auto& names = plan().parts[part].names;
    auto size = step.sizes.begin();
    auto next_size = [&] { return values_.evaluate(plan().sizes[*size++]); };
    SymbolValues known;
    for (const std::string& name : names) known.set(name, next_size());
    std::vector<Tensor> operands;
    for (size_t k = 0; k < step.buffers.size() - step.outputs.size(); ++k) {
      operands.push_back(on_host(step.buffers[k]));
      std::vector<int64_t> dims(next_size());
      std::ranges::generate(dims, next_size);
      if (operands.back().is_tensor()) operands.back().dims = std::move(dims);
    }
    RunOptions inner{.deadline = options.deadline, .stop = options.stop, .sizes = &known};
    std::vector<Tensor> results = parts_[part]->run(operands, inner);
    auto told = [&](BufferId, int element) { return to_int64s(results.back()).at(element); };
    set_sizes(step, told, values_);
    update(schedule_.due(i));
    for (size_t k = 0; k < results.size(); ++k) take_result(step.outputs[k], results[k], options);
    stream_.synchronize();  // waits for the copies, because `results` is freed here
  }

  void take_result(BufferId id, const Tensor& result, const RunOptions& options) {
    if (program_->is_hosted(id)) {
      hosted_[id] = result;
      return;
    }
    prepare(id, options);
    check(static_cast<int64_t>(result.data.size()) == bytes_[id], "a part gives as many bytes as the plan says");
    stream_.copy_to_device(memory_[id], result.data.data(), bytes_[id]);
  }

  // --- memory --------------------------------------------------------------------------------------------------------

  void prepare_outputs(const PlanStep& step, const RunOptions& options) {
    for (BufferId id : step.outputs) prepare(id, options);
  }

  /// Allocates a buffer that a step is about to write, unless it was placed before the run.
  void prepare(BufferId id, const RunOptions& options) {
    const PlanBuffer& buffer = plan().buffers[id];
    if (buffer.kind == BufferKind::output && !memory_[id]) {
      bytes_[id] = values_.evaluate(buffer.bytes);
      place_output(id, options);
    }
    if (buffer.kind != BufferKind::dynamic) return;
    bytes_[id] = values_.evaluate(buffer.bytes);
    if (memory_[id] && blocks_[id].bytes() >= bytes_[id]) return;
    release(id);
    hold(id, take(id, bytes_[id]));
  }

  /// At least doubles a buffer that is too small, so that appending rows has an amortised constant cost.
  void grow(BufferId id, int64_t bytes) {
    int64_t held = memory_[id] ? blocks_[id].bytes() : 0;
    bytes_[id] = bytes;
    if (memory_[id] && held >= bytes) return;
    gpu::Memory larger = take(id, std::max(bytes, std::min(held, INT64_MAX / 2) * 2));
    if (held > 0) stream_.copy_on_device(larger.data(), memory_[id], held);
    release(id);
    hold(id, std::move(larger));
  }

  /// Takes a block from the pool, within the rest of the memory limit.
  gpu::Memory take(BufferId id, int64_t bytes) {
    int64_t held = program_->packed_bytes() + program_->constant_bytes() + arena_.bytes();
    if (program_->allocator().release) stream_.synchronize();  // the allocator may give released blocks to others
    try {
      return pool_.take(bytes, std::max<int64_t>(program_->memory_limit() - held, 0));
    } catch (Error& error) {
      error.set_where(plan().buffers[id].value);
      throw;
    }
  }

  void hold(BufferId id, gpu::Memory block) {
    blocks_[id] = std::move(block);
    memory_[id] = blocks_[id].data();
    note_peak();
  }

  void release(BufferId id) {
    if (!blocks_[id].data()) return;
    pool_.give_back(std::exchange(blocks_[id], {}));
    memory_[id] = nullptr;
  }
  void release_all() {
    for (gpu::Memory& block : blocks_) {
      if (block.data()) pool_.give_back(std::exchange(block, {}));
    }
  }

  void swap_buffers(const std::vector<BufferId>& pairs) {
    for (size_t k = 0; k + 1 < pairs.size(); k += 2) swap_buffers(pairs[k], pairs[k + 1]);
  }

  void swap_buffers(BufferId a, BufferId b) {
    std::swap(memory_[a], memory_[b]);
    std::swap(blocks_[a], blocks_[b]);
    std::swap(bytes_[a], bytes_[b]);
    std::swap(hosted_[a], hosted_[b]);
  }

  void note_peak() { peak_ = std::max(peak_, memory_bytes()); }

  // --- after the last step -------------------------------------------------------------------------------------------

  Tensor contents(BufferId id) const override { return on_host(id); }

  /// Ends a run: stores the outputs. `is_queued`: the run is a graph on the caller's stream, and `run` does not wait.
  void finish(const RunOptions& options, bool is_queued) {
    for (BufferId i : memory_.ids()) {
      const PlanBuffer& buffer = plan().buffers[i];
      if (buffer.kind != BufferKind::output) continue;
      if (program_->is_hosted(i)) outputs_[buffer.index] = hosted_[i];
      else prepare(i, options);  // places an output that no step wrote
    }
    if (is_queued) {
      const gpu::Stream queue = stream_of(options);
      for (const Fetched& f : fetched_) queue.copy_on_device(f.to, memory_[f.buffer], bytes_[f.buffer]);
      if (!queued_.get()) queued_ = gpu::Event(program_->gpu());
      queue.record(queued_);
      return;
    }
    settle();
    for (const Fetched& f : fetched_) {
      if (on_device_) stream_.copy_on_device(f.to, memory_[f.buffer], bytes_[f.buffer]);
      else stream_.copy_to_host(f.to, memory_[f.buffer], bytes_[f.buffer]);
    }
    stream_.synchronize();
    release_all();
    hosted_.clear();
  }

  SizeSchedule schedule_;
  BlockPool<gpu::Memory> pool_;
  PerBuffer<gpu::Memory> blocks_;  // the block that each buffer has from the pool
  static constexpr int64_t rounds = 16;
  gpu::PinnedMemory pinned_;    // copies of words_ that may still be in flight
  int64_t sent_ = 0;            // used bytes of pinned_
  std::vector<int64_t> words_;  // the sizes that steps pass to kernels; sizes_ is a copy in device memory
  PerStep<size_t> first_;
  PerStep<VariantId> variants_;            // none: the step's own kernel
  PerStep<std::vector<BufferId>> ending_;  // for each step: the dynamic buffers that no later step reads
  bool follows_from_sizes_;                // runs with equal values_ and addresses make equal launches
  std::optional<Placed> placed_;
  std::vector<Captured> graphs_;
  gpu::Event queued_;              // records the end of the last run that was queued as a graph on the caller's stream
  Trace* trace_ = nullptr;         // if set, launches are recorded in the trace and not made
  bool is_behind_kernel_ = false;  // the stream's last work is a kernel of Weft: the next launch may overlap it
  Table<std::unique_ptr<Context>, PartId> parts_;
  PerBuffer<int64_t> offsets_;  // in the arena
  std::vector<Tensor> inputs_;  // of this run
  PerBuffer<Tensor> hosted_;    // the host's value of each buffer: strings, containers, inputs
  bool on_device_ = false;      // inputs and outputs of this run are on the device
};

}  // namespace

std::unique_ptr<Context> new_led_context(std::shared_ptr<const GpuExecutable> program) {
  return std::make_unique<LedContext>(std::move(program));
}

}  // namespace weft
