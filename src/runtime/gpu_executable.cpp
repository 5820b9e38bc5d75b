// SPDX-License-Identifier: Apache-2.0
#include "runtime/gpu_executable.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "base/chip_features.h"
#include "base/error.h"
#include "base/kept_file.h"
#include "base/knobs.h"
#include "base/log.h"
#include "base/parallel.h"
#include "base/random.h"
#include "base/watch.h"
#include "kernels/launch.h"
#include "runtime/buckets.h"
#include "runtime/faults.h"
#include "runtime/memory_limit.h"
#include "runtime/outputs.h"
#include "runtime/saved.h"
#include "runtime/sharing.h"
#include "runtime/size_schedule.h"
#include "targets/gpu/device.h"
#include "targets/gpu/libraries.h"

namespace weft {
namespace {

// --- code ------------------------------------------------------------------------------------------------------------

/// Bytes of the ELF file that begins here: its table of sections comes last.
size_t elf_size(std::span<const std::byte> file) {
  constexpr size_t header = 64, at_table = 0x28, at_entry_size = 0x3a, at_count = 0x3c;
  uint64_t table = 0;
  uint16_t entry = 0, count = 0;
  if (file.size() >= header) {
    std::memcpy(&table, file.data() + at_table, sizeof table);
    std::memcpy(&entry, file.data() + at_entry_size, sizeof entry);
    std::memcpy(&count, file.data() + at_count, sizeof count);
  }
  uint64_t size = table + uint64_t{entry} * count;
  check(size >= header && table < file.size() && size <= file.size(), "an image holds whole code objects");
  return size;
}

/// There is a module for each kernel (base/codegen.h): PTX ends with a zero byte, code objects begin on 64 bytes.
std::vector<std::span<const std::byte>> modules_of(std::span<const std::byte> image, const Chip& chip) {
  std::vector<std::span<const std::byte>> modules;
  while (!image.empty()) {
    size_t size = chip.kind == ChipKind::nvidia
                      ? static_cast<size_t>(std::ranges::find(image, std::byte{0}) - image.begin()) + 1
                      : elf_size(image);
    modules.push_back(image.first(std::min(size, image.size())));
    size_t next = chip.kind == ChipKind::nvidia ? size : (size + 63) / 64 * 64;
    image = image.subspan(std::min(next, image.size()));
  }
  return modules;
}

/// The driver compiles PTX, so modules are loaded by several threads at once, and those of kernels that only some sizes
/// ask for with the first sizes that do.
class Code {
 public:
  /// The image and the plan stay where they are.
  Code(const std::shared_ptr<gpu::Device>& device, const Bytes& image, const Plan& plan)
      : device_(device),
        plan_(plan),
        parts_(modules_of(image, plan.chip)),
        modules_(plan.kernels.size()),
        functions_(plan.kernels.size()) {
    std::set<int> kernels;
    for (const auto* steps : {&plan.load_steps, &plan.steps}) {
      for (const PlanStep& step : *steps) {
        if (step.kind == StepKind::kernel) kernels.insert(step.kernel);
      }
    }
    load(kernels);
  }
  /// Makes these ready to be launched. Any thread may ask.
  void load(std::set<int> kernels) const {
    std::scoped_lock lock(mutex_);
    std::erase_if(kernels, [&](int k) { return functions_[static_cast<size_t>(k)] != nullptr; });
    std::vector<int> missing(kernels.begin(), kernels.end());
    run_parallel(missing.size(), std::max(1U, std::thread::hardware_concurrency()), [&](size_t i) {
      auto k = static_cast<size_t>(missing[i]);
      const PlanKernel& kernel = plan_.kernels[k];
      gpu::Module module(device_, part_of(kernel.name), plan_.program);
      functions_[k] = module.function(kernel.name, kernel.shared_bytes);
      modules_[k] = std::move(module);
    });
  }
  gpu::Handle function(int kernel) const { return functions_[static_cast<size_t>(kernel)]; }

 private:
  std::span<const std::byte> part_of(const std::string& kernel) const {
    std::string ptx = cat(".entry ", kernel, "("), symbol = cat(kernel, ".kd");
    for (std::span<const std::byte> part : parts_) {
      std::string_view text = as_text(part);
      if (text.find(ptx) != text.npos || text.find(symbol) != text.npos) return part;
    }
    internal_error(cat("no module holds the kernel ", kernel));
  }

  std::shared_ptr<gpu::Device> device_;
  const Plan& plan_;
  std::vector<std::span<const std::byte>> parts_;
  mutable std::mutex mutex_;
  mutable std::vector<gpu::Module> modules_;
  mutable std::vector<gpu::Handle> functions_;
};

/// What a kernel gets besides its buffers: memory of the device.
struct Extras {
  const void* sizes = nullptr;
  const void* watched = nullptr;  ///< of checked kernels
  const void* fault = nullptr;
};

/// A kernel's one argument, as kernels/launch.h: DeviceArgs lays it out.
std::vector<std::byte> pack_arguments(std::span<void* const> buffers, const Extras& extras) {
  std::vector<const void*> words(buffers.begin(), buffers.end());
  words.insert(words.end(), {extras.sizes, extras.watched, extras.fault});
  auto bytes = std::as_bytes(std::span(words));
  return {bytes.begin(), bytes.end()};
}

/// The sizes that each step passes, one after another: what one copy brings to the device. Those of checked kernels are
/// followed by what they watch (DeviceArgs::watched).
struct SizeBlock {
  std::vector<int64_t> values;
  std::vector<size_t> first, first_watched;  ///< of each step
};

/// What checked kernels of a run watch: the memory for stamps of each buffer, and the blocks of each step.
struct Watched {
  std::vector<std::byte*> stamps = {};  ///< null: not followed
  std::vector<int64_t> blocks = {};
};

/// `variants`: as of BucketPlan; without any all steps launch their own kernels.
SizeBlock size_block(const Plan& plan, const std::vector<PlanStep>& steps, const SymbolValues& values,
                     const std::vector<int>& variants = {}, const Watched& watched = {}) {
  SizeBlock block;
  int64_t last_stamp = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    block.first.push_back(block.values.size());
    int variant = variants.empty() ? -1 : variants[i];
    const auto& sizes = variant < 0 ? steps[i].sizes : steps[i].variants[static_cast<size_t>(variant)].sizes;
    for (int id : sizes) block.values.push_back(values.evaluate(plan.sizes[static_cast<size_t>(id)]));
    block.first_watched.push_back(block.values.size());
    if (!knobs().checked) continue;
    block.values.push_back(last_stamp);
    if (!watched.blocks.empty()) last_stamp += watched.blocks[i];
    for (int id : steps[i].buffers) {
      auto buffer = static_cast<size_t>(id);
      block.values.push_back(values.evaluate(plan.buffers[buffer].bytes));
      block.values.push_back(watched.stamps.empty() ? 0 : reinterpret_cast<int64_t>(watched.stamps[buffer]));
    }
  }
  return block;
}

/// The extras of step `i`, whose block lies at `sizes`; `faults` may be null.
Extras extras_of(const SizeBlock& block, size_t i, const std::byte* sizes, const std::byte* faults) {
  return {.sizes = sizes + block.first[i] * sizeof(int64_t),
          .watched = knobs().checked ? sizes + block.first_watched[i] * sizeof(int64_t) : nullptr,
          .fault = faults ? faults + i * sizeof(KernelFault) : nullptr};
}

/// Waits for the stream, then throws the first fault that a launch noted; `kernel_of(i)` is what step `i` launched.
template <class KernelOf>
void check_faults(const gpu::Stream& stream, const gpu::Memory& faults, const Plan& plan,
                  const std::vector<PlanStep>& steps, const KernelOf& kernel_of) {
  std::vector<KernelFault> noted(faults.data() ? steps.size() : 0);
  stream.copy_to_host(noted.data(), faults.data(), faults.bytes());
  stream.synchronize();
  for (size_t i = 0; i < noted.size(); ++i) {
    if (noted[i].kind != FaultKind::none) report_fault(plan, steps[i], kernel_of(i), noted[i]);
  }
}

// --- the program -----------------------------------------------------------------------------------------------------

class GpuExecutable final : public Executable, public std::enable_shared_from_this<GpuExecutable> {
 public:
  GpuExecutable(ChipProgram program, std::shared_ptr<gpu::Device> device, Origin origin, CompileReport report,
                const Host& host)
      : plan_(std::move(program.plan)),
        image_(std::move(program.image)),
        origin_(std::move(origin)),
        device_(std::move(device)),
        allocator_(host.allocator),
        memory_limit_(limit_of(host, device_->info().memory)),
        code_(device_, image_, plan_),
        report_(std::move(report)) {
    load();
  }

  const std::vector<Port>& inputs() const override { return plan_.inputs; }
  const std::vector<Port>& outputs() const override { return plan_.outputs; }
  const CompileReport& report() const override { return report_; }
  const std::map<std::string, std::string>& metadata() const override { return plan_.metadata; }
  std::unique_ptr<Context> new_context() const override;
  std::string device() const override {
    return cat(device_->name(), " (", device_->info().name, ", ", plan_.chip.arch, ")");
  }
  SavedProgram saved() const override {
    auto call = std::ranges::find(plan_.steps, StepKind::library, &PlanStep::kind);
    if (call == plan_.steps.end()) return saved_program(origin_, plan_, image_);
    throw Error({.kind = ErrorKind::unsupported,
                 .code = "E406",
                 .what = cat("the program calls ", call->call.library, ", which other machines may not have"),
                 .hint = "`weft compile` writes one with Weft's own kernels"});
  }
  /// What runs read is on the device already.
  void detach() override {
    for (Tensor& constant : plan_.constants) constant.data = {};
    origin_ = {};
  }
  std::vector<std::string> notes() const override { return donation_notes(plan_); }
  std::vector<StepInfo> steps() const override {
    std::vector<StepInfo> list;
    for (const PlanStep& step : plan_.steps)
      list.push_back({step_name(plan_, step), step.source, device_->name(), step.reason});
    return list;
  }

  const Plan& plan() const { return plan_; }
  const std::shared_ptr<gpu::Device>& gpu() const { return device_; }
  const HostAllocator& allocator() const { return allocator_; }
  int64_t memory_limit() const { return memory_limit_; }
  bool notes_faults() const { return knobs().checked || std::ranges::any_of(plan_.kernels, &PlanKernel::notes_faults); }
  int64_t packed_bytes() const { return packed_.bytes(); }
  int64_t constant_bytes() const { return constants_.bytes(); }
  std::byte* persistent(size_t buffer) const { return persistent_[buffer]; }

  /// `variants`: of each step, as of BucketPlan.
  void load_variants(const std::vector<int>& variants) const {
    std::set<int> kernels;
    for (size_t i = 0; i < variants.size(); ++i) {
      if (variants[i] >= 0) kernels.insert(plan_.steps[i].variants[static_cast<size_t>(variants[i])].kernel);
    }
    code_.load(std::move(kernels));
  }

  /// The work of a step that calls a library, at these sizes; null where the library has no way for sizes that were
  /// open when the program was compiled: then the step after it does the same.
  std::shared_ptr<const gpu::LibraryWork> work_of(const PlanStep& step, const SymbolValues& values) const {
    if (step.kind != StepKind::library) return nullptr;
    LibraryCall call = step.call.at([&](const Dim& size) { return values.evaluate(size); });
    try {
      return gpu::prepare(device_, call);
    } catch (const Error& error) {
      if (!call.is_open) throw;
      if (debug_enabled(1, "gpu")) log_text(LogLevel::debug, cat(step.source, ": ", error.info().what));
      return nullptr;
    }
  }

  /// `overlap`: the launch before in the stream is one of ours too, which this one's threads wait for.
  void launch(const gpu::Stream& stream, const PlanStep& step, int kernel, int64_t blocks,
              std::span<std::byte* const> memory, const Extras& extras, bool overlap) const {
    std::vector<void*> buffers;
    for (int id : step.buffers) buffers.push_back(memory[static_cast<size_t>(id)]);
    const PlanKernel& k = plan_.kernels[static_cast<size_t>(kernel)];
    stream.launch(code_.function(kernel),
                  {.blocks = blocks,
                   .threads = k.threads,
                   .shared_bytes = k.shared_bytes,
                   .cluster = k.cluster,
                   .overlap = overlap && may_overlap_},
                  pack_arguments(buffers, extras));
  }

 private:
  /// One piece of device memory for all buffers of a kind; `memory` gets the addresses.
  gpu::Memory reserve(BufferKind kind, const std::vector<bool>& wanted) {
    std::vector<int64_t> offsets(plan_.buffers.size());
    int64_t total = 0;
    auto taken = [&](size_t i) { return plan_.buffers[i].kind == kind && wanted[i]; };
    for (size_t i = 0; i < plan_.buffers.size(); ++i) {
      if (!taken(i)) continue;
      offsets[i] = total;
      total += (std::max<int64_t>(plan_.buffers[i].bytes.value(), 1) + 255) / 256 * 256;
    }
    gpu::Memory memory(device_, total, allocator_);
    for (size_t i = 0; i < plan_.buffers.size(); ++i) {
      if (taken(i)) persistent_[i] = memory.data() + offsets[i];
    }
    return memory;
  }

  std::vector<bool> used_by(const std::vector<PlanStep>& steps) const {
    std::vector<bool> used(plan_.buffers.size());
    for (const PlanStep& step : steps) {
      for (int id : step.buffers) used[static_cast<size_t>(id)] = true;
    }
    return used;
  }

  /// What is asked for, else all of the device's memory.
  static int64_t limit_of(const Host& host, int64_t whole) {
    if (host.memory_limit > 0) return host.memory_limit;
    return knobs().memory_limit > 0 ? knobs().memory_limit << 20 : whole;
  }

  /// Constants that only packing reads are on the device just while it runs.
  void load() {
    for (const PlanStep& step : plan_.steps) {
      check(step.kind == StepKind::kernel || step.kind == StepKind::library || step.kind == StepKind::sizes,
            "a program of a GPU has no steps of the host");
      if (step.kind == StepKind::library && !step.call.has_symbols()) work_of(step, {});  // refused at once
    }
    persistent_.resize(plan_.buffers.size());
    std::vector<bool> run = used_by(plan_.steps), once = used_by(plan_.load_steps);
    for (size_t i = 0; i < once.size(); ++i) once[i] = once[i] && !run[i];
    check_device_weights(plan_, run, memory_limit_);
    packed_ = reserve(BufferKind::persistent, std::vector<bool>(plan_.buffers.size(), true));
    constants_ = reserve(BufferKind::constant, run);
    gpu::Memory temporary = reserve(BufferKind::constant, once);
    gpu::Stream stream(device_);
    for (size_t i = 0; i < plan_.buffers.size(); ++i) {
      const PlanBuffer& buffer = plan_.buffers[i];
      if (buffer.kind != BufferKind::constant || !persistent_[i]) continue;
      const Tensor& tensor = plan_.constants[static_cast<size_t>(buffer.index)];
      stream.copy_to_device(persistent_[i], tensor.data.data(), static_cast<int64_t>(tensor.data.size()));
    }
    run_load_steps(stream);
    report_.constant_bytes = packed_.bytes() + constants_.bytes();
  }

  void run_load_steps(const gpu::Stream& stream) {
    SymbolValues none;
    SizeBlock block = size_block(plan_, plan_.load_steps, none);
    gpu::Memory sizes(device_, static_cast<int64_t>(block.values.size() * sizeof(int64_t)));
    stream.copy_to_device(sizes.data(), block.values.data(), sizes.bytes());
    const auto& steps = plan_.load_steps;
    gpu::Memory faults(device_, knobs().checked ? static_cast<int64_t>(steps.size() * sizeof(KernelFault)) : 0);
    stream.fill(faults.data(), 0, faults.bytes());
    for (size_t i = 0; i < steps.size(); ++i) {
      launch(stream, steps[i], steps[i].kernel, none.evaluate(steps[i].blocks), persistent_,
             extras_of(block, i, sizes.data(), faults.data()), false);
    }
    check_faults(stream, faults, plan_, steps, [&](size_t i) { return steps[i].kernel; });
  }

  Plan plan_;
  Bytes image_;
  Origin origin_;
  std::shared_ptr<gpu::Device> device_;
  HostAllocator allocator_;
  int64_t memory_limit_;
  Code code_;
  CompileReport report_;
  bool may_overlap_ = knobs().gpu_overlap && gpu_model(plan_.chip.arch).early_launch;
  gpu::Memory packed_, constants_;
  std::vector<std::byte*> persistent_;  // address of each persistent and constant buffer
};

// --- a request -------------------------------------------------------------------------------------------------------

class GpuContext final : public Context {
 public:
  explicit GpuContext(std::shared_ptr<const GpuExecutable> program)
      : program_(std::move(program)), stream_(program_->gpu()) {
    size_t words = 0;
    for (const PlanStep& step : plan().steps)
      words += step.sizes.size() + (knobs().checked ? 1 + 2 * step.buffers.size() : 0);
    auto bytes = static_cast<int64_t>(words * sizeof(int64_t));
    host_sizes_ = gpu::PinnedMemory(program_->gpu(), bytes);
    sizes_ = gpu::Memory(program_->gpu(), bytes);
    if (program_->notes_faults())
      faults_ = gpu::Memory(program_->gpu(), static_cast<int64_t>(plan().steps.size() * sizeof(KernelFault)));
  }

  ~GpuContext() override {
    try {
      settle();
    } catch (...) {  // what went wrong was said by the run that met it
    }
  }

  std::vector<Tensor> run(std::span<const Tensor> given, const RunOptions& options) override {
    program_->gpu()->use();
    std::vector<Tensor> inputs = with_defaults(program_->inputs(), given);
    bool in_steps = options.profile || options.observe || options.deadline || options.stop || knobs().checked;
    queue_behind(options, in_steps);
    bind(inputs, options);
    if (knobs().checked) begin_watching();
    place_inputs(inputs, options);
    std::vector<Tensor> outputs = place_outputs(inputs, options);
    if (in_steps) run_steps(options);
    else run_graph(options);
    fetch(options);
    check_read(inputs);
    return outputs;
  }

  size_t memory_bytes() const override { return static_cast<size_t>(arena_.bytes() + sizes_.bytes()); }
  size_t peak_memory_bytes() const override { return peak_; }
  MemoryUse memory() const override {
    return {.arena = memory_bytes(),
            .peak = peak_,
            .weights = static_cast<size_t>(program_->packed_bytes()),
            .constants = static_cast<size_t>(program_->constant_bytes())};
  }

 private:
  using Works = std::vector<std::shared_ptr<const gpu::LibraryWork>>;  // of each step

  /// A captured run; it is right as long as every buffer is where it was and libraries do the same.
  struct Captured {
    std::vector<std::byte*> memory;
    Works works;
    gpu::Graph graph;
  };
  struct Bucket {
    BucketPlan plan;
    std::vector<Captured> graphs;
  };

  /// An output that the run copies to where the caller wants it.
  struct Fetched {
    size_t buffer;
    std::byte* to;
  };

  const Plan& plan() const { return program_->plan(); }

  /// The elements of inputs that sizes are set from, in the order of the settings (lower/control.cpp: lower_bind).
  std::vector<int64_t> sizes_in_inputs(std::span<const Tensor> inputs, const RunOptions& options) const {
    std::vector<int64_t> found;
    for (const PlanStep& step : plan().steps) {
      for (const SizeSetting& setting : step.settings) {
        const PlanBuffer& buffer = plan().buffers[static_cast<size_t>(setting.buffer)];
        found.push_back(element_of(inputs[static_cast<size_t>(buffer.index)], setting.element, options));
      }
    }
    return found;
  }

  /// An element of an i32 or i64 tensor; one on the device is waited for.
  int64_t element_of(const Tensor& tensor, int element, const RunOptions& options) const {
    auto width = static_cast<size_t>(byte_size(tensor.dtype, 1));
    Tensor one{
        .dtype = tensor.dtype, .dims = {1}, .data = tensor.data.part(static_cast<size_t>(element) * width, width)};
    if (!options.on_device) return to_int64s(one)[0];
    MutableTensor copy = allocate_tensor(one.dtype, one.dims);
    const gpu::Stream queue = stream_of(options);
    queue.copy_to_host(copy.data, one.data.data(), static_cast<int64_t>(width));
    queue.synchronize();
    return to_int64s(copy.tensor)[0];
  }

  /// Sets the sizes of this run; false if they are those of the last.
  bool set_values(std::span<const Tensor> inputs, const RunOptions& options) {
    std::vector<std::vector<int64_t>> sizes;
    for (const Tensor& input : inputs) sizes.push_back(input.dims);
    bool same_types = std::ranges::equal(inputs, plan().inputs, {}, &Tensor::dtype,
                                         [](const Port& port) { return port.type.shape.dtype; });
    bool is_fresh = is_random(plan()), may_stay = bucket_ && !is_fresh && same_types && sizes == input_sizes_;
    if (may_stay && sizes_in_inputs(inputs, options) == sizes_in_inputs_) return false;
    bucket_ = nullptr;
    values_ = bind_symbols(plan().inputs, inputs);
    if (is_fresh) values_.set(std::string(run_seed), fresh_seed());
    sizes_in_inputs_ = sizes_in_inputs(inputs, options);
    size_t next = 0;
    for (const PlanStep& step : plan().steps) {
      if (step.kind == StepKind::sizes) set_sizes(step, [&](int, int) { return sizes_in_inputs_[next++]; }, values_);
    }
    check_sizes(plan().checks, values_);
    input_sizes_ = std::move(sizes);
    return true;
  }

  /// Sizes as in the last run cost nothing; sizes in a known bucket a small copy.
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
    for (size_t i = 0; i < memory_.size(); ++i) {
      std::byte* fixed = program_->persistent(i);
      memory_[i] = fixed ? fixed : arena_.data() + bucket.plan.offsets[i];
    }
    works_.clear();
    for (const PlanStep& step : plan().steps) works_.push_back(program_->work_of(step, values_));
    bucket_ = &bucket;
  }

  /// The work of this run begins when that of the run before has ended, on whatever stream that was queued: both use
  /// the context's memory. Single steps, which run on the context's own stream, wait for the caller's too.
  void queue_behind(const RunOptions& options, bool in_steps) {
    const gpu::Stream queue = stream_of(options);
    if (queued_.get()) queue.wait(queued_);
    if (options.stream && in_steps) queue.synchronize();
  }

  /// Waits for all that earlier runs have queued.
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

  /// Stamps for the bytes that steps write: of working memory and results.
  void place_stamps(const BucketPlan& bucket) {
    int64_t total = 0;
    watched_ = {.stamps = std::vector<std::byte*>(bytes_.size()), .blocks = bucket.blocks};
    auto is_followed = [&](size_t i) {
      return plan().buffers[i].kind == BufferKind::arena || plan().buffers[i].kind == BufferKind::output;
    };
    for (size_t i = 0; i < bytes_.size(); ++i) total += is_followed(i) ? bytes_[i] * stamp_bytes : 0;
    if (stamps_.bytes() < total) settle(), stamps_ = gpu::Memory(program_->gpu(), total, program_->allocator());
    std::byte* next = stamps_.data();
    for (size_t i = 0; i < bytes_.size(); ++i) {
      if (is_followed(i)) watched_.stamps[i] = std::exchange(next, next + bytes_[i] * stamp_bytes);
    }
  }

  /// Nobody has written anything, and working memory holds NaNs.
  void begin_watching() const {
    stream_.fill(arena_.data(), 0xff, arena_.bytes());
    stream_.fill(stamps_.data(), 0, stamps_.bytes());
  }

  /// What a step writes that no check sees: a library, a kernel that takes raw pointers, an operand that lies there.
  void forget_writes(size_t i) const {
    const PlanStep& step = plan().steps[i];
    bool is_seen = step.kind == StepKind::kernel && !is_needless(i) &&
                   plan().kernels[static_cast<size_t>(kernel_of(i))].code.find("raw(") == std::string::npos;
    for (int id : step.outputs) {
      auto buffer = static_cast<size_t>(id);
      if (!is_seen && watched_.stamps[buffer])
        stream_.fill(watched_.stamps[buffer], 0xff, bytes_[buffer] * stamp_bytes);
    }
  }

  void upload_sizes(const BucketPlan& bucket) {
    if (knobs().checked) place_stamps(bucket);
    block_ = size_block(plan(), plan().steps, values_, bucket.variants, watched_);
    settle();  // the block may still be read by the run before
    if (!block_.values.empty())
      std::memcpy(host_sizes_.data(), block_.values.data(), static_cast<size_t>(host_sizes_.bytes()));
    stream_.copy_to_device(sizes_.data(), host_sizes_.data(), sizes_.bytes());
    stream_.synchronize();
  }

  void place_inputs(std::span<const Tensor> inputs, const RunOptions& options) {
    for (size_t i = 0; i < memory_.size(); ++i) {
      const PlanBuffer& buffer = plan().buffers[i];
      if (buffer.kind != BufferKind::input) continue;
      const std::byte* data = inputs[static_cast<size_t>(buffer.index)].data.data();
      if (options.on_device) memory_[i] = const_cast<std::byte*>(data);
      else memory_[i] = arena_.data() + bucket_->plan.offsets[i];
      if (!options.on_device) stream_.copy_to_device(memory_[i], data, bytes_[i]);
    }
  }

  /// Outputs that stay on the device are written where the caller has them, unless an input that is still read lies
  /// there; the others to the arena, from where they are fetched.
  std::vector<Tensor> place_outputs(std::span<const Tensor> inputs, const RunOptions& options) {
    std::vector<Tensor> outputs(plan().outputs.size());
    fetched_.clear();
    for (size_t i = 0; i < memory_.size(); ++i) {
      const PlanBuffer& buffer = plan().buffers[i];
      if (buffer.kind != BufferKind::output) continue;
      auto index = static_cast<size_t>(buffer.index);
      const Port& port = plan().outputs[index];
      bool given =
          options.allocate_output || (index < options.output_memory.size() && options.output_memory[index].data());
      std::vector<int64_t> dims = values_.dims(port.type.shape.dims);
      const Tensor* donated =
          options.on_device && !given ? donated_input(plan(), inputs, index, static_cast<size_t>(bytes_[i])) : nullptr;
      if (donated) {
        memory_[i] = const_cast<std::byte*>(donated->data.data());
        outputs[index] = {.dtype = port.type.shape.dtype,
                          .dims = std::move(dims),
                          .data = donated->data.part(0, static_cast<size_t>(bytes_[i]))};
        continue;
      }
      if (options.on_device && !given) refuse_missing_output(port.name);
      MutableTensor place = place_output(options, index, port, std::move(dims));
      bool in_place = options.on_device && inputs_in_the_way(plan(), inputs, index, place.tensor.data).empty();
      memory_[i] = in_place ? place.data : arena_.data() + bucket_->plan.offsets[i];
      if (!in_place) fetched_.push_back({i, place.data});
      outputs[index] = std::move(place.tensor);
      if (options.on_device) refuse_overlap(plan(), outputs, index);
    }
    return outputs;
  }

  [[noreturn]] static void refuse_missing_output(const std::string& name) {
    throw Error({.kind = ErrorKind::usage,
                 .code = "E313",
                 .what = cat("no memory was given for output '", printable(name), "' of a run on the device")});
  }

  /// A step that launches nothing: it sets sizes, which is done before, only brings an operand to where it lies
  /// already, whatever the sizes are, or stands in for a library that does the work or is none for these sizes.
  bool is_needless(size_t i) const {
    const PlanStep& step = plan().steps[i];
    if (step.kind == StepKind::library) return !works_[i];
    if (step.is_spare && works_[i - 1]) return true;
    if (step.kind == StepKind::sizes) return true;
    if (step.moves < 0) return false;
    auto from = static_cast<size_t>(step.moves), to = static_cast<size_t>(step.outputs[0]);
    return memory_[from] == memory_[to] &&
           (step.moves_apart || known_equal(plan().buffers[from].bytes, plan().buffers[to].bytes));
  }

  void call_library(size_t i) const {
    const PlanStep& step = plan().steps[i];
    std::vector<std::byte*> operands;
    for (size_t k = 0; k < step.buffers.size(); ++k) {
      int64_t offset = k < step.offsets.size() ? step.offsets[k] : 0;
      operands.push_back(memory_[static_cast<size_t>(step.buffers[k])] + offset);
    }
    works_[i]->launch(stream_, operands);
  }

  /// The kernel that a step launches at these sizes.
  int kernel_of(size_t i) const {
    const PlanStep& step = plan().steps[i];
    int variant = bucket_->plan.variants[i];
    return variant < 0 ? step.kernel : step.variants[static_cast<size_t>(variant)].kernel;
  }

  void launch_step(size_t i, bool overlap) const {
    if (plan().steps[i].kind == StepKind::library) return call_library(i);
    program_->launch(stream_, plan().steps[i], kernel_of(i), bucket_->plan.blocks[i], memory_,
                     extras_of(block_, i, sizes_.data(), faults_.data()), overlap);
    if (!knobs().break_kernel.empty()) damage(i);
  }

  /// Writes numbers to the beginning of what a kernel of that name computed, to see that tools find it.
  void damage(size_t i) const {
    const std::string& name = plan().kernels[static_cast<size_t>(kernel_of(i))].name;
    if (name.find(knobs().break_kernel) == std::string::npos) return;
    for (int id : plan().steps[i].outputs) {
      DType type = plan().buffers[static_cast<size_t>(id)].shape.dtype;
      int64_t width = std::min<int64_t>(bytes_[static_cast<size_t>(id)], bits(type) / 8);
      if (is_float(type)) stream_.fill(memory_[static_cast<size_t>(id)], 0x42, width);
    }
  }

  void run_graph(const RunOptions& options) {
    auto is_it = [&](const Captured& c) { return c.memory == memory_ && c.works == works_; };
    auto known = std::ranges::find_if(bucket_->graphs, is_it);
    if (known == bucket_->graphs.end()) {
      constexpr size_t max_graphs = 8;
      if (bucket_->graphs.size() == max_graphs) bucket_->graphs.erase(bucket_->graphs.begin());
      if (debug_enabled(2, "gpu")) log_text(LogLevel::debug, cat("capturing ", plan().steps.size(), " steps"));
      stream_.synchronize();
      stream_.begin_capture();
      stream_.fill(faults_.data(), 0, faults_.bytes());
      bool is_ours = false;  // the launch before: then this one may begin while that runs
      for (size_t i = 0; i < plan().steps.size(); ++i) {
        if (is_needless(i)) continue;
        launch_step(i, is_ours);
        if (bucket_->plan.blocks[i] > 0) is_ours = plan().steps[i].kind == StepKind::kernel;
      }
      bucket_->graphs.push_back({memory_, works_, stream_.end_capture()});
      known = bucket_->graphs.end() - 1;
    }
    stream_of(options).launch(known->graph);
  }

  /// The caller's stream, or the context's own as if it were one.
  gpu::Stream stream_of(const RunOptions& options) const {
    return gpu::Stream(program_->gpu(), options.stream ? *options.stream : stream_.get());
  }

  void run_steps(const RunOptions& options) {
    const auto& steps = plan().steps;
    Watch watch(options.deadline, options.stop);
    std::vector<gpu::Event> events;
    for (size_t i = 0; options.profile && i <= steps.size(); ++i) events.emplace_back(program_->gpu());
    stream_.fill(faults_.data(), 0, faults_.bytes());
    for (size_t i = 0; i < steps.size(); ++i) {
      watch.check(steps[i].source);
      if (options.profile) stream_.record(events[i]);
      if (knobs().checked) forget_writes(i);
      if (!is_needless(i)) launch_step(i, false);
      if (options.observe) show(i, options);
      if (watch.is_needed()) stream_.synchronize();
    }
    if (options.stream) stream_.synchronize();
    if (!options.profile) return;
    stream_.record(events.back());
    stream_.synchronize();
    for (size_t i = 0; i < steps.size(); ++i) {
      auto at = [&](size_t e) {
        return std::chrono::nanoseconds(static_cast<int64_t>(events[e].since(events[0]) * 1e6));
      };
      std::string kernel = bucket_->plan.variants[i] < 0 ? "" : plan().kernels[static_cast<size_t>(kernel_of(i))].name;
      options.profile->push_back(
          {i, at(i), at(i + 1), values_.evaluate(steps[i].flops), step_bytes(steps[i]), std::move(kernel)});
    }
  }

  /// Bytes of all operands and results: the least that the step must move.
  int64_t step_bytes(const PlanStep& step) const {
    int64_t total = 0;
    for (int id : step.buffers) total += bytes_[static_cast<size_t>(id)];
    return total;
  }

  void show(size_t index, const RunOptions& options) {
    for (int id : plan().steps[index].outputs) {
      if (!is_whole_after(plan(), index, id)) continue;
      const PlanBuffer& buffer = plan().buffers[static_cast<size_t>(id)];
      MutableTensor copy = allocate_tensor(buffer.shape.dtype, values_.dims(buffer.shape.dims));
      stream_.copy_to_host(copy.data, memory_[static_cast<size_t>(id)], static_cast<int64_t>(copy.tensor.data.size()));
      try {
        stream_.synchronize();
      } catch (Error& error) {
        error.set_where(plan().steps[index].source);
        throw;
      }
      options.observe(index, buffer.value, copy.tensor);
    }
  }

  void fetch(const RunOptions& options) {
    const gpu::Stream queue = stream_of(options);
    for (const Fetched& f : fetched_) {
      if (options.on_device) queue.copy_on_device(f.to, memory_[f.buffer], bytes_[f.buffer]);
      else queue.copy_to_host(f.to, memory_[f.buffer], bytes_[f.buffer]);
    }
    if (options.stream) {
      if (!queued_.get()) queued_ = gpu::Event(program_->gpu());
      queue.record(queued_);
      if (!knobs().checked) return;
    }
    check_faults(stream_, faults_, plan(), plan().steps, [&](size_t i) { return kernel_of(i); });
  }

  std::shared_ptr<const GpuExecutable> program_;
  gpu::Stream stream_;
  gpu::Event queued_;  // the end of the last run on a stream of the caller's
  gpu::PinnedMemory host_sizes_;
  static constexpr int64_t stamp_bytes = sizeof(uint32_t);
  gpu::Memory sizes_, faults_, arena_, stamps_;
  Watched watched_;
  std::map<std::map<std::string, int64_t, std::less<>>, Bucket> buckets_;
  Bucket* bucket_ = nullptr;  // of the sizes that are bound
  std::vector<std::vector<int64_t>> input_sizes_;
  std::vector<int64_t> sizes_in_inputs_;
  SymbolValues values_;
  std::vector<int64_t> bytes_;      // of each buffer in this run
  SizeBlock block_;                 // that lies on the device
  std::vector<std::byte*> memory_;  // address of each buffer in this run
  Works works_;                     // of this run
  std::vector<Fetched> fetched_;
  size_t peak_ = 0;
};

std::unique_ptr<Context> GpuExecutable::new_context() const { return std::make_unique<GpuContext>(shared_from_this()); }

// --- no device -------------------------------------------------------------------------------------------------------

class NullExecutable final : public Executable {
 public:
  NullExecutable(ChipProgram program, Origin origin, CompileReport report)
      : plan_(std::move(program.plan)),
        image_(std::move(program.image)),
        origin_(std::move(origin)),
        report_(std::move(report)) {}
  const std::vector<Port>& inputs() const override { return plan_.inputs; }
  const std::vector<Port>& outputs() const override { return plan_.outputs; }
  const CompileReport& report() const override { return report_; }
  const std::map<std::string, std::string>& metadata() const override { return plan_.metadata; }
  std::string device() const override { return cat("none (compiled for ", plan_.chip, ")"); }
  SavedProgram saved() const override { return saved_program(origin_, plan_, image_); }
  std::unique_ptr<Context> new_context() const override {
    throw Error({.kind = ErrorKind::unsupported,
                 .code = "E501",
                 .what = cat("a program compiled for ", plan_.chip, " does not run here"),
                 .hint = "save it and load it on a machine with that chip"});
  }
  std::vector<StepInfo> steps() const override {
    std::vector<StepInfo> list;
    for (const PlanStep& step : plan_.steps)
      list.push_back({step_name(plan_, step), step.source, plan_.chip.arch, step.reason});
    return list;
  }

 private:
  Plan plan_;
  Bytes image_;
  Origin origin_;
  CompileReport report_;
};

}  // namespace

std::shared_ptr<Executable> make_gpu_executable(ChipProgram program, std::shared_ptr<gpu::Device> device, Origin origin,
                                                CompileReport report, const Host& host) {
  return std::make_shared<GpuExecutable>(std::move(program), std::move(device), std::move(origin), std::move(report),
                                         host);
}

std::shared_ptr<Executable> make_null_executable(ChipProgram program, Origin origin, CompileReport report) {
  return std::make_shared<NullExecutable>(std::move(program), std::move(origin), std::move(report));
}

}  // namespace weft
