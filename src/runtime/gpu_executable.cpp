// SPDX-License-Identifier: Apache-2.0
#include "runtime/gpu_executable.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <utility>

#include "base/kept_file.h"
#include "base/random.h"
#include "base/watch.h"
#include "runtime/buckets.h"
#include "runtime/gpu_run.h"
#include "runtime/size_schedule.h"

namespace weft {
namespace {

// --- a request -------------------------------------------------------------------------------------------------------

class GpuContext final : public GpuRun {
 public:
  explicit GpuContext(std::shared_ptr<const GpuExecutable> program) : GpuRun(std::move(program)) {
    size_t words = 0;
    for (const PlanStep& step : plan().steps)
      words += step.sizes.size() + (knobs().checked ? 1 + 2 * step.buffers.size() : 0);
    auto bytes = static_cast<int64_t>(words * sizeof(int64_t));
    host_sizes_ = gpu::PinnedMemory(program_->gpu(), bytes);
    sizes_ = gpu::Memory(program_->gpu(), bytes);
  }

  ~GpuContext() override {
    try {
      settle();
    } catch (...) {  // the run has reported the error
    }
  }

  std::vector<Tensor> run(std::span<const Tensor> given, const RunOptions& options) override {
    program_->gpu()->use();
    std::vector<Tensor> inputs = with_defaults(program_->inputs(), given);
    bind(inputs, options);
    place_mailbox(options);
    const bool in_steps = needs_steps(options);
    queue_behind(options, in_steps);
    if (knobs().checked) begin_watching();
    place_inputs(inputs, options);
    std::vector<Tensor> outputs = place_outputs(inputs, options);
    if (in_steps) run_steps(options);
    else run_graph(options);
    fetch(options);
    check_read(inputs);
    return outputs;
  }

 private:
  /// A captured run. It may be replayed as long as buffers keep their addresses and library calls their algorithms.
  struct Captured {
    PerBuffer<std::byte*> memory;
    Works works;
    gpu::Graph graph;
  };
  struct Bucket {
    BucketPlan plan;
    std::vector<Captured> graphs;
    std::optional<std::chrono::nanoseconds> time_in_steps = {};  ///< duration of the last run without a captured graph
  };

  /// Returns the input elements that set sizes, in the order of the plan's steps (lower/control.cpp: lower_bind).
  std::vector<int64_t> sizes_in_inputs(std::span<const Tensor> inputs, const RunOptions& options) const {
    std::vector<int64_t> found;
    for (const PlanStep& step : plan().steps) {
      for (const SizeSetting& setting : step.settings()) {
        const PlanBuffer& buffer = plan().buffers[setting.buffer];
        found.push_back(element_of(inputs[buffer.index], setting.element, options));
      }
    }
    return found;
  }

  /// Computes the symbols' values for this run; returns false, without a change, if the last run had the same values.
  bool set_values(std::span<const Tensor> inputs, const RunOptions& options) {
    std::vector<std::vector<int64_t>> sizes;
    for (const Tensor& input : inputs) sizes.push_back(input.dims);
    bool same_types = std::ranges::equal(inputs, plan().inputs, {}, &Tensor::dtype,
                                         [](const Port& port) { return port.type.shape.dtype; });
    bool is_fresh = is_random(plan()), may_stay = bucket_ && !is_fresh && same_types && sizes == input_sizes_;
    if (may_stay && sizes_in_inputs(inputs, options) == sizes_in_inputs_) return false;
    bucket_ = nullptr;
    values_ = bind_symbols(plan().inputs, inputs);
    if (is_fresh) values_.set(std::string(run_seed), seed_of(options));
    sizes_in_inputs_ = sizes_in_inputs(inputs, options);
    size_t next = 0;
    for (const PlanStep& step : plan().steps) {
      if (step.is<SizesStep>()) set_sizes(step, [&](BufferId, int) { return sizes_in_inputs_[next++]; }, values_);
    }
    check_sizes(plan().checks, values_);
    input_sizes_ = std::move(sizes);
    return true;
  }

  /// Prepares buffers for the sizes of this run; plans a bucket if no bucket fits. Does nothing if no value changed.
  void bind(std::span<const Tensor> inputs, const RunOptions& options) {
    if (!set_values(inputs, options)) return;
    bytes_ = buffer_bytes(plan(), values_);
    SymbolValues bound = bucket_of(values_, plan());
    Bucket& bucket = buckets_[bound.all()];
    if (!bucket.plan.holds(bytes_, step_work(plan(), values_))) {
      BucketPlan planned = plan_bucket(plan(), values_, bound);
      check_device_memory(plan(), planned.bytes, planned.arena_bytes,
                          program_->packed_bytes() + program_->constant_bytes(), program_->memory_limit());
      program_->load_variants(planned.variants);
      bucket = {std::move(planned), {}};
    }
    if (arena_.bytes() < bucket.plan.arena_bytes) grow(bucket.plan.arena_bytes);
    upload_sizes(bucket.plan);
    memory_.assign(plan().buffers.size(), nullptr);
    for (BufferId i : memory_.ids()) {
      std::byte* fixed = program_->persistent(i);
      memory_[i] = fixed ? fixed : arena_.data() + bucket.plan.offsets[i];
    }
    works_.clear();
    for (const PlanStep& step : plan().steps) works_.push_back(program_->work_of(step, values_));
    bucket_ = &bucket;
  }

  /// Makes this run start after the previous run, which may be queued on another stream, because both use the context's
  /// memory. With `in_steps`, also waits for the caller's stream, because the steps run on the context's own stream.
  void queue_behind(const RunOptions& options, bool in_steps) {
    const gpu::Stream queue = stream_of(options);
    if (queued_.get()) queue.wait(queued_);
    if (options.stream && in_steps) queue.synchronize();
  }

  /// Waits for all work that earlier runs have queued.
  void settle() {
    stream_.synchronize();
    if (queued_.get()) queued_.synchronize();
  }

  void grow(int64_t bytes) {
    settle();
    for (auto& [values, bucket] : buckets_) bucket.graphs.clear();
    arena_ = {};
    arena_ = gpu::Memory(program_->gpu(), bytes, program_->allocator());
    peak_ = std::max(peak_, memory_bytes());
  }

  /// Allocates stamps for arena and output buffers in a checked run. A stamp identifies the block that wrote a byte.
  void place_stamps(const BucketPlan& bucket) {
    int64_t total = 0;
    watched_ = {.stamps = PerBuffer<std::byte*>(bytes_.size()), .blocks = bucket.blocks};
    auto is_followed = [&](BufferId i) {
      return plan().buffers[i].kind == BufferKind::arena || plan().buffers[i].kind == BufferKind::output;
    };
    for (BufferId i : bytes_.ids()) total += is_followed(i) ? bytes_[i] * stamp_bytes : 0;
    if (stamps_.bytes() < total) settle(), stamps_ = gpu::Memory(program_->gpu(), total, program_->allocator());
    std::byte* next = stamps_.data();
    for (BufferId i : bytes_.ids()) {
      if (is_followed(i)) watched_.stamps[i] = std::exchange(next, next + bytes_[i] * stamp_bytes);
    }
  }

  /// Marks all memory as unwritten, and fills working memory with NaNs.
  void begin_watching() const {
    stream_.fill(arena_.data(), 0xff, arena_.bytes());
    stream_.fill(stamps_.data(), 0, stamps_.bytes());
  }

  /// Marks as written the outputs of steps without checks, such as library calls and kernels with raw pointers.
  void forget_writes(StepId i) const {
    const PlanStep& step = plan().steps[i];
    bool is_seen =
        step.is<LaunchStep>() && !is_needless(i) && plan().kernels[kernel_of(i)].code.find("raw(") == std::string::npos;
    for (BufferId id : step.outputs) {
      if (!is_seen && watched_.stamps[id]) stream_.fill(watched_.stamps[id], 0xff, bytes_[id] * stamp_bytes);
    }
  }

  void upload_sizes(const BucketPlan& bucket) {
    if (knobs().checked) place_stamps(bucket);
    block_ = size_block(plan(), plan().steps, values_, bucket.variants, watched_);
    settle();  // the previous run may still read the sizes
    if (!block_.values.empty()) std::memcpy(host_sizes_.data(), block_.values.data(), host_sizes_.bytes());
    stream_.copy_to_device(sizes_.data(), host_sizes_.data(), sizes_.bytes());
    stream_.synchronize();
  }

  void place_inputs(std::span<const Tensor> inputs, const RunOptions& options) {
    for (BufferId i : memory_.ids()) {
      const PlanBuffer& buffer = plan().buffers[i];
      if (buffer.kind != BufferKind::input) continue;
      const std::byte* data = inputs[buffer.index].data.data();
      if (options.on_device) memory_[i] = const_cast<std::byte*>(data);
      else memory_[i] = arena_.data() + bucket_->plan.offsets[i];
      if (!options.on_device) stream_.copy_to_device(memory_[i], data, bytes_[i]);
    }
  }

  std::vector<Tensor> place_outputs(std::span<const Tensor> inputs, const RunOptions& options) {
    outputs_.assign(plan().outputs.size(), {});
    fetched_.clear();
    for (BufferId i : memory_.ids()) {
      if (plan().buffers[i].kind == BufferKind::output)
        give_output(i, inputs, options, [&] { return arena_.data() + bucket_->plan.offsets[i]; });
    }
    return std::move(outputs_);
  }

  /// True for a step that launches nothing: it only sets sizes, copies a buffer onto itself, or is replaced.
  bool is_needless(StepId i) const {
    const PlanStep& step = plan().steps[i];
    if (step.is<SizesStep>() || is_replaced(i)) return true;
    if (!step.moves) return false;
    BufferId from = step.moves, to = step.outputs[0];
    return memory_[from] == memory_[to] &&
           (step.moves_apart || known_equal(plan().buffers[from].bytes, plan().buffers[to].bytes));
  }

  /// Returns the kernel of launch step `i` at these sizes.
  KernelId kernel_of(StepId i) const {
    const LaunchStep& launch = launch_of(plan().steps[i]);
    VariantId variant = bucket_->plan.variants[i];
    return variant ? launch.variants[variant].kernel : launch.kernel;
  }

  /// True if this run launches its steps one by one: to profile, observe or check them; for a rank's first collectives,
  /// which cannot be captured; or if a deadline or stop callback may end the run early, because graphs do not stop.
  bool needs_steps(const RunOptions& options) const {
    constexpr auto short_run = std::chrono::milliseconds(100);
    if (options.profile || options.observe || knobs().checked) return true;
    if (!bucket_->time_in_steps) return options.rank || options.stop || options.deadline;
    if (options.stop && bucket_->time_in_steps > short_run) return true;
    return options.deadline && *options.deadline - std::chrono::steady_clock::now() < 2 * *bucket_->time_in_steps;
  }

  void launch_step(StepId i, bool overlap, Rank* rank) const {
    const PlanStep& step = plan().steps[i];
    if (step.is<LibraryStep>()) return call_library(i);
    if (step.is<CollectiveStep>()) return exchange(step, rank);
    program_->launch(stream_, step, kernel_of(i), bucket_->plan.blocks[i], memory_,
                     extras_of(block_, i, sizes_.data(), faults_.data()), overlap);
    damage(step, kernel_of(i));
  }

  void run_graph(const RunOptions& options) {
    const std::string last = plan().steps.empty() ? std::string() : plan().steps.back().source;
    Watch watch(options.deadline, options.stop);
    watch.check(last);
    auto is_it = [&](const Captured& c) { return c.memory == memory_ && c.works == works_; };
    auto known = std::ranges::find_if(bucket_->graphs, is_it);
    if (known == bucket_->graphs.end()) {
      constexpr size_t max_graphs = 8;
      if (bucket_->graphs.size() == max_graphs) bucket_->graphs.erase(bucket_->graphs.begin());
      if (debug_enabled(2, "gpu")) log_text(LogLevel::debug, cat("capturing ", plan().steps.size(), " steps"));
      stream_.synchronize();
      stream_.begin_capture();
      stream_.fill(faults_.data(), 0, faults_.bytes());
      bool is_ours = false;  // true if the previous launch was a kernel of Weft, which the next launch may overlap
      for (StepId i : plan().steps.ids()) {
        if (is_needless(i)) continue;
        launch_step(i, is_ours, options.rank);
        is_ours = plan().steps[i].is<LaunchStep>() && (is_ours || bucket_->plan.blocks[i] > 0);
      }
      bucket_->graphs.push_back({memory_, works_, stream_.end_capture()});
      known = bucket_->graphs.end() - 1;
    }
    const gpu::Stream queue = stream_of(options);
    queue.launch(known->graph);
    if (!watch.is_needed()) return;
    if (options.stream) queue.synchronize();
    else await_work(options);
    watch.check(last);
  }

  void run_steps(const RunOptions& options) {
    const auto begin = std::chrono::steady_clock::now();
    const auto& steps = plan().steps;
    Watch watch(options.deadline, options.stop);
    PerStep<gpu::Event> events;
    for (size_t i = 0; options.profile && i <= steps.size(); ++i) events.emplace_back(program_->gpu());
    stream_.fill(faults_.data(), 0, faults_.bytes());
    for (StepId i : steps.ids()) {
      watch.check(steps[i].source);
      if (options.profile) stream_.record(events[i]);
      if (knobs().checked) forget_writes(i);
      if (!is_needless(i)) launch_step(i, false, options.rank);
      if (options.observe) show(i, options);
      if (watch.is_needed()) await_work(options);
    }
    if (options.profile) stream_.record(events.back());
    await_work(options);
    bucket_->time_in_steps = std::chrono::steady_clock::now() - begin;
    if (!options.profile) return;
    for (StepId i : steps.ids()) {
      auto at = [&](StepId e) {
        return std::chrono::nanoseconds(static_cast<int64_t>(events[e].since(events.front()) * 1e6));
      };
      std::string kernel = bucket_->plan.variants[i] ? plan().kernels[kernel_of(i)].name : "";
      options.profile->push_back(
          {i.index(), at(i), at(i + 1), values_.evaluate(steps[i].flops), step_bytes(steps[i]), std::move(kernel)});
    }
  }

  void fetch(const RunOptions& options) {
    const gpu::Stream queue = stream_of(options);
    if (options.rank) await_work(options);  // else a copy to the host would hang after another rank has failed
    for (const Fetched& f : fetched_) {
      if (options.on_device) queue.copy_on_device(f.to, memory_[f.buffer], bytes_[f.buffer]);
      else queue.copy_to_host(f.to, memory_[f.buffer], bytes_[f.buffer]);
    }
    if (options.stream) {
      if (!queued_.get()) queued_ = gpu::Event(program_->gpu());
      queue.record(queued_);
      if (!knobs().checked) return;
    }
    check_faults(stream_, faults_, plan(), plan().steps, [&](StepId i) { return kernel_of(i); });
  }

  gpu::Event queued_;  // records the end of the last run on the caller's stream
  gpu::PinnedMemory host_sizes_;
  static constexpr int64_t stamp_bytes = sizeof(uint32_t);
  gpu::Memory stamps_;
  Watched watched_;
  std::map<std::map<std::string, int64_t, std::less<>>, Bucket> buckets_;
  Bucket* bucket_ = nullptr;  // the bucket of the current sizes
  std::vector<std::vector<int64_t>> input_sizes_;
  std::vector<int64_t> sizes_in_inputs_;
  SizeBlock block_;  // copied to the device
};

// --- no device -------------------------------------------------------------------------------------------------------

class NullExecutable final : public PlannedExecutable {
 public:
  using PlannedExecutable::PlannedExecutable;
  std::string device() const override { return cat("none (compiled for ", plan_.chip, ")"); }
  std::unique_ptr<Context> new_context() const override {
    throw Error({.kind = ErrorKind::unsupported,
                 .code = "E501",
                 .what = cat("a program compiled for ", plan_.chip, " does not run here"),
                 .hint = "save it and load it on a machine with that chip"});
  }

 private:
  std::string place_of(const PlanStep&) const override { return plan_.chip.arch; }
};

}  // namespace

std::unique_ptr<Context> GpuExecutable::new_context() const {
  if (is_led_by_host(plan_)) return new_led_context(shared_from_this());
  return std::make_unique<GpuContext>(shared_from_this());
}

std::shared_ptr<Executable> make_gpu_executable(ChipProgram program, std::shared_ptr<gpu::Device> device, Origin origin,
                                                CompileReport report, const Host& host) {
  return std::make_shared<GpuExecutable>(std::move(program), std::move(device), std::move(origin), std::move(report),
                                         host);
}

std::shared_ptr<Executable> make_null_executable(ChipProgram program, Origin origin, CompileReport report) {
  return std::make_shared<NullExecutable>(std::move(program), std::move(origin), std::move(report));
}

}  // namespace weft
