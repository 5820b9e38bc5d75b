// SPDX-License-Identifier: Apache-2.0
#include "driver/model_parts.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "frontends/common/wire.h"
#include "frontends/onnx/file/constants.h"
#include "frontends/onnx/file/writer.h"

namespace weft::driver {

using onnx::element_code, onnx::put_integer, onnx::put_text, onnx::tensor_bytes;

namespace {

/// Encodes the TypeProto of a value. Sizes that are symbolic in `open`, if given, are written as symbols. The TypeProto
/// of an empty container is empty.
std::string type_bytes(const Tensor& value, const Dims& open = {}) {
  std::string out, inner;
  if (value.is_tensor()) {
    std::string shape;
    for (size_t axis = 0; axis < value.dims.size(); ++axis) {
      std::string size;
      if (open.empty() || open[axis].is_constant()) put_integer(size, 1, value.dims[axis]);
      else put_text(size, 2, to_string(open[axis]));
      put_text(shape, 1, size);
    }
    put_integer(inner, 1, element_code(value.dtype));
    put_text(inner, 2, shape);
    put_text(out, 1, inner);
    return out;
  }
  if (value.items->empty()) return out;
  // Items may differ in their sizes, so only the element type is named.
  std::string element;
  put_integer(element, 1, element_code((*value.items)[0].dtype));
  std::string item;
  put_text(item, 1, element);
  put_text(inner, 1, (*value.items)[0].is_tensor() ? item : type_bytes((*value.items)[0]));
  put_text(out, value.kind == Type::Kind::optional ? 9 : 4, inner);
  return out;
}

std::string port_bytes(std::string_view name, const Tensor* value, const Dims& open = {}) {
  std::string out;
  put_text(out, 1, name);
  if (value) put_text(out, 2, type_bytes(*value, open));
  return out;
}

}  // namespace

std::string value_bytes(const Tensor& value) {
  if (value.is_tensor()) return tensor_bytes(value, "");
  std::string out;
  if (value.kind == Type::Kind::map)
    throw Error({.kind = ErrorKind::unsupported, .code = "E215", .what = "maps are not written as test data"});
  for (const Tensor& item : *value.items) {
    uint32_t field = item.is_tensor() ? 3 : item.kind == Type::Kind::sequence ? 5 : 7;
    put_text(out, field, value_bytes(item));
  }
  return out;
}

ModelParts::ModelParts(onnx::Model model) : model_(std::move(model)) {
  frontend::Wire wire(model_.file, model_.file.data(), "model");
  for (const std::byte* begin = wire.rest().data(); wire.next(); begin = wire.rest().data()) {
    if (wire.field() != 7) {
      wire.skip();
      rest_.emplace_back(begin, wire.rest().data());
      continue;
    }
    frontend::Wire graph = wire.message("graph");
    while (graph.next()) {
      if (graph.field() == 1) nodes_.push_back(graph.bytes("node"));
      else graph.skip();
    }
  }
  for (const auto& weight : model_.graph.initializers) weights_.emplace(weight.name, &weight);
  for (const auto& weight : model_.graph.sparse_initializers) {
    throw Error({.kind = ErrorKind::unsupported,
                 .code = "E215",
                 .what = cat("the sparse weight '", printable(weight.values.name), "' cannot be cut out of a model")});
  }
}

std::string ModelParts::model_bytes(const std::string& graph) const {
  std::string out;
  for (auto field : rest_) out += as_text(field);
  put_text(out, 7, graph);
  return out;
}

std::vector<std::string> ModelParts::result_names(size_t count) const {
  std::vector<std::string> names;
  if (count == 0)
    for (const auto& input : model_.graph.inputs) names.emplace_back(input.name);
  for (const onnx::Node& node : std::span(model_.graph.nodes).first(count)) {
    for (std::string_view name : node.outputs)
      if (!name.empty()) names.emplace_back(name);
  }
  return names;
}

std::string ModelParts::first_nodes(size_t count) const {
  std::string graph;
  frontend::Wire wire(model_.file, model_.file.data(), "model");
  size_t nodes = 0;
  while (wire.next()) {
    if (wire.field() != 7) {
      wire.skip();
      continue;
    }
    frontend::Wire old = wire.message("graph");
    for (const std::byte* begin = old.rest().data(); old.next(); begin = old.rest().data()) {
      bool is_kept = old.field() == 1 ? nodes++ < count : old.field() != 12;
      old.skip();
      if (is_kept) graph += as_text(std::span(begin, old.rest().data()));
    }
  }
  for (const std::string& name : result_names(count)) put_text(graph, 12, port_bytes(name, nullptr));
  return model_bytes(graph);
}

ModelParts::Part ModelParts::part(std::span<const size_t> chosen, const std::map<std::string, Tensor>& values,
                                  const std::map<std::string, Dims>& open) const {
  Part part;
  std::set<std::string, std::less<>> made, read, results;
  std::string graph;
  for (const onnx::Node& node : model_.graph.nodes) results.insert(node.outputs.begin(), node.outputs.end());
  for (size_t i : chosen) {
    const onnx::Node& node = model_.graph.nodes[i];
    put_text(graph, 1, as_text(nodes_[i]));
    made.insert(node.outputs.begin(), node.outputs.end());
    for (std::string_view name : onnx::reads_of(node)) read.emplace(name);
  }
  put_text(graph, 2, "part");
  for (const std::string& name : read) {
    if (made.contains(name)) continue;
    auto weight = weights_.find(name);
    if (weight != weights_.end()) put_text(graph, 5, tensor_bytes(onnx::to_tensor(*weight->second), name));
    else if (values.contains(name)) part.inputs.push_back(name);  // no map has names that bodies define
    else part.is_whole = part.is_whole && !results.contains(name);
  }
  for (size_t i : chosen) {
    for (std::string_view name : model_.graph.nodes[i].outputs)
      if (!name.empty() && !read.contains(name)) part.outputs.emplace_back(name);
  }
  auto put_port = [&](uint32_t field, const std::string& name) {
    auto value = values.find(name);
    auto sizes = open.find(name);
    put_text(graph, field,
             port_bytes(name, value == values.end() ? nullptr : &value->second,
                        sizes == open.end() ? Dims{} : sizes->second));
  };
  for (const std::string& name : part.inputs) put_port(11, name);
  for (const std::string& name : part.outputs) put_port(12, name);
  part.bytes = model_bytes(graph);
  return part;
}

}  // namespace weft::driver
