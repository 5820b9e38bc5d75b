// SPDX-License-Identifier: Apache-2.0
#include "api/serve/join.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>

namespace weft::serve {
namespace {

using Dims = std::vector<int64_t>;

Dims dims_of(const Tensor& tensor) { return {tensor.dims().begin(), tensor.dims().end()}; }

int64_t product(std::span<const int64_t> dims) {
  int64_t count = 1;
  for (int64_t size : dims) count *= size;
  return count;
}

size_t element_bytes(weft_dtype type) { return static_cast<size_t>(weft_dtype_bits(type)) / 8; }

/// Copies the elements at all indices that exist in both arrays.
void copy_corner(const std::byte* from, std::span<const int64_t> from_dims, std::byte* to,
                 std::span<const int64_t> to_dims, size_t bytes) {
  size_t from_inner = static_cast<size_t>(product(from_dims.subspan(1))) * bytes;
  size_t to_inner = static_cast<size_t>(product(to_dims.subspan(1))) * bytes;
  auto count = static_cast<size_t>(std::min(from_dims[0], to_dims[0]));
  if (std::ranges::equal(from_dims.subspan(1), to_dims.subspan(1))) {
    if (count * from_inner > 0) std::memcpy(to, from, count * from_inner);
    return;
  }
  for (size_t i = 0; i < count; ++i) {
    copy_corner(from + i * from_inner, from_dims.subspan(1), to + i * to_inner, to_dims.subspan(1), bytes);
  }
}

/// A tensor that owns its memory, and the writable address of that memory.
struct Filled {
  Tensor tensor = {};
  std::byte* data = nullptr;
};

Filled allocate(weft_dtype type, const Dims& dims) {
  size_t bytes = static_cast<size_t>(product(dims)) * element_bytes(type);
  auto memory = std::make_unique_for_overwrite<std::byte[]>(std::max<size_t>(bytes, 1));
  std::byte* data = memory.get();
  auto release = [](void* user) { delete[] static_cast<std::byte*>(user); };
  weft_tensor* tensor = nullptr;
  check(weft_tensor_wrap(type, dims.data(), dims.size(), data, bytes, release, memory.release(), &tensor));
  return {Tensor(tensor), data};
}

/// Returns a tensor over the `bytes` bytes at `data`, which are part of `whole`. The tensor keeps `whole` alive.
Tensor share(const Tensor& whole, const std::byte* data, size_t bytes, const Dims& dims) {
  auto owner = std::make_unique<Tensor>(whole);
  auto release = [](void* user) { delete static_cast<Tensor*>(user); };
  weft_tensor* tensor = nullptr;
  check(weft_tensor_wrap(whole.dtype(), dims.data(), dims.size(), const_cast<std::byte*>(data), bytes, release,
                         owner.release(), &tensor));
  return Tensor(tensor);
}

/// True if an axis holds the padded length.
bool is_padded(const std::vector<Axis>& axes, size_t port, size_t axis) {
  return std::ranges::any_of(axes, [&](const Axis& a) { return a.port == port && a.axis == axis; });
}

using Memory = Joiner::Memory;

/// Makes `memory` at least `bytes` bytes. Replaces memory that is too small, or that a tensor still uses: an output may
/// be a view of an input.
void make_room(const Program& program, size_t bytes, Memory& memory) {
  bool is_free = memory.tensor && memory.tensor.use_count() == 1 && memory.tensor->bytes().size() >= bytes;
  if (is_free) return std::atomic_thread_fence(std::memory_order_acquire);  // writes come after reads of earlier users
  memory = {};
  void* data = nullptr;
  memory.tensor = std::make_shared<Tensor>(program.tensor(WEFT_U8, std::array{static_cast<int64_t>(bytes)}, &data));
  memory.data = static_cast<std::byte*>(data);
}

/// Concatenates the rows of one input of all requests in `memory`, padded to the longest sizes.
Tensor join_input(const Program& program, std::span<const Inputs* const> requests, size_t port, Memory& memory) {
  Dims dims = dims_of((*requests[0])[port]);
  dims[0] = 0;
  for (const Inputs* request : requests) {
    auto sizes = (*request)[port].dims();
    for (size_t i = 1; i < dims.size(); ++i) dims[i] = std::max(dims[i], sizes[i]);
    dims[0] += sizes[0];
  }
  weft_dtype type = (*requests[0])[port].dtype();
  bool is_padded = std::ranges::any_of(requests, [&](const Inputs* request) {
    return !std::ranges::equal((*request)[port].dims().subspan(1), std::span(dims).subspan(1));
  });
  size_t row = static_cast<size_t>(product(std::span(dims).subspan(1))) * element_bytes(type);
  size_t bytes = static_cast<size_t>(dims[0]) * row;
  make_room(program, bytes, memory);
  if (is_padded) std::memset(memory.data, 0, bytes);
  std::byte* to = memory.data;
  for (const Inputs* request : requests) {
    const Tensor& part = (*request)[port];
    copy_corner(part.bytes().data(), part.dims(), to, dims, element_bytes(type));
    to += static_cast<size_t>(part.dims()[0]) * row;
  }
  auto release = [](void* user) { delete static_cast<Memory*>(user); };
  weft_tensor* joined = nullptr;
  check(weft_tensor_wrap(type, dims.data(), dims.size(), memory.data, bytes, release, new Memory(memory), &joined));
  return Tensor(joined);
}

/// Returns dims[0] rows of an output from row `first` on; the other axes are cut to `dims`.
Tensor part_of(const Tensor& output, int64_t first, const Dims& dims) {
  Dims all = dims_of(output);
  all[0] = dims[0];
  size_t row = static_cast<size_t>(product(std::span(all).subspan(1))) * element_bytes(output.dtype());
  const std::byte* from = output.bytes().data() + static_cast<size_t>(first) * row;
  if (all == dims) return share(output, from, static_cast<size_t>(dims[0]) * row, dims);
  Filled part = allocate(output.dtype(), dims);
  copy_corner(from, all, part.data, dims, element_bytes(output.dtype()));
  return part.tensor;
}

}  // namespace

int64_t rows_of(const Inputs& request) {
  for (const Tensor& input : request) {
    if (input) return input.dims()[0];
  }
  return 0;
}

int64_t length_of(const BatchRule& rule, const Inputs& request) {
  if (rule.inputs.empty()) return 0;
  return request[rule.inputs[0].port].dims()[rule.inputs[0].axis];
}

bool fit_together(const BatchRule& rule, const Inputs& a, const Inputs& b) {
  if (!rule.joins) return false;
  int64_t p = length_of(rule, a), q = length_of(rule, b);
  if (std::max(p, q) > 2 * std::min(p, q)) return false;
  for (size_t port = 0; port < a.size(); ++port) {
    if (!a[port] != !b[port]) return false;
    if (!a[port]) continue;
    auto x = a[port].dims(), y = b[port].dims();
    for (size_t axis = 1; axis < x.size(); ++axis) {
      if (x[axis] != y[axis] && !is_padded(rule.inputs, port, axis)) return false;
    }
  }
  return true;
}

Inputs Joiner::join(std::span<const Inputs* const> requests) {
  if (requests.size() == 1) return *requests[0];
  memory_.resize(requests[0]->size());
  Inputs joined;
  for (size_t port = 0; port < requests[0]->size(); ++port) {
    joined.push_back((*requests[0])[port] ? join_input(program_, requests, port, memory_[port]) : Tensor());
  }
  return joined;
}

std::vector<std::vector<Tensor>> split(const BatchRule& rule, std::span<const Tensor> outputs,
                                       std::span<const Inputs* const> requests) {
  if (requests.size() == 1) return {{outputs.begin(), outputs.end()}};
  std::vector<std::vector<Tensor>> answers;
  int64_t first = 0;
  for (const Inputs* request : requests) {
    std::vector<Tensor>& answer = answers.emplace_back();
    for (size_t port = 0; port < outputs.size(); ++port) {
      Dims dims = dims_of(outputs[port]);
      dims[0] = rows_of(*request);
      for (size_t axis = 1; axis < dims.size(); ++axis) {
        if (is_padded(rule.outputs, port, axis)) dims[axis] = length_of(rule, *request);
      }
      answer.push_back(part_of(outputs[port], first, dims));
    }
    first += rows_of(*request);
  }
  return answers;
}

}  // namespace weft::serve
