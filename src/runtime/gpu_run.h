// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>

#include "kernels/mailbox.h"
#include "runtime/gpu_program.h"
#include "runtime/outputs.h"
#include "runtime/ranks.h"

namespace weft {

/// The base of contexts on a GPU: owns memory for the plan's buffers and places the outputs.
class GpuRun : public Context {
 public:
  int64_t memory_bytes() const override { return arena_.bytes() + sizes_.bytes(); }
  int64_t peak_memory_bytes() const override { return peak_; }
  MemoryUse memory() const override {
    return {.arena = memory_bytes(),
            .peak = peak_,
            .weights = program_->packed_bytes(),
            .constants = program_->constant_bytes()};
  }

 protected:
  using Works = PerStep<std::shared_ptr<const gpu::LibraryWork>>;

  /// An output that is copied to the caller's memory after the run.
  struct Fetched {
    BufferId buffer;
    std::byte* to;
  };

  explicit GpuRun(std::shared_ptr<const GpuExecutable> program)
      : program_(std::move(program)), stream_(program_->gpu()) {
    if (program_->notes_faults())
      faults_ = gpu::Memory(program_->gpu(), static_cast<int64_t>(plan().steps.size() * sizeof(KernelFault)));
  }

  const Plan& plan() const { return program_->plan(); }

  /// Returns the caller's stream if there is one, else the context's own stream.
  gpu::Stream stream_of(const RunOptions& options) const {
    return gpu::Stream(program_->gpu(), options.stream ? *options.stream : stream_.get());
  }

  /// Returns an element of an i32 or i64 tensor; waits if the tensor is on the device.
  int64_t element_of(const Tensor& tensor, int element, const RunOptions& options) const {
    int64_t width = byte_size(tensor.dtype, 1);
    Tensor one{.dtype = tensor.dtype, .dims = {1}, .data = tensor.data.part(element * width, width)};
    if (!options.on_device) return to_int64s(one)[0];
    MutableTensor copy = allocate_tensor(one.dtype, one.dims);
    const gpu::Stream queue = stream_of(options);
    queue.copy_to_host(copy.data, one.data.data(), width);
    queue.synchronize();
    return to_int64s(copy.tensor)[0];
  }

  /// Places an output. With on_device, the run writes the output to a donated input or the caller's memory, unless this
  /// memory overlaps an input (inputs_in_the_way). Else the run writes to `aside()` and copies the output at the end.
  template <class Aside>
  void give_output(BufferId id, std::span<const Tensor> inputs, const RunOptions& options, const Aside& aside) {
    size_t index = plan().buffers[id].index;
    const Port& port = plan().outputs[index];
    bool given =
        options.allocate_output || (index < options.output_memory.size() && options.output_memory[index].data());
    std::vector<int64_t> dims = values_.dims(port.type.shape.dims);
    const Tensor* donated = options.on_device && !given ? donated_input(plan(), inputs, index, bytes_[id]) : nullptr;
    if (donated) {
      memory_[id] = const_cast<std::byte*>(donated->data.data());
      outputs_[index] = {
          .dtype = port.type.shape.dtype, .dims = std::move(dims), .data = donated->data.part(0, bytes_[id])};
      return;
    }
    if (options.on_device && !given) refuse_missing_output(port.name);
    MutableTensor place = given ? place_output(options, index, port, std::move(dims))
                                : program_->host_tensor(port.type.shape.dtype, std::move(dims));
    bool in_place = options.on_device && inputs_in_the_way(plan(), inputs, index, place.tensor.data).empty();
    memory_[id] = in_place ? place.data : aside();
    if (!in_place) fetched_.push_back({id, place.data});
    outputs_[index] = std::move(place.tensor);
    if (options.on_device) refuse_overlap(plan(), outputs_, index);
  }

  /// Sets the address of mailbox buffers to this rank's mailbox.
  void place_mailbox(const RunOptions& options) {
    for (BufferId i : memory_.ids()) {
      if (options.rank && plan().buffers[i].kind == BufferKind::mailbox) memory_[i] = options.rank->mailbox();
    }
  }

  /// True if the launch after the collective step `i` does the collective's work, because the message is short enough.
  bool is_direct(StepId i) const {
    const PlanStep* next = plan().steps.contains(i + 1) ? &plan().steps[i + 1] : nullptr;
    const auto* launch = next ? next->as<LaunchStep>() : nullptr;
    return launch && launch->is_spare && bytes_[next->buffers[0]] <= max_mailbox_bytes;
  }

  /// True if this run skips the step: a library call or collective that the next launch replaces, or a spare launch
  /// after a library call or collective that runs.
  bool is_replaced(StepId i) const {
    const PlanStep& step = plan().steps[i];
    if (step.is<LibraryStep>()) return !works_[i];
    if (step.is<CollectiveStep>()) return is_direct(i);
    const auto* launch = step.as<LaunchStep>();
    if (!launch || !launch->is_spare) return false;
    return plan().steps[i - 1].is<CollectiveStep>() ? !is_direct(i - 1) : works_[i - 1] != nullptr;
  }

  void call_library(StepId i) const {
    const PlanStep& step = plan().steps[i];
    const std::vector<int64_t>& offsets = step.as<LibraryStep>()->offsets;
    std::vector<std::byte*> operands;
    for (size_t k = 0; k < step.buffers.size(); ++k) {
      int64_t offset = k < offsets.size() ? offsets[k] : 0;
      operands.push_back(memory_[step.buffers[k]] + offset);
    }
    works_[i]->launch(stream_, operands);
  }

  void exchange(const PlanStep& step, Rank* rank) const {
    check(rank != nullptr, "a split program runs as one of several");
    const auto& collective = *step.as<CollectiveStep>();
    BufferId from = step.buffers[0], to = step.buffers[1];
    rank->exchange({.fn = collective.fn,
                    .type = plan().buffers[from].shape.dtype,
                    .from = memory_[from],
                    .to = memory_[to],
                    .elements = values_.evaluate(collective.elements)},
                   &stream_);
  }

  /// Waits for the work on the context's stream; throws E603 if another rank fails.
  void await_work(const RunOptions& options) const {
    if (options.rank) options.rank->wait(stream_);
    else stream_.synchronize();
  }

  /// Overwrites the first element of each float output of a kernel that WEFT_BREAK_KERNEL names (for tests of tools).
  void damage(const PlanStep& step, KernelId kernel) const {
    const std::string& wanted = knobs().break_kernel;
    if (wanted.empty() || plan().kernels[kernel].name.find(wanted) == std::string::npos) return;
    for (BufferId id : step.outputs) {
      DType type = plan().buffers[id].shape.dtype;
      int64_t width = std::min<int64_t>(bytes_[id], bits(type) / 8);
      if (is_float(type)) stream_.fill(memory_[id], 0x42, width);
    }
  }

  /// Returns the bytes of all operands and results: the least memory traffic of the step.
  int64_t step_bytes(const PlanStep& step) const {
    int64_t total = 0;
    for (BufferId id : step.buffers) total += bytes_[id];
    return total;
  }

  void show(StepId at, const RunOptions& options) {
    for (BufferId id : plan().steps[at].outputs) {
      if (!is_whole_after(plan(), at, id)) continue;
      const PlanBuffer& buffer = plan().buffers[id];
      try {
        options.observe(at.index(), buffer.value, contents(id));
      } catch (Error& error) {
        error.set_where(plan().steps[at].source);
        throw;
      }
    }
  }
  virtual Tensor contents(BufferId id) const {
    const PlanBuffer& buffer = plan().buffers[id];
    MutableTensor copy = allocate_tensor(buffer.shape.dtype, values_.dims(buffer.shape.dims));
    stream_.copy_to_host(copy.data, memory_[id], static_cast<int64_t>(copy.tensor.data.size()));
    stream_.synchronize();
    return copy.tensor;
  }

  std::shared_ptr<const GpuExecutable> program_;
  gpu::Stream stream_;
  gpu::Memory sizes_, faults_, arena_;
  SymbolValues values_;
  PerBuffer<int64_t> bytes_;      // of each buffer in this run
  PerBuffer<std::byte*> memory_;  // address of each buffer in this run
  Works works_;                   // of this run
  std::vector<Fetched> fetched_;
  std::vector<Tensor> outputs_;
  int64_t peak_ = 0;

 private:
  [[noreturn]] static void refuse_missing_output(const std::string& name) {
    throw Error({.kind = ErrorKind::usage,
                 .code = "E313",
                 .what = cat("no memory was given for output '", printable(name), "' of a run on the device")});
  }
};

/// Makes a context in which the host chooses each next step of the plan (plan/plan.h: is_led_by_host).
std::unique_ptr<Context> new_led_context(std::shared_ptr<const GpuExecutable> program);

}  // namespace weft
