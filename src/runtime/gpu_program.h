// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstring>
#include <mutex>
#include <set>
#include <thread>

#include "base/chip_features.h"
#include "base/error.h"
#include "base/knobs.h"
#include "base/log.h"
#include "base/parallel.h"
#include "kernels/launch.h"
#include "runtime/bind.h"
#include "runtime/cpu_executable.h"
#include "runtime/faults.h"
#include "runtime/memory_limit.h"
#include "runtime/pinned_pool.h"
#include "runtime/planned_executable.h"
#include "targets/gpu/device.h"
#include "targets/gpu/libraries.h"

/// A plan loaded on a GPU: its code and weights. The contexts that run it are in gpu_run.h.
namespace weft {

// --- code ------------------------------------------------------------------------------------------------------------

/// Returns the size in bytes of the ELF file at the start of `file`, which is the end of its section table.
inline size_t elf_size(std::span<const std::byte> file) {
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

/// Splits an image into modules (base/codegen.h): PTX ends with a zero byte, code objects start at multiples of 64.
inline std::vector<std::span<const std::byte>> modules_of(std::span<const std::byte> image, const Chip& chip) {
  std::vector<std::span<const std::byte>> modules;
  while (!image.empty()) {
    size_t size =
        chip.kind == ChipKind::nvidia ? std::ranges::find(image, std::byte{0}) - image.begin() + 1 : elf_size(image);
    modules.push_back(image.first(std::min(size, image.size())));
    size_t next = chip.kind == ChipKind::nvidia ? size : (size + 63) / 64 * 64;
    image = image.subspan(std::min(next, image.size()));
  }
  return modules;
}

/// The loaded modules of a program. Several threads load them at once, because the driver takes long to compile PTX.
/// Modules of kernels that only some sizes need are loaded when such sizes first occur.
class Code {
 public:
  /// `image` and `plan` must outlive this object.
  Code(const std::shared_ptr<gpu::Device>& device, const Bytes& image, const Plan& plan)
      : device_(device),
        plan_(plan),
        parts_(modules_of(image, plan.chip)),
        modules_(plan.kernels.size()),
        functions_(plan.kernels.size()) {
    std::set<KernelId> kernels;
    for (const auto* steps : {&plan.load_steps, &plan.steps}) {
      for (const PlanStep& step : *steps) {
        if (const auto* launch = step.as<LaunchStep>()) kernels.insert(launch->kernel);
      }
    }
    load(kernels);
  }
  /// Loads these kernels. Thread-safe.
  void load(std::set<KernelId> kernels) const {
    std::scoped_lock lock(mutex_);
    std::erase_if(kernels, [&](KernelId k) { return functions_[k] != nullptr; });
    std::vector<KernelId> missing(kernels.begin(), kernels.end());
    run_parallel(missing.size(), std::max(1U, std::thread::hardware_concurrency()), [&](size_t i) {
      KernelId k = missing[i];
      const PlanKernel& kernel = plan_.kernels[k];
      gpu::Module module(device_, part_of(kernel.name), plan_.program);
      functions_[k] = module.function(kernel.name, kernel.shared_bytes);
      modules_[k] = std::move(module);
    });
  }
  gpu::Handle function(KernelId kernel) const { return functions_[kernel]; }

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
  mutable Table<gpu::Module, KernelId> modules_;
  mutable Table<gpu::Handle, KernelId> functions_;
};

/// The arguments of a kernel besides its buffers; all are addresses in device memory.
struct Extras {
  const void* sizes = nullptr;
  const void* watched = nullptr;  ///< only for checked kernels: see DeviceArgs::watched
  const void* fault = nullptr;
};

/// Returns the bytes of a kernel's only argument, DeviceArgs of kernels/launch.h.
inline std::vector<std::byte> pack_arguments(std::span<void* const> buffers, const Extras& extras) {
  std::vector<const void*> words(buffers.begin(), buffers.end());
  words.insert(words.end(), {extras.sizes, extras.watched, extras.fault});
  auto bytes = std::as_bytes(std::span(words));
  return {bytes.begin(), bytes.end()};
}

/// The size arguments of all steps in one list, for one copy to the device. In checked runs, the sizes of a step are
/// followed by DeviceArgs::watched.
struct SizeBlock {
  std::vector<int64_t> values;
  PerStep<size_t> first, first_watched;  ///< for each step: index of its first size, and of its DeviceArgs::watched
};

/// The data of a checked run: the address of each buffer's stamps, and each step's number of blocks.
struct Watched {
  PerBuffer<std::byte*> stamps = {};  ///< null: writes are not tracked
  PerStep<int64_t> blocks = {};
};

/// Returns the size arguments of `steps`. `variants` is as in BucketPlan; if empty, all steps launch their own kernels.
inline SizeBlock size_block(const Plan& plan, const Table<PlanStep>& steps, const SymbolValues& values,
                            const PerStep<VariantId>& variants = {}, const Watched& watched = {}) {
  SizeBlock block;
  int64_t last_stamp = 0;
  for (StepId i : steps.ids()) {
    block.first.push_back(block.values.size());
    VariantId variant = variants.empty() ? VariantId() : variants[i];
    const auto& sizes = variant ? launch_of(steps[i]).variants[variant].sizes : steps[i].sizes;
    for (SizeId id : sizes) block.values.push_back(values.evaluate(plan.sizes[id]));
    block.first_watched.push_back(block.values.size());
    if (!knobs().checked) continue;
    block.values.push_back(last_stamp);
    if (!watched.blocks.empty()) last_stamp += watched.blocks[i];
    for (BufferId buffer : steps[i].buffers) {
      block.values.push_back(values.evaluate(plan.buffers[buffer].bytes));
      block.values.push_back(watched.stamps.empty() ? 0 : reinterpret_cast<int64_t>(watched.stamps[buffer]));
    }
  }
  return block;
}

/// Returns the arguments of step `i` other than buffers. `sizes` is the block's device address; `faults` may be null.
inline Extras extras_of(const SizeBlock& block, StepId i, const std::byte* sizes, const std::byte* faults) {
  return {.sizes = sizes + block.first[i] * sizeof(int64_t),
          .watched = knobs().checked ? sizes + block.first_watched[i] * sizeof(int64_t) : nullptr,
          .fault = faults ? faults + i.index() * sizeof(KernelFault) : nullptr};
}

/// Waits for the stream, then throws the first recorded fault. `kernel_of(i)` is the kernel that step `i` launched.
template <class KernelOf>
void check_faults(const gpu::Stream& stream, const gpu::Memory& faults, const Plan& plan, const Table<PlanStep>& steps,
                  const KernelOf& kernel_of) {
  PerStep<KernelFault> noted(faults.data() ? steps.size() : 0);
  stream.copy_to_host(noted.data(), faults.data(), faults.bytes());
  stream.synchronize();
  for (StepId i : noted.ids()) {
    if (noted[i].kind != FaultKind::none) report_fault(plan, steps[i], kernel_of(i), noted[i]);
  }
}

// --- the program -----------------------------------------------------------------------------------------------------

class GpuExecutable final : public PlannedExecutable, public std::enable_shared_from_this<GpuExecutable> {
 public:
  GpuExecutable(ChipProgram program, std::shared_ptr<gpu::Device> device, Origin origin, CompileReport report,
                const Host& host)
      : PlannedExecutable(std::move(program), std::move(origin), std::move(report)),
        device_(std::move(device)),
        allocator_(host.allocator),
        memory_limit_(limit_of(host, device_->info().memory)),
        code_(device_, image_, plan_) {
    // The allocator and the limit are for device memory, so the parts that run on the host do not get them.
    for (const PlanPart& part : plan_.parts)
      parts_.push_back(make_cpu_executable({*part.plan, part.image.data}, {.threads = host.threads}, {}, {}));
    for (const PlanBuffer& buffer : plan_.buffers) is_hosted_.push_back(holds_host_value(buffer));
    load();
  }

  std::unique_ptr<Context> new_context() const override;
  std::string device() const override {
    return cat(device_->name(), " (", device_->info().name, ", ", plan_.chip.arch, ")");
  }
  SavedProgram saved() const override {
    auto use = std::ranges::find_if(plan_.steps, &PlanStep::is<LibraryStep>);
    if (use == plan_.steps.end()) return PlannedExecutable::saved();
    const std::string& library = use->as<LibraryStep>()->call.library;
    throw Error({.kind = ErrorKind::unsupported,
                 .code = "E406",
                 .what = cat("the program calls ", library, ", which other machines may not have"),
                 .hint = "`weft compile` writes one with Weft's own kernels"});
  }
  /// Drops the host copies; constants that runs read are on the device already.
  void detach() override {
    for (Tensor& constant : plan_.constants) constant.data = {};
    for (const auto& part : parts_) part->detach();
    origin_ = {};
  }
  std::vector<std::string> notes() const override {
    std::vector<std::string> notes = PlannedExecutable::notes();
    for (const PlanStep& step : plan_.steps) {
      if (step.is<PartStep>()) notes.push_back(cat("the processor runs, between two copies: ", step.reason));
    }
    return notes;
  }

  const Table<std::shared_ptr<Executable>, PartId>& parts() const { return parts_; }
  /// True for buffers without device memory: strings and containers.
  bool is_hosted(BufferId buffer) const { return is_hosted_[buffer]; }
  void load_kernel(KernelId kernel) const { code_.load({kernel}); }

  const std::shared_ptr<gpu::Device>& gpu() const { return device_; }
  const HostAllocator& allocator() const { return allocator_; }
  MutableTensor host_tensor(DType type, std::vector<int64_t> dims) const override {
    int64_t bytes = byte_size(type, element_count(dims));
    std::shared_ptr<std::byte> memory = bits(type) >= 8 ? pinned_->take(bytes) : nullptr;
    if (!memory) return allocate_tensor(type, std::move(dims));
    std::byte* data = memory.get();
    std::span<const std::byte> contents(data, bytes);
    return {{.dtype = type, .dims = std::move(dims), .data = Bytes(contents, std::move(memory))}, data};
  }
  int64_t memory_limit() const { return memory_limit_; }
  bool notes_faults() const { return knobs().checked || std::ranges::any_of(plan_.kernels, &PlanKernel::notes_faults); }
  int64_t packed_bytes() const { return packed_.bytes(); }
  int64_t constant_bytes() const { return constants_.bytes(); }
  std::byte* persistent(BufferId buffer) const { return persistent_[buffer]; }

  /// Loads the kernels of these variants (see BucketPlan::variants).
  void load_variants(const PerStep<VariantId>& variants) const {
    std::set<KernelId> kernels;
    for (StepId i : variants.ids()) {
      if (variants[i]) kernels.insert(launch_of(plan_.steps[i]).variants[variants[i]].kernel);
    }
    code_.load(std::move(kernels));
  }

  /// Returns the prepared library call of a step; null if the step calls no library, or if the library does not support
  /// these values of symbolic sizes (the kernel of the next step then does the work).
  std::shared_ptr<const gpu::LibraryWork> work_of(const PlanStep& step, const SymbolValues& values) const {
    const auto* use = step.as<LibraryStep>();
    if (!use) return nullptr;
    LibraryCall call = use->call.at([&](const Dim& size) { return values.evaluate(size); });
    try {
      return gpu::prepare(device_, call);
    } catch (const Error& error) {
      if (!call.is_open) throw;
      if (debug_enabled(1, "gpu")) log_text(LogLevel::debug, cat(step.source, ": ", error.info().what));
      return nullptr;
    }
  }

  /// Launches a kernel. With `overlap`, it may start before the previous kernel ends; its code then waits for that end.
  void launch(const gpu::Stream& stream, const PlanStep& step, KernelId kernel, int64_t blocks,
              const PerBuffer<std::byte*>& memory, const Extras& extras, bool overlap) const {
    std::vector<void*> buffers;
    for (BufferId id : step.buffers) buffers.push_back(memory[id]);
    const PlanKernel& k = plan_.kernels[kernel];
    stream.launch(code_.function(kernel),
                  {.blocks = blocks,
                   .threads = k.threads,
                   .shared_bytes = k.shared_bytes,
                   .cluster = k.cluster,
                   .overlap = overlap && may_overlap_},
                  pack_arguments(buffers, extras));
  }

 private:
  /// Allocates one block of device memory for all wanted buffers of a kind, and stores their addresses in persistent_.
  gpu::Memory reserve(BufferKind kind, const PerBuffer<bool>& wanted) {
    PerBuffer<int64_t> offsets(plan_.buffers.size());
    int64_t total = 0;
    auto taken = [&](BufferId i) { return plan_.buffers[i].kind == kind && wanted[i]; };
    for (BufferId i : plan_.buffers.ids()) {
      if (!taken(i)) continue;
      offsets[i] = total;
      total += (std::max<int64_t>(plan_.buffers[i].bytes.value(), 1) + 255) / 256 * 256;
    }
    gpu::Memory memory(device_, total, allocator_);
    for (BufferId i : plan_.buffers.ids()) {
      if (taken(i)) persistent_[i] = memory.data() + offsets[i];
    }
    return memory;
  }

  PerBuffer<bool> used_by(const Table<PlanStep>& steps) const {
    PerBuffer<bool> used(plan_.buffers.size());
    for (const PlanStep& step : steps) {
      for (BufferId id : step.buffers) used[id] = true;
      for (const SizeSetting& setting : step.settings()) {
        if (setting.buffer) used[setting.buffer] = true;
      }
    }
    return used;
  }

  /// Returns the limit in bytes: Host::memory_limit, else WEFT_MEMORY_LIMIT, else the device's memory, `whole`.
  static int64_t limit_of(const Host& host, int64_t whole) {
    if (host.memory_limit > 0) return host.memory_limit;
    return knobs().memory_limit > 0 ? knobs().memory_limit << 20 : whole;
  }

  /// Uploads the constants and packs the weights. Then frees the device memory of constants that only packing reads.
  void load() {
    for (const PlanStep& step : plan_.steps) {
      const auto* use = step.as<LibraryStep>();
      if (use && !use->call.has_symbols()) work_of(step, {});  // throws for an impossible call at load time
    }
    persistent_.resize(plan_.buffers.size());
    PerBuffer<bool> run = used_by(plan_.steps), once = used_by(plan_.load_steps);
    for (BufferId i : once.ids()) once[i] = once[i] && !run[i];
    check_device_weights(plan_, run, memory_limit_);
    packed_ = reserve(BufferKind::persistent, PerBuffer<bool>(plan_.buffers.size(), true));
    constants_ = reserve(BufferKind::constant, run);
    gpu::Memory temporary = reserve(BufferKind::constant, once);
    gpu::Stream stream(device_);
    for (BufferId i : plan_.buffers.ids()) {
      const PlanBuffer& buffer = plan_.buffers[i];
      if (buffer.kind != BufferKind::constant || !persistent_[i]) continue;
      const Tensor& tensor = plan_.constants[buffer.index];
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
    for (StepId i : steps.ids()) {
      const LaunchStep& own = launch_of(steps[i]);
      launch(stream, steps[i], own.kernel, none.evaluate(own.blocks), persistent_,
             extras_of(block, i, sizes.data(), faults.data()), false);
    }
    check_faults(stream, faults, plan_, steps, [&](StepId i) { return launch_of(steps[i]).kernel; });
  }

  bool holds_host_value(const PlanBuffer& buffer) const {
    bool is_tensor = buffer.kind == BufferKind::input    ? plan_.inputs[buffer.index].type.is_tensor()
                     : buffer.kind == BufferKind::output ? plan_.outputs[buffer.index].type.is_tensor()
                                                         : buffer.kind != BufferKind::value;
    return !is_tensor || buffer.shape.dtype == DType::string;
  }

  std::string place_of(const PlanStep& step) const override { return step.is<PartStep>() ? "cpu" : device_->name(); }

  Table<std::shared_ptr<Executable>, PartId> parts_;
  PerBuffer<bool> is_hosted_;
  std::shared_ptr<gpu::Device> device_;
  HostAllocator allocator_;
  int64_t memory_limit_;
  std::shared_ptr<PinnedPool> pinned_ = std::make_shared<PinnedPool>(device_);
  Code code_;
  bool may_overlap_ = knobs().gpu_overlap && gpu_model(plan_.chip.arch).early_launch;
  gpu::Memory packed_, constants_;
  PerBuffer<std::byte*> persistent_;  // address of each persistent and constant buffer
};

}  // namespace weft
