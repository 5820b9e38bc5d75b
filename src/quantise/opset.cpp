// SPDX-License-Identifier: Apache-2.0
#include "quantise/opset.h"

#include <algorithm>

#include "base/text.h"
#include "quantise/layers.h"

namespace weft::quantise {
namespace {

/// Returns the version of the file format (IR version) for an operator set.
int64_t format_of(int64_t opset) { return opset >= 21 ? 10 : 9; }

const onnx::Attribute* find(const onnx::Node& node, std::string_view name) {
  auto found = std::ranges::find(node.attributes, name, &onnx::Attribute::name);
  return found == node.attributes.end() ? nullptr : &*found;
}

/// True for a reduction with an attribute `axes`, which became an input in operator set 18.
bool has_axes(const onnx::Node& node) {
  return node.domain.empty() && node.op_type.starts_with("Reduce") && node.op_type != "ReduceSum" && find(node, "axes");
}
/// True for a Split into equal parts. From operator set 18 on, an attribute gives the number of parts.
bool is_equal_split(const onnx::Node& node) {
  return node.domain.empty() && node.op_type == "Split" && node.inputs.size() == 1;
}
/// True if the operator's meaning changes: RoiAlign's default positions (set 16), GroupNormalization's scales (set 21).
bool is_changed(const onnx::Node& node, int64_t opset, int64_t wanted) {
  if (!node.domain.empty()) return false;
  return (node.op_type == "RoiAlign" && opset < 16) || (node.op_type == "GroupNormalization" && wanted >= 21);
}

std::vector<std::string> strings(const std::vector<std::string_view>& names) { return {names.begin(), names.end()}; }

void change_reduction(ModelEdit& edit, const onnx::Node& node) {
  size_t index = node.index;
  const auto& axes = std::get<std::vector<int64_t>>(find(node, "axes")->value);
  std::string name = edit.new_name(cat(node.outputs[0], "_axes"));
  edit.add_weight(name, make_i64_tensor(axes));
  edit.remove(index);
  edit.put_before(index, {.op = std::string(node.op_type),
                          .inputs = {std::string(node.inputs[0]), name},
                          .outputs = strings(node.outputs),
                          .integers = {{"keepdims", integer(node, "keepdims", 1)}}});
}

void change_split(ModelEdit& edit, const onnx::Node& node) {
  size_t index = node.index, count = node.outputs.size();
  edit.remove(index);
  edit.put_before(index,
                  {.op = "Split",
                   .inputs = strings(node.inputs),
                   .outputs = strings(node.outputs),
                   .integers = {{"axis", integer(node, "axis", 0)}, {"num_outputs", static_cast<int64_t>(count)}}});
}

}  // namespace

bool can_raise_opset(const onnx::Model& model, int64_t wanted) {
  int64_t opset = opset_of(model);
  if (opset >= wanted) return true;
  if (opset < 13 || !model.functions.empty()) return false;
  auto is_as_it_is = [&](const onnx::Node& node) {
    return !is_changed(node, opset, wanted) && (opset >= 18 || (!has_axes(node) && !is_equal_split(node)));
  };
  auto may_stay = [&](const onnx::Node& node) { return !is_changed(node, opset, wanted); };
  auto stays = [&](const onnx::Graph& body) { return std::ranges::all_of(body.nodes, is_as_it_is); };
  return std::ranges::all_of(model.graph.nodes, may_stay) && std::ranges::all_of(model.subgraphs, stays);
}

void raise_opset(ModelEdit& edit, int64_t wanted) {
  int64_t opset = edit.opset();
  if (wanted == 0) return;
  edit.require_format(format_of(wanted));
  if (opset >= wanted) return;
  edit.require_opset("", wanted);
  if (opset >= 18) return;
  for (const onnx::Node& node : edit.model().graph.nodes) {
    if (has_axes(node)) change_reduction(edit, node);
    else if (is_equal_split(node)) change_split(edit, node);
  }
}

}  // namespace weft::quantise
