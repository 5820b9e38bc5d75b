// SPDX-License-Identifier: Apache-2.0
#include "migraphx/builder.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <memory>

#include "migraphx/attributes.h"
#include "migraphx/custom_op.h"

namespace weft::mgx {
namespace {

std::vector<int64_t> dims_of(const std::vector<size_t>& lengths) { return {lengths.begin(), lengths.end()}; }

/// Returns the type of a parameter as text, and declares a symbol in the graph for each size that is a range.
std::string declare(Graph& graph, const Step& step) {
  std::vector<std::string> dims;
  if (!step.shape.is_dynamic())
    for (size_t length : step.shape.lengths) dims.push_back(std::to_string(length));
  for (size_t i = 0; i < step.shape.dynamic.size(); ++i) {
    auto [min, max, optimals] = step.shape.dynamic[i];
    std::string name = "d" + std::to_string(i) + "_";
    for (char c : step.name) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
    if (min < max) graph.symbol(name, int64_t(min), int64_t(std::min<size_t>(max, INT64_MAX)));
    dims.push_back(min < max ? name : std::to_string(min));
  }
  return weft_dtype_name(dtype_of(step.shape.type)) + list_of(dims);
}

Values append(Graph& graph, const Step& step, const std::vector<Values>& known) {
  if (step.kind == Step::Kind::parameter) return {graph.input(step.name, declare(graph, step))};
  if (step.kind != Step::Kind::operation) return {graph.constant(step.tensor)};
  std::vector<Values> operands;
  for (size_t operand : step.operands) operands.push_back(known[operand]);
  graph.source(step.name);
  if (auto op = find_custom_op(step.name)) return append_custom_op(graph, op, operands);
  return append_operator(graph, step.name, step.attributes, operands);
}

/// Copies a tensor with any strides to row-major order.
Tensor dense_copy(const migraphx_shape& shape, const char* data) {
  size_t size = static_cast<size_t>(weft_dtype_bits(dtype_of(shape.type))) / 8, count = shape.elements();
  std::vector<std::byte> bytes(count * size);
  for (size_t i = 0; i < count; ++i) std::memcpy(bytes.data() + i * size, data + shape.index(i) * size, size);
  return Tensor::copy(dtype_of(shape.type), bytes, dims_of(shape.lengths));
}

}  // namespace

Builder::Builder(const Builder& other) : Builder(other.name_) {
  for (const Step& step : other.steps_) add(step);
  results_ = other.results_;
}

size_t Builder::add(Step step) {
  for (size_t operand : step.operands) item(steps_, operand);
  values_.push_back(append(graph_, step, values_));
  steps_.push_back(std::move(step));
  return steps_.size() - 1;
}

void Builder::set_results(std::vector<size_t> steps) {
  if (results_) refuse("module '" + name_ + "' returns already");
  results_ = std::move(steps);
}

std::vector<size_t> Builder::results() const {
  if (results_) return *results_;
  if (steps_.empty()) refuse("module '" + name_ + "' is empty");
  return {steps_.size() - 1};
}

migraphx_shape Builder::shape(size_t step) const {
  const Values& values = item(values_, step);
  if (values.size() != 1) return {migraphx_shape_tuple_type, {}, {}, {}};
  Builder copy(*this);  // the copy gets an output, because only a port has the ranges of open sizes
  copy.graph_.output("y", values[0]);
  return shape_of(copy.graph_.outputs()[0]);
}

Graph Builder::build() const {
  Graph graph(name_);
  std::vector<Values> known;
  for (const Step& step : steps_) known.push_back(append(graph, step, known));
  size_t number = 0;
  for (size_t result : results())
    for (weft_value value : known[result]) graph.output("#output_" + std::to_string(number++), value);
  return graph;
}

migraphx_shape shape_of(const Port& port) {
  migraphx_shape shape{.type = migraphx_shape_tuple_type};
  if (!port.is_tensor) return shape;
  std::vector<size_t> lengths;
  bool is_dynamic = false;
  for (const weft_dim& dim : dims(port)) {
    is_dynamic |= dim.value < 0;
    lengths.push_back(static_cast<size_t>(dim.max));
    shape.dynamic.push_back({static_cast<size_t>(dim.min), static_cast<size_t>(dim.max), {}});
  }
  if (!is_dynamic) return make_shape(type_of(port.dtype), lengths);
  shape.type = type_of(port.dtype), shape.lengths = std::move(lengths);
  return shape;
}

}  // namespace weft::mgx

using namespace weft::mgx;

namespace {

Builder& writable(migraphx_module_t module) {
  if (given(module).is_read)
    not_supported("nothing can be added to a program that was read from a file", "build it anew, or change the file");
  return module->builder;
}

std::vector<size_t> steps_of(migraphx_module_t module, migraphx_instructions_t args) {
  std::vector<size_t> steps;
  if (!args) return steps;
  for (const migraphx_instruction& instruction : args->list) {
    if (instruction.module != module) refuse("an operand is of another module");
    steps.push_back(instruction.step);
  }
  return steps;
}

void give(migraphx_instruction_t* out, migraphx_module_t module, Step step) {
  given(out);
  size_t number = writable(module).add(std::move(step));
  *out = new migraphx_instruction{module, number};
}

/// Returns the text that printf would write.
std::string formatted(const char* format, va_list list) {
  va_list again;
  va_copy(again, list);
  int length = std::vsnprintf(nullptr, 0, format, again);
  va_end(again);
  if (length < 0) refuse("the attributes' format is not valid for printf");
  std::string text(static_cast<size_t>(length) + 1, '\0');
  std::vsnprintf(text.data(), text.size(), format, list);
  text.pop_back();
  return text;
}

}  // namespace

WEFT_MGX_HANDLE(instruction)
WEFT_MGX_HANDLE(instructions)
WEFT_MGX_HANDLE(modules)
WEFT_MGX_HANDLE(operation)

migraphx_status migraphx_instructions_create(migraphx_instructions_t* instructions,
                                             const const_migraphx_instruction_t* ptr, size_t size) {
  return guarded([&] {
    auto made = std::make_unique<migraphx_instructions>();
    for (size_t i = 0; i < size; ++i) made->list.push_back(given(given(ptr + i)));
    given(instructions), *instructions = made.release();
  });
}

migraphx_status migraphx_modules_create(migraphx_modules_t* modules, migraphx_module_t* ptr, size_t size) {
  return guarded([&] {
    auto made = std::make_unique<migraphx_modules>();
    for (size_t i = 0; i < size; ++i) made->list.push_back(&given(given(ptr + i)));
    given(modules), *modules = made.release();
  });
}

migraphx_status weft_migraphx_instruction_shape(migraphx_shape_t* out, const_migraphx_instruction_t instruction) {
  return guarded([&] {
    const auto& [module, step] = given(instruction);
    give(out, migraphx_shape(module->builder.shape(step)));
  });
}

migraphx_status migraphx_module_create(migraphx_module_t* module, char* name) {
  return guarded([&] { give(module, migraphx_module(&given(name))); });
}

migraphx_status migraphx_module_print(const_migraphx_module_t module) {
  return guarded([&] {
    std::fputs(given(module).builder.graph().print().c_str(), stdout);
    std::fflush(stdout);
  });
}

migraphx_status migraphx_module_add_instruction(migraphx_instruction_t* out, migraphx_module_t module,
                                                migraphx_operation_t op, migraphx_instructions_t args) {
  return guarded([&] {
    give(out, module, {.name = given(op).name, .attributes = op->attributes, .operands = steps_of(module, args)});
  });
}

migraphx_status migraphx_module_add_instruction_with_mod_args(migraphx_instruction_t* out, migraphx_module_t module,
                                                              migraphx_operation_t op, migraphx_instructions_t args,
                                                              migraphx_modules_t module_refs) {
  if (!module_refs || module_refs->list.empty()) return migraphx_module_add_instruction(out, module, op, args);
  return guarded([&] {
    not_supported("operator '" + given(op).name + "' with modules cannot be built by hand here",
                  "control flow comes in with an ONNX model's If, Loop and Scan");
  });
}

migraphx_status migraphx_module_add_literal(migraphx_instruction_t* out, migraphx_module_t module,
                                            const_migraphx_shape_t shape, const char* buffer) {
  return guarded([&] {
    if (given(shape).is_dynamic()) refuse("a literal of " + to_string(*shape) + ", whose sizes are not fixed");
    if (shape->bytes() > 0) given(buffer);
    give(out, module, {.kind = Step::Kind::literal, .tensor = dense_copy(*shape, buffer)});
  });
}

migraphx_status migraphx_module_add_parameter(migraphx_instruction_t* out, migraphx_module_t module, const char* name,
                                              const_migraphx_shape_t shape) {
  return guarded(
      [&] { give(out, module, {.kind = Step::Kind::parameter, .name = &given(name), .shape = given(shape)}); });
}

/// Sets the module's results. As in MIGraphX, also returns a handle, but this handle cannot be an operand.
migraphx_status migraphx_module_add_return(migraphx_instruction_t* out, migraphx_module_t module,
                                           migraphx_instructions_t args) {
  return guarded([&] {
    given(out);
    writable(module).set_results(steps_of(module, args));
    *out = new migraphx_instruction{module, SIZE_MAX};
  });
}

migraphx_status migraphx_module_add_allocation(migraphx_instruction_t* out, migraphx_module_t module,
                                               const_migraphx_shape_t s) {
  return guarded([&] {
    migraphx_argument zeros = make_argument(given(s));
    give(out, module, {.kind = Step::Kind::allocation, .tensor = dense_copy(zeros.shape, zeros.data())});
  });
}

migraphx_status migraphx_operation_create(migraphx_operation_t* operation, const char* name, const char* attributes,
                                          ...) {
  va_list list;
  va_start(list, attributes);
  migraphx_status status = guarded([&] {
    given(operation);
    std::string json = attributes ? to_json(formatted(attributes, list)) : "";
    *operation = new migraphx_operation{&given(name), json};
  });
  va_end(list);
  return status;
}

migraphx_status migraphx_operation_name(char* out, size_t out_size, migraphx_operation_t operation) {
  return guarded([&] {
    given(out);
    const std::string& name = given(operation).name;
    if (out_size == 0) refuse("there is no room for the operator's name");
    size_t length = std::min(name.size(), out_size - 1);
    std::memcpy(out, name.data(), length);
    out[length] = '\0';
  });
}
