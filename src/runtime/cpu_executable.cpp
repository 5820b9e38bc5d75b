// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu_executable.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/error.h"
#include "base/knobs.h"
#include "kernels/launch.h"
#include "runtime/arena.h"
#include "runtime/bind.h"
#include "runtime/saved.h"
#include "targets/cpu/object.h"
#include "targets/cpu/thread_pool.h"

namespace weft {
namespace {

using KernelEntry = void(const LaunchArgs*, i64 begin, i64 end);
using KernelPlan = void(const i64* sizes, i64* out);

struct FreeAligned {
  std::align_val_t alignment{64};
  void operator()(std::byte* p) const { ::operator delete(p, alignment); }
};

/// Memory aligned for the widest vectors. Large pieces lie on huge pages where the system has them: weights are read
/// once in a run, and each small page costs a walk through the page table.
class AlignedMemory {
 public:
  explicit AlignedMemory(int64_t bytes = 0) : bytes_(bytes) {
    if (bytes == 0) return;
    auto size = static_cast<size_t>(bytes);
    std::align_val_t alignment{static_cast<size_t>(bytes >= huge_page ? huge_page : 64)};
    data_ = {static_cast<std::byte*>(::operator new(size, alignment, std::nothrow)), FreeAligned{alignment}};
    if (!data_)
      throw Error(
          {.kind = ErrorKind::resource, .code = "E401", .what = cat("cannot allocate ", bytes, " bytes of memory")});
    if (bytes >= huge_page) ::madvise(data_.get(), size, MADV_HUGEPAGE);
  }
  std::byte* data() const { return data_.get(); }
  int64_t bytes() const { return bytes_; }

 private:
  static constexpr int64_t huge_page = 2 << 20;
  std::unique_ptr<std::byte, FreeAligned> data_;
  int64_t bytes_;
};

struct Kernel {
  KernelEntry* entry;
  KernelPlan* plan;
};

/// What a step needs at given sizes.
struct BoundStep {
  std::vector<int64_t> sizes;
  int64_t tasks = 0, scratch_bytes = 0;
};

/// All that depends on sizes alone; kept between runs of equal sizes.
struct BoundSizes {
  std::vector<BoundStep> steps;
  std::vector<int64_t> buffer_bytes;
  ArenaLayout arena;
  std::vector<int> arena_buffers;  // the buffer of each request of the layout
  int64_t scratch_bytes = 0;       // of one thread
};

struct StepRun {
  KernelEntry* entry;
  LaunchArgs args;
  std::byte* scratch;
  int64_t scratch_stride;

  static void run(void* context, int64_t begin, int64_t end, int worker) {
    const auto& step = *static_cast<StepRun*>(context);
    LaunchArgs args = step.args;
    args.scratch = step.scratch + worker * step.scratch_stride;
    step.entry(&args, begin, end);
  }
};

class CpuExecutable final : public Executable, public std::enable_shared_from_this<CpuExecutable> {
 public:
  CpuExecutable(Plan plan, Bytes image, int threads, CompileReport report)
      : plan_(std::move(plan)),
        image_(std::move(image)),
        object_(image_, plan_.program),
        pool_(ThreadPool::shared(threads)),
        report_(std::move(report)) {
    for (const PlanKernel& kernel : plan_.kernels) {
      kernels_.push_back(
          {object_.function<KernelEntry>(kernel.name), object_.function<KernelPlan>(cat(kernel.name, "_plan"))});
    }
    load();
  }

  const std::vector<Port>& inputs() const override { return plan_.inputs; }
  const std::vector<Port>& outputs() const override { return plan_.outputs; }
  const CompileReport& report() const override { return report_; }
  const std::map<std::string, std::string>& metadata() const override { return plan_.metadata; }
  std::unique_ptr<Context> new_context() const override;
  std::string device() const override {
    return cat("cpu (", plan_.chip.arch, plan_.chip.tune.empty() ? "" : cat(", ", plan_.chip.tune), "), ",
               pool_->width(), pool_->width() == 1 ? " thread" : " threads");
  }
  void save(const std::filesystem::path& path) const override { save_plan(path, plan_, image_); }

  std::vector<StepInfo> steps() const override {
    std::vector<StepInfo> list;
    for (const PlanStep& step : plan_.steps) list.push_back({kernel_name(step), step.source, "cpu", step.reason});
    return list;
  }

  const Plan& plan() const { return plan_; }
  ThreadPool& pool() const { return *pool_; }
  const std::string& kernel_name(const PlanStep& step) const {
    return plan_.kernels[static_cast<size_t>(step.kernel)].name;
  }
  std::byte* persistent(int buffer) const { return persistent_[static_cast<size_t>(buffer)]; }

  BoundSizes bind(const std::vector<PlanStep>& steps, const SymbolValues& values) const {
    BoundSizes bound;
    std::vector<std::optional<int64_t>> sizes;  // load steps run before any symbol has a value
    for (const Dim& size : plan_.sizes) {
      sizes.push_back(is_bound(size, values) ? std::optional(values.evaluate(size)) : std::nullopt);
    }
    for (const PlanStep& step : steps) bound.steps.push_back(bind(step, sizes));
    for (const BoundStep& step : bound.steps)
      bound.scratch_bytes = std::max(bound.scratch_bytes, (step.scratch_bytes + 63) / 64 * 64);
    return bound;
  }

  void place_buffers(BoundSizes& bound, const SymbolValues& values) const {
    std::vector<ArenaRequest> requests;
    for (size_t i = 0; i < plan_.buffers.size(); ++i) {
      const PlanBuffer& buffer = plan_.buffers[i];
      bound.buffer_bytes.push_back(values.evaluate(buffer.bytes));
      if (buffer.kind != BufferKind::arena || buffer.last_step < 0) continue;
      requests.push_back({bound.buffer_bytes.back(), buffer.first_step, buffer.last_step});
      bound.arena_buffers.push_back(static_cast<int>(i));
    }
    bound.arena = place(requests);
  }

  void run_step(const PlanStep& step, const BoundStep& bound, std::span<std::byte* const> memory, std::byte* scratch,
                int64_t scratch_stride) const {
    std::vector<void*> buffers;
    for (int id : step.buffers) buffers.push_back(memory[static_cast<size_t>(id)]);
    KernelFault fault;
    LaunchArgs args{.buffers = buffers.data(),
                    .sizes = reinterpret_cast<const i64*>(bound.sizes.data()),
                    .scratch_bytes = scratch_stride,
                    .fault = &fault};
    StepRun run{kernels_[static_cast<size_t>(step.kernel)].entry, args, scratch, scratch_stride};
    pool_->run(bound.tasks, &StepRun::run, &run);
    if (fault.raised) report_fault(step, fault);
    if (!knobs().break_kernel.empty() && kernel_name(step).find(knobs().break_kernel) != std::string::npos) {
      damage(step, memory);
    }
  }

 private:
  static bool is_bound(const Dim& dim, const SymbolValues& values) {
    bool all = true;
    dim.visit_symbols([&](const Symbol& symbol) { all &= values.find(symbol.name) != nullptr; });
    return all;
  }

  BoundStep bind(const PlanStep& step, const std::vector<std::optional<int64_t>>& sizes) const {
    BoundStep bound;
    for (int size : step.sizes) {
      auto index = static_cast<size_t>(size);
      if (!sizes[index])
        internal_error(cat(kernel_name(step), " runs before the size ", plan_.sizes[index], " is known"));
      bound.sizes.push_back(*sizes[index]);
    }
    i64 out[2] = {0, 0};
    kernels_[static_cast<size_t>(step.kernel)].plan(reinterpret_cast<const i64*>(bound.sizes.data()), out);
    bound.tasks = out[0];
    bound.scratch_bytes = out[1];
    return bound;
  }

  [[noreturn]] void report_fault(const PlanStep& step, const KernelFault& fault) const {
    if (fault.raised == 2) {
      throw Error({.kind = ErrorKind::usage,
                   .code = "E301",
                   .what = cat("index ", fault.offset, " is outside [", -fault.size, ", ", fault.size - 1, "]"),
                   .where = step.source});
    }
    int buffer = step.buffers[static_cast<size_t>(fault.buffer)];
    internal_error(cat("kernel ", kernel_name(step), " touches bytes ", fault.offset, " to ", fault.offset + fault.size,
                       " of '", plan_.buffers[static_cast<size_t>(buffer)].value, "', which has ", fault.bytes));
  }

  /// Testing aid: see the WEFT_BREAK_KERNEL knob.
  void damage(const PlanStep& step, std::span<std::byte* const> memory) const {
    for (int id : step.outputs) {
      const PlanBuffer& buffer = plan_.buffers[static_cast<size_t>(id)];
      if (buffer.shape.dtype == DType::f32) *reinterpret_cast<float*>(memory[static_cast<size_t>(id)]) += 1000;
    }
  }

  /// Constants stay where they are (the mapped model); load steps fill the persistent buffers.
  void load() {
    SymbolValues none;
    int64_t total = 0;
    persistent_.resize(plan_.buffers.size());
    std::vector<int64_t> offsets(plan_.buffers.size());
    for (size_t i = 0; i < plan_.buffers.size(); ++i) {
      const PlanBuffer& buffer = plan_.buffers[i];
      if (buffer.kind != BufferKind::persistent) continue;
      offsets[i] = total;
      total += (none.evaluate(buffer.bytes) + 63) / 64 * 64;
    }
    memory_ = AlignedMemory(total);
    for (size_t i = 0; i < plan_.buffers.size(); ++i) {
      const PlanBuffer& buffer = plan_.buffers[i];
      if (buffer.kind == BufferKind::persistent) persistent_[i] = memory_.data() + offsets[i];
      if (buffer.kind == BufferKind::constant) {
        persistent_[i] = const_cast<std::byte*>(plan_.constants[static_cast<size_t>(buffer.index)].data.data());
      }
    }
    BoundSizes bound = bind(plan_.load_steps, none);
    AlignedMemory scratch(bound.scratch_bytes * pool_->width());
    for (size_t i = 0; i < plan_.load_steps.size(); ++i)
      run_step(plan_.load_steps[i], bound.steps[i], persistent_, scratch.data(), bound.scratch_bytes);
    report_.constant_bytes = total;
  }

  Plan plan_;
  Bytes image_;
  LoadedObject object_;
  std::shared_ptr<ThreadPool> pool_;
  CompileReport report_;
  std::vector<Kernel> kernels_;
  AlignedMemory memory_;
  std::vector<std::byte*> persistent_;  // address of each persistent and constant buffer
};

class CpuContext final : public Context {
 public:
  explicit CpuContext(std::shared_ptr<const CpuExecutable> program) : program_(std::move(program)) {}

  std::vector<Tensor> run(std::span<const Tensor> given, const RunOptions& options) override {
    std::vector<Tensor> inputs = with_defaults(program_->inputs(), given);
    bind(inputs);
    std::vector<Tensor> outputs = bind_outputs(options);
    for (size_t i = 0; i < program_->plan().buffers.size(); ++i) {
      const PlanBuffer& buffer = program_->plan().buffers[i];
      if (buffer.kind == BufferKind::input)
        memory_[i] = const_cast<std::byte*>(inputs[static_cast<size_t>(buffer.index)].data.data());
    }
    execute(options);
    return outputs;
  }

  size_t memory_bytes() const override { return static_cast<size_t>(arena_.bytes() + scratch_.bytes()); }
  size_t peak_memory_bytes() const override { return peak_; }

 private:
  const Plan& plan() const { return program_->plan(); }

  /// Sizes as in the last run cost nothing.
  void bind(std::span<const Tensor> inputs) {
    std::vector<std::vector<int64_t>> sizes;
    for (size_t i = 0; i < inputs.size(); ++i) sizes.push_back(inputs[i].dims);
    if (is_bound_ && sizes == input_sizes_) {
      for (size_t i = 0; i < inputs.size(); ++i) {
        if (inputs[i].dtype != plan().inputs[i].type.shape.dtype) is_bound_ = false;
      }
      if (is_bound_) return;
    }
    is_bound_ = false;
    values_ = bind_symbols(plan().inputs, inputs);
    check_sizes(plan().checks, values_);
    bound_ = program_->bind(plan().steps, values_);
    program_->place_buffers(bound_, values_);
    reserve();
    input_sizes_ = std::move(sizes);
    is_bound_ = true;
  }

  void reserve() {
    int64_t scratch = bound_.scratch_bytes * program_->pool().width();
    if (arena_.bytes() < bound_.arena.bytes) arena_ = AlignedMemory(bound_.arena.bytes);
    if (scratch_.bytes() < scratch) scratch_ = AlignedMemory(scratch);
    peak_ = std::max(peak_, memory_bytes());
    memory_.assign(plan().buffers.size(), nullptr);
    for (size_t i = 0; i < memory_.size(); ++i) memory_[i] = program_->persistent(static_cast<int>(i));
    for (size_t i = 0; i < bound_.arena_buffers.size(); ++i) {
      memory_[static_cast<size_t>(bound_.arena_buffers[i])] = arena_.data() + bound_.arena.offsets[i];
    }
  }

  std::vector<Tensor> bind_outputs(const RunOptions& options) {
    std::vector<Tensor> outputs(plan().outputs.size());
    for (size_t i = 0; i < plan().buffers.size(); ++i) {
      const PlanBuffer& buffer = plan().buffers[i];
      if (buffer.kind != BufferKind::output) continue;
      auto index = static_cast<size_t>(buffer.index);
      const Shape& shape = plan().outputs[index].type.shape;
      std::vector<int64_t> dims = values_.dims(shape.dims);
      std::byte* memory = nullptr;
      auto given = output_memory(options, index, dims, static_cast<size_t>(bound_.buffer_bytes[i]));
      if (given.data()) {
        memory = users_memory(given, bound_.buffer_bytes[i], plan().outputs[index].name);
        outputs[index] = {
            .dtype = shape.dtype,
            .dims = std::move(dims),
            .data = Bytes(std::span<const std::byte>(memory, static_cast<size_t>(bound_.buffer_bytes[i])), nullptr)};
      } else {
        MutableTensor made = allocate_tensor(shape.dtype, std::move(dims));
        memory = made.data;
        outputs[index] = std::move(made.tensor);
      }
      memory_[i] = memory;
    }
    return outputs;
  }

  static std::byte* users_memory(std::span<std::byte> given, int64_t needed, const std::string& name) {
    if (static_cast<int64_t>(given.size()) < needed) {
      throw Error({.kind = ErrorKind::usage,
                   .code = "E313",
                   .what = cat("the memory for output '", printable(name), "' has ", given.size(), " bytes when ",
                               needed, " are needed")});
    }
    return given.data();
  }

  void execute(const RunOptions& options) {
    auto start = std::chrono::steady_clock::now();
    auto now = [&] { return std::chrono::steady_clock::now() - start; };
    for (size_t i = 0; i < plan().steps.size(); ++i) {
      const PlanStep& step = plan().steps[i];
      if (options.deadline && std::chrono::steady_clock::now() > *options.deadline) {
        throw Error({.kind = ErrorKind::resource, .code = "E403", .what = "the deadline passed", .where = step.source});
      }
      auto begin = now();
      program_->run_step(step, bound_.steps[i], memory_, scratch_.data(), bound_.scratch_bytes);
      if (options.profile)
        options.profile->push_back({i, begin, now(), values_.evaluate(step.flops), step_bytes(step)});
      if (options.observe) show(i, step, options);
    }
  }

  /// Bytes of all operands and results: the least that the step must move.
  int64_t step_bytes(const PlanStep& step) const {
    int64_t total = 0;
    for (int id : step.buffers) total += bound_.buffer_bytes[static_cast<size_t>(id)];
    return total;
  }

  void show(size_t index, const PlanStep& step, const RunOptions& options) {
    for (int id : step.outputs) {
      const PlanBuffer& buffer = plan().buffers[static_cast<size_t>(id)];
      Tensor tensor{.dtype = buffer.shape.dtype, .dims = values_.dims(buffer.shape.dims)};
      tensor.data = Bytes::copy(std::span<const std::byte>(
          memory_[static_cast<size_t>(id)], static_cast<size_t>(bound_.buffer_bytes[static_cast<size_t>(id)])));
      options.observe(index, buffer.value, tensor);
    }
  }

  std::shared_ptr<const CpuExecutable> program_;
  bool is_bound_ = false;
  std::vector<std::vector<int64_t>> input_sizes_;
  SymbolValues values_;
  BoundSizes bound_;
  AlignedMemory arena_, scratch_;
  std::vector<std::byte*> memory_;  // address of each buffer in this run
  size_t peak_ = 0;
};

std::unique_ptr<Context> CpuExecutable::new_context() const { return std::make_unique<CpuContext>(shared_from_this()); }

}  // namespace

std::shared_ptr<Executable> make_cpu_executable(Plan plan, Bytes image, int threads, CompileReport report) {
  return std::make_shared<CpuExecutable>(std::move(plan), std::move(image), threads, std::move(report));
}

}  // namespace weft
