// SPDX-License-Identifier: Apache-2.0
#include "migraphx/program.h"

#include <algorithm>
#include <cstring>

#include "adapters/variables.h"

namespace weft::mgx {
namespace {

const std::string output_prefix = "main:#output_";

/// Returns a tensor over the memory of an argument. An argument that is not row-major is copied.
Tensor tensor_of(const migraphx_argument& argument) {
  const migraphx_shape& shape = argument.shape;
  check_fixed(shape);
  weft_dtype type = dtype_of(shape.type);
  std::vector<int64_t> dims(shape.lengths.begin(), shape.lengths.end());
  if (shape.is_standard())
    return Tensor::view(type, {reinterpret_cast<std::byte*>(argument.data()), shape.bytes()}, dims);
  size_t size = static_cast<size_t>(weft_dtype_bits(type)) / 8, count = shape.elements();
  std::vector<std::byte> dense(count * size);
  for (size_t i = 0; i < count; ++i)
    std::memcpy(dense.data() + i * size, argument.data() + shape.index(i) * size, size);
  return Tensor::copy(type, dense, dims);
}

}  // namespace

/// Returns the argument as a tensor for the port. MIGraphX gives a scalar one axis of length 1, which is removed if the
/// port has no axes.
Tensor as_port(const Port& port, const migraphx_argument& argument) {
  Tensor tensor = tensor_of(argument);
  if (port.rank == 0 && tensor.dims().size() == 1 && tensor.dims()[0] == 1)
    return Tensor::view(tensor.dtype(), tensor.bytes(), {});
  return tensor;
}

namespace {

/// The GPU memory of results. Without offload copies, arguments and results stay on the GPU.
struct GpuResults {
  std::string gpu;
  std::vector<std::shared_ptr<void>> memory;

  static void* allocate(void* user, size_t output, const int64_t*, size_t, size_t bytes) {
    auto& self = *static_cast<GpuResults*>(user);
    void* data = nullptr;
    if (weft_status* status = weft_gpu_allocate(self.gpu.c_str(), std::max<size_t>(bytes, 1), &data)) {
      weft_status_free(status);
      return nullptr;
    }
    auto release = [gpu = self.gpu](void* memory) { weft_status_free(weft_gpu_release(gpu.c_str(), memory)); };
    self.memory[output] = std::shared_ptr<void>(data, release);
    return data;
  }
};

const migraphx_argument& find(const migraphx_program_parameters& parameters, const char* name) {
  auto found = parameters.map.find(std::string_view(name));
  if (found != parameters.map.end()) return found->second;
  std::string names;
  for (const auto& [given, argument] : parameters.map) names += (names.empty() ? "" : ", ") + given;
  refuse("parameter '" + std::string(name) + "' is missing", "given are: " + names);
}

migraphx_shape shape_of_result(const Tensor& tensor) {
  return make_shape(type_of(tensor.dtype()), {tensor.dims().begin(), tensor.dims().end()});
}

/// Returns an argument that owns a result. Copies memory shared with the program, because the caller may write to the
/// argument.
migraphx_argument owned(Tensor tensor) {
  migraphx_shape shape = shape_of_result(tensor);
  if (weft_tensor_is_shared(tensor.get())) {
    migraphx_argument copy = make_argument(shape);
    std::memcpy(copy.data(), tensor.bytes().data(), tensor.bytes().size());
    return copy;
  }
  void* data = const_cast<std::byte*>(tensor.bytes().data());
  auto keeper = std::make_shared<Tensor>(std::move(tensor));
  return {std::move(shape), std::shared_ptr<void>(std::move(keeper), data)};
}

/// Returns the argument `place`, which now holds the result. It keeps the caller's shape if this shape is row-major and
/// has the result's type and number of elements; else it gets the result's shape.
migraphx_argument placed(const migraphx_argument& place, const Tensor& result) {
  std::vector<size_t> lengths(result.dims().begin(), result.dims().end());
  migraphx_shape shape = make_shape(type_of(result.dtype()), lengths);
  const migraphx_shape& given = place.shape;
  bool is_same = given.is_standard() && given.type == shape.type && given.elements() == shape.elements();
  return is_same ? place : migraphx_argument{std::move(shape), place.memory};
}

migraphx_shapes shapes_of(const std::vector<Port>& ports) {
  migraphx_shapes shapes;
  for (const Port& port : ports) shapes.list.push_back(shape_of(port));
  return shapes;
}

migraphx_program_parameter_shapes named_shapes(const std::vector<Port>& ports) {
  migraphx_program_parameter_shapes shapes;
  for (const Port& port : ports) shapes.list.emplace_back(port.name, shape_of(port));
  return shapes;
}

}  // namespace

Graph Source::read() const {
  if (!bytes) return Graph::read(path, options);
  return Graph::read(std::as_bytes(std::span(bytes->data(), bytes->size())), options);
}

Compiled::Compiled(Program program, bool gives_outputs, std::shared_ptr<const std::string> bytes)
    : bytes_(std::move(bytes)),
      served_(std::move(program)),
      gives_outputs_(gives_outputs),
      inputs_(this->program().inputs()),
      outputs_(this->program().outputs()) {}

migraphx_program_parameter_shapes Compiled::parameters() const {
  migraphx_program_parameter_shapes shapes = named_shapes(inputs_);
  migraphx_shapes results = shapes_of(outputs_);
  for (size_t i = 0; gives_outputs_ && i < results.list.size(); ++i) {
    const migraphx_shape& shape = results.list[i];
    if (!shape.is_dynamic() && shape.type != migraphx_shape_tuple_type)
      shapes.list.emplace_back(output_prefix + std::to_string(i), shape);
  }
  return shapes;
}

migraphx_shapes Compiled::results() const { return shapes_of(outputs_); }

std::string Compiled::amd_gpu() const {
  std::string device = program().device();
  return device.starts_with("amd:") ? device.substr(0, device.find(' ')) : std::string();
}

/// Only an AMD GPU can hold the arguments, because the caller of MIGraphX allocates them with HIP.
std::string Compiled::gpu() const { return gives_outputs_ ? amd_gpu() : std::string(); }

void Compiled::wait_for(void* stream) const {
  if (std::string name = amd_gpu(); !name.empty()) check(weft_gpu_wait(name.c_str(), stream));
}

migraphx_arguments Compiled::run(const migraphx_program_parameters& parameters, std::optional<void*> stream) const {
  GpuResults on_gpu{gpu(), std::vector<std::shared_ptr<void>>(outputs_.size())};
  std::vector<Tensor> inputs;
  for (const Port& port : inputs_) {
    const migraphx_argument& argument = find(parameters, port.name);
    if (!on_gpu.gpu.empty() && !argument.shape.is_standard())
      refuse("parameter '" + std::string(port.name) + "' lies on the GPU as " + to_string(argument.shape) +
             ", with gaps between its rows");
    inputs.push_back(as_port(port, argument));
  }
  RunOptions options{.outputs = std::vector<weft_buffer>(outputs_.size())};
  std::vector<const migraphx_argument*> places(outputs_.size());
  for (size_t i = 0; i < outputs_.size(); ++i) {
    auto found = parameters.map.find(output_prefix + std::to_string(i));
    if (found == parameters.map.end()) continue;
    places[i] = &found->second;
    options.outputs[i] = {places[i]->data(), places[i]->shape.bytes()};
  }
  if (!on_gpu.gpu.empty()) {
    options.on_device = stream ? 2 : 1, options.stream = stream.value_or(nullptr);
    options.allocate = GpuResults::allocate, options.allocate_user = &on_gpu;
  }
  if (options.on_device != 2) wait_for(stream.value_or(nullptr));
  std::vector<Tensor> results = served_.run(inputs, options);
  migraphx_arguments arguments;
  for (size_t i = 0; i < results.size(); ++i) {
    if (places[i]) arguments.list.push_back(placed(*places[i], results[i]));
    else if (on_gpu.memory[i]) arguments.list.push_back({shape_of_result(results[i]), on_gpu.memory[i]});
    else arguments.list.push_back(owned(std::move(results[i])));
  }
  return arguments;
}

}  // namespace weft::mgx

using namespace weft::mgx;

migraphx_program& migraphx_program::operator=(const migraphx_program& other) {
  if (this == &other) return *this;
  source = other.source, precision = other.precision, made = other.made;
  is_quantised = other.is_quantised, refusal = other.refusal;
  modules.clear();
  for (const auto& module : other.modules) modules.push_back(std::make_unique<migraphx_module>(*module));
  return *this;
}

migraphx_module* migraphx_program::main() {
  if (modules.empty()) modules.push_back(std::make_unique<migraphx_module>("main"));
  modules[0]->is_read = source || made;
  return modules[0].get();
}

weft::Graph migraphx_program::graph() const {
  if (refusal) throw refusal->error;
  if (!source && modules.empty())
    refuse("the program is empty", "parse a model, or add instructions to its main module");
  return source ? source->read() : modules[0]->builder.build();
}

namespace {

/// Returns the device for a target. For "gpu" this is "auto" if arguments are in host memory. Otherwise it is the first
/// GPU, because the program must run on the GPU that holds the arguments. Without GPUs it is the CPU.
std::string device_for(const std::string& target, bool has_host_memory) {
  if (target != "gpu") return target;
  const char* first = weft_gpu(0);
  if (first) return has_host_memory ? "auto" : first;
  warn(
      "there is no GPU here that a driver knows, so programs for the target 'gpu' run on the cpu; `weft devices -v` "
      "says what was looked for");
  return "cpu";
}

}  // namespace

void migraphx_program::compile(const std::string& target, const migraphx_compile_options& how) {
  if (made) refuse("the program is compiled already");
  if (refusal) return;
  std::string idle = weft::adapters::idle_variables("MIGRAPHX_", {}, weft::adapters::migraphx_variables());
  if (!idle.empty()) warn(idle);
  weft::CompileOptions options{.device = device_for(target, how.offload_copy), .precision = precision};
  bool gives_outputs = target == "gpu" && !how.offload_copy;
  auto bytes = source ? source->bytes : nullptr;
  constexpr double no_limit = 1e7;
  if (how.exhaustive_tune && target != "ref") options.tune_seconds = no_limit;
  made = std::make_shared<Compiled>(graph().compile(options), gives_outputs, bytes);
}

weft::mgx::Compiled& migraphx_program::compiled() const {
  if (refusal) throw refusal->error;
  if (!made) refuse("the program is not compiled", "call migraphx_program_compile first");
  return *made;
}

void migraphx_program::set_precision(weft_precision wanted) {
  if (made) refuse("the program is compiled already", "its precision is settled before that");
  if (precision != WEFT_PRECISION_F32 && precision != wanted) refuse("f16 and bf16 cannot be combined");
  precision = wanted;
}

/// Returns the shapes of the parameters. For a refused body, each shape has size 0, so that the caller's arguments
/// differ from it. The caller then parses the model again.
migraphx_program_parameter_shapes migraphx_program::parameters() const {
  if (made) return made->parameters();
  if (refusal) {
    migraphx_program_parameter_shapes shapes;
    for (const std::string& name : refusal->body.inputs)
      shapes.list.emplace_back(name, make_shape(migraphx_shape_float_type, {0}));
    return shapes;
  }
  weft::Graph wanted = graph();  // the ports below point into it
  return named_shapes(wanted.inputs());
}

migraphx_shapes migraphx_program::results() const {
  if (refusal) return {std::vector<migraphx_shape>(refusal->body.results)};
  return made ? made->results() : shapes_of(graph().outputs());
}
