// SPDX-License-Identifier: Apache-2.0
#include "runtime/host_values.h"

#include <cstring>

#include "base/error.h"
#include "host/run.h"
#include "runtime/memory_limit.h"

namespace weft {
namespace {

/// The numbers as they lie in memory.
std::vector<int64_t> codes_at(const std::byte* memory, int64_t count) {
  std::vector<int64_t> codes(static_cast<size_t>(count));
  if (count > 0) std::memcpy(codes.data(), memory, codes.size() * sizeof(int64_t));
  return codes;
}

}  // namespace

bool HostValues::is_container(size_t buffer) const {
  const PlanBuffer& b = plan_.buffers[buffer];
  auto index = static_cast<size_t>(b.index);
  if (b.kind == BufferKind::input) return !plan_.inputs[index].type.is_tensor();
  if (b.kind == BufferKind::output) return !plan_.outputs[index].type.is_tensor();
  return b.kind == BufferKind::value;
}

std::byte* HostValues::encode(size_t buffer, const Tensor& input) {
  codes_[buffer] = texts_.encode(*input.strings);
  return reinterpret_cast<std::byte*>(codes_[buffer].data());
}

std::byte* HostValues::room(size_t buffer, size_t bytes) {
  codes_[buffer].resize(std::max<size_t>(bytes / sizeof(int64_t), 1));
  return reinterpret_cast<std::byte*>(codes_[buffer].data());
}

Tensor HostValues::decode(std::vector<int64_t> dims, const std::byte* codes) const {
  int64_t count = element_count(dims);
  return texts_.decode(std::move(dims), codes_at(codes, count));
}

Tensor HostValues::operand(size_t buffer, std::vector<int64_t> dims, const std::byte* memory) const {
  if (is_container(buffer)) return containers_[buffer];
  if (is_text(buffer)) return decode(std::move(dims), memory);
  DType type = plan_.buffers[buffer].shape.dtype;
  MutableTensor copy = allocate_tensor(type, std::move(dims));  // it may stay in a container
  if (!copy.tensor.data.empty()) std::memcpy(copy.data, memory, copy.tensor.data.size());
  return copy.tensor;
}

void HostValues::store(size_t buffer, const std::vector<int64_t>& dims, Tensor result, std::byte* memory) {
  if (is_container(buffer)) {
    check_container_memory(result, memory_limit_);
    containers_[buffer] = std::move(result);
    return;
  }
  check(result.is_tensor() && result.dims == dims && result.dtype == plan_.buffers[buffer].shape.dtype,
        "the host gives what the plan says");
  if (result.dtype != DType::string) {
    if (!result.data.empty()) std::memcpy(memory, result.data.data(), result.data.size());
    return;
  }
  std::vector<int64_t> codes = texts_.encode(*result.strings);
  if (!codes.empty()) std::memcpy(memory, codes.data(), codes.size() * sizeof(int64_t));
}

void HostValues::run(const PlanStep& step, std::span<const int64_t> sizes, std::span<std::byte* const> memory) {
  auto next_dims = [&] {
    auto rank = static_cast<size_t>(sizes[0]);
    std::vector<int64_t> dims(sizes.begin() + 1, sizes.begin() + 1 + static_cast<std::ptrdiff_t>(rank));
    sizes = sizes.subspan(1 + rank);
    return dims;
  };
  std::vector<Tensor> operands;
  size_t inputs = step.buffers.size() - step.outputs.size();
  for (size_t i = 0; i < inputs; ++i) {
    auto buffer = static_cast<size_t>(step.buffers[i]);
    operands.push_back(operand(buffer, next_dims(), memory[buffer]));
  }
  try {
    std::vector<Tensor> results = run_host(step.host, operands);
    check(results.size() == step.outputs.size(), "the host gives as many values as the plan says");
    for (size_t k = 0; k < results.size(); ++k) {
      auto buffer = static_cast<size_t>(step.outputs[k]);
      store(buffer, next_dims(), std::move(results[k]), memory[buffer]);
    }
  } catch (Error& error) {
    error.set_where(step.source);
    throw;
  }
}

}  // namespace weft
