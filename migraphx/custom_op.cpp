// SPDX-License-Identifier: Apache-2.0
#include "migraphx/custom_op.h"

#include <atomic>
#include <cstring>
#include <list>
#include <mutex>

#include "migraphx/builder.h"
#include "migraphx/handles.h"
#include "migraphx/program.h"

namespace weft::mgx {

struct CustomOp {
  std::string name = {};
  std::shared_ptr<void> object = {};
  migraphx_experimental_custom_op_compute compute = nullptr;
  migraphx_experimental_custom_op_compute_shape compute_shape = nullptr;
  migraphx_experimental_custom_op_output_alias output_alias = nullptr;
};

}  // namespace weft::mgx

using namespace weft::mgx;

struct migraphx_experimental_custom_op {
  CustomOp op = {};
};

namespace weft::mgx {
namespace {

std::mutex mutex;
std::map<std::string, std::shared_ptr<const CustomOp>>& registry() {
  static auto* made = new std::map<std::string, std::shared_ptr<const CustomOp>>;
  return *made;
}

/// Calls a callback of the operator. If the callback fails, throws E302 with the message that it wrote.
template <class Function>
void call(const CustomOp& op, const char* what, const Function& function) {
  char message[1024] = {};
  if (function(message) == migraphx_status_success) return;
  throw Error(WEFT_UNSUPPORTED, "E302", what + (" of operator '" + op.name + "' failed: ") + message);
}

/// A use of an operator, for fixed shapes. A use is never freed, because a program that calls it may live as long as
/// the process.
struct Use {
  std::shared_ptr<const CustomOp> op;
  migraphx_shapes inputs = {};
  migraphx_shape output = {};
  int64_t aliased = -1;  ///< the operand that shares memory with the result; -1: none
};

Use& keep(Use use) {
  static auto* uses = new std::list<Use>;
  std::lock_guard lock(mutex);
  return uses->emplace_back(std::move(use));
}

migraphx_argument view(const migraphx_shape& shape, void* memory) {
  return {shape, {memory, [](void*) {}}};
}

/// Runs a use. If the result aliases an operand, the operand is first copied to the result's memory, because operands
/// must not be written to.
void compute(const Use& use, void* const* buffers) {
  void* result = buffers[use.inputs.list.size()];
  migraphx_arguments inputs;
  for (size_t i = 0; i < use.inputs.list.size(); ++i) {
    bool is_place = use.aliased == int64_t(i);
    if (is_place) std::memcpy(result, buffers[i], use.output.bytes());
    inputs.list.push_back(view(use.inputs.list[i], is_place ? result : buffers[i]));
  }
  migraphx_argument out = view(use.output, result);
  migraphx_shape shape = use.output;
  migraphx_context context;
  call(*use.op, "compute", [&](char* message) {
    return use.op->compute(&out, use.op->object.get(), message, 1024, &context, &shape, &inputs);
  });
  if (out.data() != result) std::memcpy(result, out.data(), use.output.bytes());
}

int32_t run(void* user, const char*, void* const* buffers, const int64_t*) {
  return guarded([&] { compute(*static_cast<Use*>(user), buffers); });
}

std::string type_text(const migraphx_shape& shape) {
  std::vector<int64_t> dims(shape.lengths.begin(), shape.lengths.end());
  return weft_dtype_name(dtype_of(shape.type)) + list_of(dims);
}

Use use_of(const std::shared_ptr<const CustomOp>& op, const Graph& graph, const std::vector<Values>& operands) {
  Use use{.op = op};
  for (const Values& operand : operands) {
    ValueType type = type_of(graph, item(operand, 0));
    std::vector<size_t> lengths;
    for (const std::string& dim : type.dims) {
      if (dim.find_first_not_of("0123456789") != dim.npos)
        not_supported("operator '" + op->name + "' over size " + dim);
      lengths.push_back(std::stoull(dim));
    }
    weft_dtype dtype = WEFT_BOOL;
    while (dtype < WEFT_STRING && type.dtype != weft_dtype_name(dtype)) dtype = static_cast<weft_dtype>(dtype + 1);
    use.inputs.list.push_back(make_shape(type_of(dtype), lengths));
  }
  call(*op, "compute_shape",
       [&](char* message) { return op->compute_shape(&use.output, op->object.get(), message, 1024, &use.inputs); });
  if (!use.output.is_standard())
    not_supported("operator '" + op->name + "' gives " + to_string(use.output) + " with gaps or open sizes");
  if (!op->output_alias) return use;
  size_t places[64] = {}, count = 64;
  call(*op, "output_alias",
       [&](char* message) { return op->output_alias(places, &count, op->object.get(), message, 1024, &use.inputs); });
  if (count == 0 || places[0] >= operands.size()) return use;
  if (const migraphx_shape& operand = use.inputs.list[places[0]]; operand.bytes() != use.output.bytes())
    refuse("operator '" + op->name + "' puts " + to_string(use.output) + " in the place of " + to_string(operand));
  use.aliased = int64_t(places[0]);
  return use;
}

}  // namespace

std::shared_ptr<const CustomOp> find_custom_op(const std::string& name) {
  std::lock_guard lock(mutex);
  auto found = registry().find(name);
  return found == registry().end() ? nullptr : found->second;
}

Values append_custom_op(Graph& graph, const std::shared_ptr<const CustomOp>& op, const std::vector<Values>& operands) {
  static std::atomic<int> number = 0;
  Use& use = keep(use_of(op, graph, operands));
  std::string rule, name = "migraphx:" + op->name + "_" + std::to_string(number++);
  for (const migraphx_shape& shape : use.inputs.list) rule += (rule.empty() ? "" : ", ") + type_text(shape);
  rule += " -> " + type_text(use.output);
  weft_operator given WEFT_OPERATOR_INIT;
  given.name = name.c_str(), given.rule = rule.c_str(), given.call = run, given.user = &use;
  graph.add_operator(given);
  Values inputs;
  for (const Values& operand : operands) inputs.push_back(operand[0]);
  return {graph.append(name, inputs)};
}

}  // namespace weft::mgx

WEFT_MGX_HANDLE(experimental_custom_op)

migraphx_status migraphx_experimental_custom_op_create(migraphx_experimental_custom_op_t* op, void* obj,
                                                       migraphx_experimental_custom_op_copy c,
                                                       migraphx_experimental_custom_op_delete d, const char*,
                                                       const char* name) {
  return guarded([&] {
    if (!c || !d) refuse("an operator needs functions that copy and delete its object");
    void* copy = nullptr;
    if (c(&copy, obj) != migraphx_status_success) refuse("the object of the operator cannot be copied");
    std::shared_ptr<void> object(copy, [d](void* o) { d(o); });
    give(op, migraphx_experimental_custom_op{{.name = &given(name), .object = std::move(object)}});
  });
}

migraphx_status migraphx_experimental_custom_op_set_compute(migraphx_experimental_custom_op_t obj,
                                                            migraphx_experimental_custom_op_compute input) {
  return guarded([&] { given(obj).op.compute = input; });
}
migraphx_status migraphx_experimental_custom_op_set_compute_shape(migraphx_experimental_custom_op_t obj,
                                                                  migraphx_experimental_custom_op_compute_shape input) {
  return guarded([&] { given(obj).op.compute_shape = input; });
}
migraphx_status migraphx_experimental_custom_op_set_output_alias(migraphx_experimental_custom_op_t obj,
                                                                 migraphx_experimental_custom_op_output_alias input) {
  return guarded([&] { given(obj).op.output_alias = input; });
}
/// Has no effect: custom operators always run on the host, also in a program for a GPU.
migraphx_status migraphx_experimental_custom_op_set_runs_on_offload_target(
    migraphx_experimental_custom_op_t obj, migraphx_experimental_custom_op_runs_on_offload_target) {
  return guarded([&] { given(obj); });
}
migraphx_status migraphx_experimental_custom_op_register(migraphx_experimental_custom_op_t op) {
  return guarded([&] {
    auto made = std::make_shared<CustomOp>(given(op).op);
    if (!made->compute || !made->compute_shape) refuse("operator '" + made->name + "' needs compute and compute_shape");
    std::lock_guard lock(mutex);
    registry()[made->name] = std::move(made);
  });
}
