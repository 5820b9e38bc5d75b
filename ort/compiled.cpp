// SPDX-License-Identifier: Apache-2.0
#include "ort/compiled.h"

#include <algorithm>
#include <cstring>
#include <exception>

#include "ort/api.h"
#include "ort/device.h"
#include "ort/graph.h"

namespace weft::ort {
namespace {

std::vector<std::string> port_names(const std::vector<Port>& ports) {
  std::vector<std::string> names;
  for (const Port& port : ports) names.emplace_back(port.name);
  return names;
}

/// The outputs of one run. When the sizes of an output are known, onnxruntime allocates it, and Weft writes to it.
struct Outputs {
  OrtKernelContext* kernel;
  const std::vector<size_t>& places;
  std::vector<void*> memory;
  std::exception_ptr failure = nullptr;  // an exception of the callback

  void* make(size_t index, const int64_t* dims, size_t rank) {
    OrtValue* value = nullptr;
    ok(api.ort->KernelContext_GetOutput(kernel, places[index], dims, rank, &value));
    ok(api.ort->GetTensorMutableData(value, &memory[index]));
    return memory[index];
  }

  /// Returns the memory for an output. A caller may bind the same memory to an input and an output, as generators do
  /// with their key-value cache. The run then updates the memory in place if possible, else copies the input
  /// first.
  void* memory_for_run(size_t index, const int64_t* dims, size_t rank, size_t bytes) {
    alignas(64) static char nothing;  // used for an empty output, whose address may be null
    void* data = make(index, dims, rank);
    return data && bytes > 0 ? data : &nothing;
  }

  static void* allocate(void* user, size_t index, const int64_t* dims, size_t rank, size_t bytes) {
    auto& self = *static_cast<Outputs*>(user);
    try {
      return self.memory_for_run(index, dims, rank, bytes);
    } catch (...) {
      self.failure = std::current_exception();
      return nullptr;
    }
  }

  void write_strings(size_t index, const Tensor& result) {
    OrtValue* value = nullptr;
    ok(api.ort->KernelContext_GetOutput(kernel, places[index], result.dims().data(), result.dims().size(), &value));
    std::vector<const char*> strings;
    for (int64_t i = 0; i < result.elements(); ++i) strings.push_back(result.string(static_cast<size_t>(i)).data());
    ok(api.ort->FillStringTensor(value, strings.data(), strings.size()));
  }

  /// Copies a result to onnxruntime's output, unless the run has written it there.
  void deliver(size_t index, const Tensor& result) {
    if (result.dtype() == WEFT_STRING) return write_strings(index, result);
    if (!memory[index]) make(index, result.dims().data(), result.dims().size());
    auto bytes = result.bytes();
    if (!bytes.empty() && memory[index] != bytes.data()) std::memcpy(memory[index], bytes.data(), bytes.size());
  }
};

}  // namespace

Compiled::Compiled(Program program, std::shared_ptr<Memory> memory, const RunPlace& place, Again again)
    : memory_(std::move(memory)),
      served_(std::move(program)),
      place_(place),
      again_(std::move(again)),
      inputs_(port_names(this->program().inputs())),
      outputs_(port_names(this->program().outputs())) {
  for (const Port& port : this->program().inputs())
    is_optional_.push_back(std::string_view(port.type).starts_with("optional("));
}

Compiled::Binding Compiled::bind(const std::vector<std::string>& inputs,
                                 const std::vector<std::string>& outputs) const {
  auto place = [](const std::vector<std::string>& names, const std::string& name, const char* what) {
    auto found = std::ranges::find(names, name);
    if (found == names.end())
      throw Error(WEFT_MODEL, "E310", std::string(what) + " '" + name + "' of the program is not there in the graph");
    return static_cast<size_t>(found - names.begin());
  };
  Binding binding;
  for (const std::string& name : inputs_) binding.inputs.push_back(place(inputs, name, "input"));
  for (const std::string& name : outputs_) binding.outputs.push_back(place(outputs, name, "output"));
  return binding;
}

std::shared_ptr<const Compiled> Compiled::variant_for_sizes(const std::vector<Tensor>& inputs) const {
  std::vector<std::string> shapes;
  std::string key;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i] || weft_tensor_kind(inputs[i].get()) != WEFT_TENSOR || inputs[i].dims().empty()) continue;
    std::string shape = inputs_[i] + "=";
    for (int64_t size : inputs[i].dims()) shape += (shape.back() == '=' ? "" : ",") + std::to_string(size);
    key += shape + ";";
    shapes.push_back(shape);
  }
  return variants_.get(key, [&] { return std::make_shared<Compiled>(again_(shapes), memory_, place_); });
}

void Compiled::run(OrtKernelContext* kernel, const Binding& binding) const {
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < binding.inputs.size(); ++i) {
    const OrtValue* value = nullptr;
    ok(api.ort->KernelContext_GetInput(kernel, binding.inputs[i], &value));
    inputs.push_back(value ? value_of(value, is_optional_[i]) : Tensor());
  }
  try {
    run(kernel, binding, inputs);
  } catch (const Error& error) {
    if (!again_ || error.code() != "E312") throw;
    variant_for_sizes(inputs)->run(kernel, binding, inputs);
  }
}

void Compiled::run(OrtKernelContext* kernel, const Binding& binding, const std::vector<Tensor>& inputs) const {
  Outputs outputs{kernel, binding.outputs, std::vector<void*>(binding.outputs.size())};
  RunOptions options{.allocate = &Outputs::allocate,
                     .allocate_user = &outputs,
                     .on_device = !place_.gpu     ? 0
                                  : place_.stream ? 2
                                                  : 1,
                     .stream = place_.stream};
  if (place_.waits_for_default_stream) check(weft_gpu_wait(place_.gpu->name.c_str(), nullptr));
  std::vector<Tensor> results;
  try {
    results = run_best(inputs, options);
  } catch (...) {
    if (outputs.failure) std::rethrow_exception(outputs.failure);
    throw;
  }
  for (size_t i = 0; i < results.size(); ++i) outputs.deliver(i, results[i]);
}

std::vector<Tensor> Compiled::run_best(const std::vector<Tensor>& inputs, const RunOptions& options) const {
  if (!tuning_) return served_.run(inputs, options);
  tuning_->begin();
  auto tuned = tuning_->result();
  return (tuned ? *tuned : served_).run(inputs, options);
}

}  // namespace weft::ort
