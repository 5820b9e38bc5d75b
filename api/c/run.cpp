// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstring>

#include "api/c/handles.h"
#include "runtime/bind.h"

using namespace weft;

namespace {

/// Returns the caller's tensor; for an input that the caller omits, a tensor without memory. Throws E310 if the omitted
/// input has no default.
Tensor input_or_nothing(const weft_tensor* given, const Port& port, size_t index) {
  if (given) return given->tensor;
  if (!port.default_value)
    usage_error("E310", cat("input ", index, " '", printable(port.name), "' is missing"),
                cat("it is ", to_string(port.type), " and has no default"));
  return {};
}

std::vector<Tensor> gather_inputs(const Executable& executable, const weft_tensor* const* inputs, size_t count) {
  const auto& ports = executable.inputs();
  if (count != ports.size()) usage_error("E310", cat("the program has ", ports.size(), " inputs, ", count, " given"));
  if (count > 0) required(inputs, "inputs");
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < count; ++i) tensors.push_back(input_or_nothing(inputs[i], ports[i], i));
  return tensors;
}

std::vector<std::span<std::byte>> output_memory(const weft_run_options& options, size_t count) {
  std::vector<std::span<std::byte>> memory;
  if (!options.outputs) return memory;
  if (options.output_count != count)
    usage_error("E310", cat("the program has ", count, " outputs, memory for ", options.output_count, " given"));
  for (size_t i = 0; i < count; ++i) {
    const weft_buffer& buffer = options.outputs[i];
    memory.emplace_back(static_cast<std::byte*>(buffer.data), buffer.data ? buffer.bytes : 0);
  }
  return memory;
}

/// Returns the caller's run options in the library's form.
RunOptions to_run_options(const weft_run_options& c, const Executable& executable) {
  RunOptions options;
  if (c.on_device < 0 || c.on_device > 2) usage_error("E210", cat("on_device is ", c.on_device, ", not 0, 1 or 2"));
  bool is_gpu = executable.device().starts_with("nvidia:") || executable.device().starts_with("amd:");
  if (c.on_device && !is_gpu)
    usage_error("E502", cat("inputs on a device were given to a program for ", executable.device()));
  options.on_device = c.on_device > 0;
  if (c.on_device == 2) options.stream = c.stream;
  if (c.deadline_seconds != 0) options.deadline = deadline_after(c.deadline_seconds);
  if (c.stop) options.stop = [stop = c.stop, user = c.stop_user] { return stop(user) != 0; };
  if (c.allocate) {
    options.allocate_output = [allocate = c.allocate, user = c.allocate_user](
                                  size_t index, std::span<const int64_t> dims, size_t bytes) {
      return static_cast<std::byte*>(allocate(user, index, dims.data(), dims.size(), bytes));
    };
  }
  return options;
}

}  // namespace

weft_status* weft_context_new(const weft_program* program, weft_context** context) {
  return guarded([&] {
    required(context, "context");
    auto executable = required(program, "program").executable;
    auto made = executable->new_context();
    *context = new weft_context{std::move(executable), std::move(made)};
  });
}

void weft_context_free(weft_context* context) { delete context; }

weft_status* weft_context_memory_use(const weft_context* context, weft_memory* memory) {
  return guarded([&] {
    MemoryUse use = required(context, "context").context->memory();
    fill(&required(memory, "memory"), weft_memory(0, use.arena, use.scratch, use.peak, use.weights, use.constants));
  });
}

weft_status* weft_output_sizes(const weft_program* program, const weft_tensor* const* inputs, size_t input_count,
                               size_t index, int64_t* dims, size_t rank, size_t* bytes) {
  return guarded([&] {
    const Executable& executable = *required(program, "program").executable;
    const auto& ports = executable.outputs();
    if (index >= ports.size()) usage_error("E210", cat("there is no output ", index, ", only ", ports.size()));
    const Shape& shape = ports[index].type.shape;
    if (rank != shape.dims.size())
      usage_error("E210", cat("output ", index, " has rank ", shape.dims.size(), ", there is room for ", rank));
    if (rank > 0) required(dims, "dims");
    auto given = with_defaults(executable.inputs(), gather_inputs(executable, inputs, input_count));
    auto sizes = output_sizes(executable.inputs(), ports[index], given);
    std::ranges::copy(sizes, dims);
    bool is_known = std::ranges::find(sizes, -1) == sizes.end();
    if (bytes) *bytes = is_known ? static_cast<size_t>(byte_size(shape.dtype, element_count(sizes))) : 0;
  });
}

weft_status* weft_run(weft_context* context, const weft_tensor* const* inputs, size_t input_count,
                      weft_tensor** outputs, size_t output_count, const weft_run_options* given) {
  return guarded([&] {
    const Executable& executable = *required(context, "context").executable;
    size_t count = executable.outputs().size();
    if (output_count != count)
      usage_error("E310", cat("the program has ", count, " outputs, room for ", output_count, " given"));
    if (count > 0) required(outputs, "outputs");
    weft_run_options c = known_part(given, weft_run_options WEFT_RUN_OPTIONS_INIT);
    auto memory = output_memory(c, count);
    RunOptions options = to_run_options(c, executable);
    options.output_memory = memory;
    std::optional<HostExecutor> executor;
    if (c.executor) options.executor = &executor.emplace(to_executor(*c.executor));
    auto tensors = gather_inputs(executable, inputs, input_count);
    std::vector<std::unique_ptr<weft_tensor>> handles;
    for (Tensor& result : context->context->run(tensors, options)) {
      bool is_shared = executable.device().starts_with("ref");  // ref returns inputs and constants without a copy
      handles.push_back(std::make_unique<weft_tensor>(weft_tensor{std::move(result), is_shared}));
    }
    for (size_t i = 0; i < count; ++i) outputs[i] = handles[i].release();
  });
}
