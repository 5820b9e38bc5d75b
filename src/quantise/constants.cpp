// SPDX-License-Identifier: Apache-2.0
#include "quantise/constants.h"

#include <algorithm>

#include "compile.h"
#include "frontends/onnx/file/constants.h"
#include "frontends/onnx/file/writer.h"

namespace weft::quantise {
namespace {

constexpr std::string_view random_ops[] = {"RandomNormal",      "RandomUniform", "RandomNormalLike",
                                           "RandomUniformLike", "Multinomial",   "Bernoulli"};

}  // namespace

const onnx::TensorData* held_tensor(const onnx::Node& node) {
  if (node.op_type != "Constant" || !node.domain.empty()) return nullptr;
  for (const onnx::Attribute& attribute : node.attributes)
    if (const auto* tensors = std::get_if<std::vector<onnx::TensorData>>(&attribute.value)) return tensors->data();
  return nullptr;
}

Constants::Constants(const ModelEdit& edit) : edit_(edit) {
  const onnx::Graph& graph = edit.model().graph;
  for (const auto& weight : graph.initializers) {
    names_.emplace(weight.name);
    values_.emplace(weight.name, onnx::to_tensor(weight));
  }
  for (const onnx::Node& node : graph.nodes) {
    auto is_known = [&](std::string_view name) { return names_.contains(name); };
    bool is_random = std::ranges::find(random_ops, node.op_type) != std::end(random_ops);
    if (is_random || node.outputs.empty() || !std::ranges::all_of(onnx::reads_of(node), is_known)) continue;
    names_.insert(node.outputs.begin(), node.outputs.end());
    if (const onnx::TensorData* tensor = held_tensor(node))
      values_.emplace(std::string(node.outputs[0]), onnx::to_tensor(*tensor));
  }
}

void Constants::add(const std::string& name, Tensor value) {
  names_.insert(name);
  values_.insert_or_assign(name, std::move(value));
}

const Tensor& Constants::value(const std::string& name) const {
  auto known = values_.find(name);
  if (known != values_.end()) return known->second;
  ModelEdit part = edit_;
  part.set_outputs({name});
  part.drop_unread_inputs();
  auto executable = compile_bytes(Bytes::copy(as_bytes(part.bytes())), {.device = "ref", .folder = edit_.folder()});
  return values_.emplace(name, executable->new_context()->run({}).at(0)).first->second;
}

}  // namespace weft::quantise
