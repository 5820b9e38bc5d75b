// SPDX-License-Identifier: Apache-2.0
#include "runtime/outputs.h"

#include <algorithm>

#include "base/error.h"
#include "targets/cpu/memory.h"

namespace weft {

template <class... Args>
[[noreturn]] static void refuse_output(const Port& port, const Args&... args) {
  throw Error({.kind = ErrorKind::usage,
               .code = "E313",
               .what = cat("the memory for output '", printable(port.name), "' ", args...)});
}

static MutableTensor over(std::byte* memory, size_t bytes, std::shared_ptr<const void> owner, DType dtype,
                          std::vector<int64_t> dims) {
  std::span<const std::byte> data(memory, bytes);
  return {{.dtype = dtype, .dims = std::move(dims), .data = Bytes(data, std::move(owner))}, memory};
}

/// Returns the caller's memory for an output; an empty span if the caller gives no memory.
static std::span<std::byte> callers_memory(const RunOptions& options, size_t index, const std::vector<int64_t>& dims,
                                           size_t bytes) {
  bool is_given = index < options.output_memory.size() && options.output_memory[index].data();
  if (is_given) return options.output_memory[index];
  if (!options.allocate_output) return {};
  std::byte* memory = options.allocate_output(index, dims, bytes);
  if (memory || bytes == 0) return {memory, bytes};
  throw Error({.kind = ErrorKind::resource,
               .code = "E400",
               .what = cat("the caller gives no memory for output ", index, ", ", bytes, " bytes")});
}

MutableTensor place_output(const RunOptions& options, size_t index, const Port& port, std::vector<int64_t> dims,
                           const HostAllocator& allocator) {
  DType dtype = port.type.shape.dtype;
  size_t bytes = byte_size(dtype, element_count(dims));
  std::span<std::byte> given = callers_memory(options, index, dims, bytes);
  if (given.data()) {
    size_t alignment = std::max(bits(dtype) / 8, 1);
    if (dtype == DType::string) refuse_output(port, "cannot hold strings");
    if (given.size() < bytes) refuse_output(port, "has ", given.size(), " bytes when ", bytes, " are needed");
    if (reinterpret_cast<uintptr_t>(given.data()) % alignment != 0)
      refuse_output(port, "is not aligned to ", alignment);
    return over(given.data(), bytes, nullptr, dtype, std::move(dims));
  }
  if (!allocator.allocate || bytes == 0) return allocate_tensor(dtype, std::move(dims));
  auto memory = std::make_shared<AlignedMemory>(static_cast<int64_t>(bytes), allocator);
  std::byte* data = memory->data();
  return over(data, bytes, std::move(memory), dtype, std::move(dims));
}

bool is_whole_after(const Plan& plan, StepId step, BufferId buffer) {
  for (StepId i = step + 1; i < plan.steps.end_id();) {
    const PlanStep& later = plan.steps[i];
    if (std::ranges::find(later.outputs, buffer) != later.outputs.end()) return false;
    const auto* jump = later.as<JumpStep>();
    if (!jump) ++i;
    else if (jump->target > i) i = jump->target;
    else break;  // the step is in a loop, and the next trip overwrites the buffer
  }
  return true;
}

}  // namespace weft
