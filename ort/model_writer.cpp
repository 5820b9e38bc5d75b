// SPDX-License-Identifier: Apache-2.0
#include "ort/model_writer.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>

#include "ort/api.h"

namespace weft::ort {
namespace {

// Field numbers of onnx.proto that are used several times.
enum NodeField { node_input = 1, node_output = 2, node_name = 3, node_op = 4, node_attribute = 5, node_domain = 7 };
enum GraphField { graph_node = 1, graph_name = 2, graph_initializer = 5, graph_input = 11, graph_output = 12 };
enum ModelField { model_ir = 1, model_graph = 7, model_opset = 8 };
constexpr int64_t ir_version = 10;

[[noreturn]] void refuse(const std::string& what) { throw Error(WEFT_UNSUPPORTED, "E122", what); }

// ---- Types ----

Message tensor_type(const OrtTensorTypeAndShapeInfo* info) {
  ONNXTensorElementDataType element{};
  ok(api.ort->GetTensorElementType(info, &element));
  dtype_of(element);  // throws for types that Weft lacks
  Message type = Message().number(1, proto_type_of(element));
  if (!api.ort->TensorTypeAndShape_HasShape(info)) return type;
  size_t rank = 0;
  ok(api.ort->GetDimensionsCount(info, &rank));
  std::vector<int64_t> sizes(rank);
  std::vector<const char*> names(rank);
  ok(api.ort->GetDimensions(info, sizes.data(), rank));
  ok(api.ort->GetSymbolicDimensions(info, names.data(), rank));
  Message shape;
  for (size_t i = 0; i < rank; ++i) {
    Message dim;
    if (sizes[i] >= 0) dim.number(1, sizes[i]);
    else if (names[i] && *names[i]) dim.text(2, names[i]);
    shape.message(1, dim);
  }
  return type.message(2, shape);
}

Message type_of(const OrtTypeInfo* info);

Message contained_type(auto get, const auto* info) {
  OrtTypeInfo* inner = nullptr;
  ok((api.ort->*get)(info, &inner));
  return type_of(OwnedTypeInfo(inner).get());
}

Message map_type(const OrtMapTypeInfo* info) {
  ONNXTensorElementDataType key{};
  ok(api.ort->GetMapKeyType(info, &key));
  return Message().number(1, proto_type_of(key)).message(2, contained_type(&OrtApi::GetMapValueType, info));
}

/// Encodes a TypeProto.
Message type_of(const OrtTypeInfo* info) {
  ONNXType kind{};
  ok(api.ort->GetOnnxTypeFromTypeInfo(info, &kind));
  const OrtTensorTypeAndShapeInfo* tensor = nullptr;
  const OrtSequenceTypeInfo* sequence = nullptr;
  const OrtOptionalTypeInfo* optional = nullptr;
  const OrtMapTypeInfo* map = nullptr;
  switch (kind) {
    case ONNX_TYPE_TENSOR:
      ok(api.ort->CastTypeInfoToTensorInfo(info, &tensor));
      return Message().message(1, tensor_type(tensor));
    case ONNX_TYPE_SEQUENCE:
      ok(api.ort->CastTypeInfoToSequenceTypeInfo(info, &sequence));
      return Message().message(4, Message().message(1, contained_type(&OrtApi::GetSequenceElementType, sequence)));
    case ONNX_TYPE_OPTIONAL:
      ok(api.ort->CastTypeInfoToOptionalTypeInfo(info, &optional));
      return Message().message(9,
                               Message().message(1, contained_type(&OrtApi::GetOptionalContainedTypeInfo, optional)));
    case ONNX_TYPE_MAP: ok(api.ort->CastTypeInfoToMapTypeInfo(info, &map)); return Message().message(5, map_type(map));
    case ONNX_TYPE_UNKNOWN:
    case ONNX_TYPE_OPAQUE:
    case ONNX_TYPE_SPARSETENSOR: break;
  }
  refuse("a value is neither a tensor, sequence, optional nor map");
}

/// Encodes a ValueInfoProto.
Message value_info(const OrtValueInfo* value) {
  Message message = Message().text(1, name_of(value));
  const OrtTypeInfo* info = type_info(value);
  return info ? message.message(2, type_of(info)) : message;
}

/// Returns type and sizes of a value; null if it is not a tensor.
const OrtTensorTypeAndShapeInfo* tensor_info(const OrtValueInfo* value) {
  const OrtTensorTypeAndShapeInfo* tensor = nullptr;
  ok(api.ort->CastTypeInfoToTensorInfo(type_info(value), &tensor));
  return tensor;
}

bool has_nameless_size(const OrtValueInfo* value) {
  const OrtTensorTypeAndShapeInfo* tensor = tensor_info(value);
  if (!tensor) return false;
  size_t rank = 0;
  ok(api.ort->GetDimensionsCount(tensor, &rank));
  std::vector<int64_t> sizes(rank);
  std::vector<const char*> names(rank);
  ok(api.ort->GetDimensions(tensor, sizes.data(), rank));
  ok(api.ort->GetSymbolicDimensions(tensor, names.data(), rank));
  for (size_t i = 0; i < rank; ++i) {
    if (sizes[i] < 0 && !(names[i] && *names[i])) return true;
  }
  return false;
}

/// Encodes a ValueInfoProto for a constant, with its type and sizes.
Message constant_info(const Constant& constant) {
  const Tensor tensor = constant.tensor();
  Message shape;
  for (int64_t size : tensor.dims()) shape.message(1, Message().number(1, size));
  Message type = Message().number(1, proto_type_of(onnx_type_of(tensor.dtype()))).message(2, shape);
  return Message().text(1, constant.name).message(2, Message().message(1, type));
}

// ---- Tensors ----

/// Encodes a TensorProto with its data.
Message tensor_message(const Tensor& tensor, const std::string& name) {
  Message message;
  for (int64_t size : tensor.dims()) message.number(1, size);
  message.number(2, proto_type_of(onnx_type_of(tensor.dtype()))).text(8, name);
  if (tensor.dtype() != WEFT_STRING) {
    std::span<const std::byte> bytes = tensor.bytes();
    return message.text(9, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  for (int64_t i = 0; i < tensor.elements(); ++i) message.text(6, tensor.string(static_cast<size_t>(i)));
  return message;
}

// ---- Nodes ----

template <class T>
std::vector<T> read_attribute(const OrtOpAttr* attribute, OrtOpAttrType type) {
  size_t bytes = 0;
  api.ort->ReleaseStatus(api.ort->ReadOpAttr(attribute, type, nullptr, 0, &bytes));  // fails, but sets `bytes`
  std::vector<T> values(bytes / sizeof(T));
  if (bytes > 0) ok(api.ort->ReadOpAttr(attribute, type, values.data(), bytes, &bytes));
  return values;
}

/// Writes the strings of an attribute. In `strings`, each string ends with a 0 byte.
void write_strings(Message& message, const std::vector<char>& strings) {
  for (auto begin = strings.begin(); begin != strings.end();) {
    auto end = std::find(begin, strings.end(), '\0');
    message.text(9, std::string_view(begin, end));
    begin = end == strings.end() ? end : end + 1;
  }
}

Message tensor_attribute(const OrtOpAttr* attribute) {
  OrtValue* value = nullptr;
  ok(api.ort->OpAttr_GetTensorAttributeAsOrtValue(attribute, &value));
  return tensor_message(view_of(OwnedValue(value).get()), "");
}

/// Encodes an AttributeProto. Returns "" for an attribute that is a graph: bodies are written by write_body.
Message write_attribute(const OrtOpAttr* attribute) {
  const char* name = nullptr;
  OrtOpAttrType type{};
  ok(api.ort->OpAttr_GetName(attribute, &name));
  ok(api.ort->OpAttr_GetType(attribute, &type));
  Message message = Message().text(1, name);
  switch (type) {
    case ORT_OP_ATTR_FLOAT: return message.number(20, 1).float32(2, read_attribute<float>(attribute, type).at(0));
    case ORT_OP_ATTR_INT: return message.number(20, 2).number(3, read_attribute<int64_t>(attribute, type).at(0));
    case ORT_OP_ATTR_STRING: {
      std::vector<char> text = read_attribute<char>(attribute, type);
      return message.number(20, 3).text(4, std::string_view(text.begin(), std::find(text.begin(), text.end(), '\0')));
    }
    case ORT_OP_ATTR_TENSOR: return message.number(20, 4).message(5, tensor_attribute(attribute));
    case ORT_OP_ATTR_FLOATS:
      message.number(20, 6);
      for (float value : read_attribute<float>(attribute, type)) message.float32(7, value);
      return message;
    case ORT_OP_ATTR_INTS:
      message.number(20, 7);
      for (int64_t value : read_attribute<int64_t>(attribute, type)) message.number(8, value);
      return message;
    case ORT_OP_ATTR_STRINGS:
      write_strings(message.number(20, 8), read_attribute<char>(attribute, type));
      return message;
    case ORT_OP_ATTR_GRAPH: return {};
    case ORT_OP_ATTR_UNDEFINED: break;
  }
  refuse(std::string("attribute '") + name + "' is of a kind that onnxruntime does not show");
}

Message write_body(const OrtGraph* handle);

Message write_node(const NodeView& node, size_t number) {
  Message message;
  for (const std::string& input : node.inputs) message.text(node_input, input);
  for (const std::string& output : node.outputs) message.text(node_output, output);
  message.text(node_name, name_or_number(node, number)).text(node_op, node.op);
  if (!node.domain.empty()) message.text(node_domain, node.domain);
  for (auto* attribute :
       list<const OrtOpAttr*>(&OrtApi::Node_GetNumAttributes, &OrtApi::Node_GetAttributes, node.handle)) {
    Message written = write_attribute(attribute);
    if (!written.data.empty()) message.message(node_attribute, written);
  }
  for (const auto& [attribute, body] : bodies(node.handle))
    message.message(node_attribute, Message().text(1, attribute).number(20, 5).message(6, write_body(body)));
  return message;
}

/// Encodes the GraphProto of the body of an If, Loop or Scan, with its constants inside.
Message write_body(const OrtGraph* handle) {
  GraphView graph = read_graph(handle);
  Message message;
  for (size_t i = 0; i < graph.nodes.size(); ++i) message.message(graph_node, write_node(graph.nodes[i], i));
  message.text(graph_name, "body");
  using Values = const OrtValueInfo*;
  for (Values value : list<Values>(&OrtApi::Graph_GetNumInitializers, &OrtApi::Graph_GetInitializers, handle)) {
    const OrtValue* tensor = nullptr;
    ok(api.ort->ValueInfo_GetInitializerValue(value, &tensor));
    message.message(graph_initializer, tensor_message(view_of(tensor), name_of(value)));
  }
  for (const std::string& input : graph.inputs) message.message(graph_input, value_info(graph.values.at(input)));
  for (const std::string& output : graph.outputs) message.message(graph_output, value_info(graph.values.at(output)));
  return message;
}

}  // namespace

std::string name_or_number(const NodeView& node, size_t number) {
  return node.name.empty() ? node.op + "_" + std::to_string(number) : node.name;
}

ModelWriter::ModelWriter(const GraphView& graph, const Quantization& quantization)
    : graph_(graph), quantization_(quantization), nodes_(graph.nodes.size()), faults_(graph.nodes.size()) {
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    try {
      nodes_[i] = write_node(graph.nodes[i], i);
    } catch (const Error& error) {
      faults_[i] = error.facts();
    }
  }
}

std::string ModelWriter::port_fault(const std::string& value, bool is_input) const {
  auto found = graph_.values.find(value);
  const OrtTypeInfo* info = found == graph_.values.end() ? nullptr : type_info(found->second);
  const OrtTensorTypeAndShapeInfo* tensor = nullptr;
  if (info) ok(api.ort->CastTypeInfoToTensorInfo(info, &tensor));
  if (!tensor && (!is_input || !info))
    return "'" + value + "' is not a tensor, and onnxruntime takes only tensors from a plug-in";
  if (!tensor) return {};
  if (is_input && !api.ort->TensorTypeAndShape_HasShape(tensor)) return "the rank of '" + value + "' is not known";
  return {};
}

ONNXTensorElementDataType ModelWriter::element_of(const std::string& value) const {
  ONNXTensorElementDataType element{};
  const OrtTensorTypeAndShapeInfo* tensor = tensor_info(graph_.values.at(value));
  if (tensor) ok(api.ort->GetTensorElementType(tensor, &element));
  return element;
}

bool ModelWriter::is_condition(const std::string& value) const {
  return element_of(value) == ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL;
}

bool ModelWriter::is_of_host(const std::string& value) const {
  ONNXTensorElementDataType element = element_of(value);
  return element == ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING || element == ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
}

Boundary ModelWriter::boundary(std::span<const size_t> part) const {
  std::unordered_set<std::string> made, wanted(graph_.outputs.begin(), graph_.outputs.end());
  std::vector<bool> is_inside(graph_.nodes.size());
  for (size_t number : part) {
    is_inside[number] = true;
    made.insert(graph_.nodes[number].outputs.begin(), graph_.nodes[number].outputs.end());
  }
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    if (is_inside[i]) continue;
    wanted.insert(graph_.nodes[i].inputs.begin(), graph_.nodes[i].inputs.end());
    wanted.insert(graph_.nodes[i].implicit.begin(), graph_.nodes[i].implicit.end());
  }
  Boundary boundary;
  std::unordered_set<std::string> read = {""};
  for (size_t number : part) {
    for (const auto* names : {&graph_.nodes[number].inputs, &graph_.nodes[number].implicit}) {
      for (const std::string& name : *names) {
        if (!made.contains(name) && read.insert(name).second && !graph_.is_constant(name))
          boundary.inputs.push_back(name);
      }
    }
    for (const std::string& name : graph_.nodes[number].outputs) {
      if (!name.empty() && wanted.contains(name)) boundary.outputs.push_back(name);
    }
  }
  return boundary;
}

void ModelWriter::add_ports(Message& graph, const std::vector<std::string>& values, int field) const {
  for (const std::string& value : values) graph.message(field, value_info(graph_.values.at(value)));
}

/// Writes an f32 constant into the model if the model is to be quantised. Returns false if it wrote nothing.
bool ModelWriter::add_weight(Message& graph, const Constant& constant) const {
  if (!quantization_.is_wanted()) return false;
  Tensor tensor = constant.tensor();
  if (tensor.dtype() != WEFT_F32) return false;
  graph.message(graph_initializer, tensor_message(tensor, constant.name));
  return true;
}

void ModelWriter::add_nodes(Message& graph, ModelText& model, std::span<const size_t> part) const {
  std::unordered_set<std::string> known;
  for (size_t number : part) {
    const NodeView& node = graph_.nodes[number];
    graph.message(graph_node, nodes_[number]);
    for (const auto* names : {&node.inputs, &node.implicit}) {
      for (const std::string& name : *names) {
        if (!known.insert(name).second || !graph_.is_constant(name)) continue;
        auto stored = graph_.stored_constant(name);
        Constant constant{.name = name,
                          .given = stored ? Tensor() : view_of(graph_.constant(name)),
                          .is_lent = !stored,
                          .stored = stored};
        if (!add_weight(graph, constant)) model.constants.push_back(std::move(constant));
      }
    }
  }
}

ModelText ModelWriter::write(std::span<const size_t> part, const Boundary& boundary) const {
  ModelText model{.inputs = boundary.inputs, .outputs = boundary.outputs};
  Message graph;
  add_nodes(graph, model, part);
  graph.text(graph_name, "part");
  add_ports(graph, model.inputs, graph_input);
  for (const std::string& input : model.inputs) model.has_nameless_size |= has_nameless_size(graph_.values.at(input));
  for (const Constant& constant : model.constants) graph.message(graph_input, constant_info(constant));
  add_ports(graph, model.outputs, graph_output);
  Message message = Message().number(model_ir, ir_version);
  for (const auto& [domain, version] : graph_.opsets)
    message.message(model_opset, Message().text(1, domain).number(2, version));
  model.bytes = message.message(model_graph, graph).data;
  if (quantization_.is_wanted()) model.bytes = quantized(model.bytes, quantization_);
  return model;
}

std::string content_hash(const ModelText& model) {
  XXH3_state_t* state = XXH3_createState();
  XXH3_128bits_reset(state);
  auto add = [&](const void* data, size_t size) { XXH3_128bits_update(state, data, size); };
  add(model.bytes.data(), model.bytes.size());
  for (const Constant& constant : model.constants) {
    const Tensor tensor = constant.tensor();
    if (tensor.dtype() != WEFT_STRING) add(tensor.bytes().data(), tensor.bytes().size());
    else
      for (int64_t i = 0; i < tensor.elements(); ++i)
        add(tensor.string(static_cast<size_t>(i)).data(), tensor.string(static_cast<size_t>(i)).size() + 1);
  }
  XXH128_hash_t hash = XXH3_128bits_digest(state);
  XXH3_freeState(state);
  char text[33];
  std::snprintf(text, sizeof text, "%016" PRIx64 "%016" PRIx64, hash.high64, hash.low64);
  return text;
}

}  // namespace weft::ort
