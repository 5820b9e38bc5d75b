// SPDX-License-Identifier: Apache-2.0
#include "ort/graph.h"

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "ort/api.h"

namespace weft::ort {
namespace {

std::vector<std::string> names_of(const std::vector<const OrtValueInfo*>& values) {
  std::vector<std::string> names;
  for (const OrtValueInfo* value : values) names.push_back(name_of(value));
  return names;
}

void remember(GraphView& graph, const std::vector<const OrtValueInfo*>& values) {
  for (const OrtValueInfo* value : values) {
    if (value) graph.values.try_emplace(name_of(value), value);
  }
}

NodeView read_node(const OrtNode* node, GraphView& graph) {
  using Values = const OrtValueInfo*;
  auto inputs = list<Values>(&OrtApi::Node_GetNumInputs, &OrtApi::Node_GetInputs, node);
  auto outputs = list<Values>(&OrtApi::Node_GetNumOutputs, &OrtApi::Node_GetOutputs, node);
  auto implicit = list<Values>(&OrtApi::Node_GetNumImplicitInputs, &OrtApi::Node_GetImplicitInputs, node);
  for (const auto& values : {inputs, outputs, implicit}) remember(graph, values);
  const char *name = nullptr, *op = nullptr, *domain = nullptr, *provider = nullptr;
  ok(api.ort->Node_GetName(node, &name));
  ok(api.ort->Node_GetOperatorType(node, &op));
  ok(api.ort->Node_GetDomain(node, &domain));
  ok(api.ort->Node_GetEpName(node, &provider));
  return {.handle = node,
          .name = name,
          .op = op,
          .domain = std::string_view(domain) == "ai.onnx" ? "" : domain,
          .provider = provider ? provider : "",
          .inputs = names_of(inputs),
          .outputs = names_of(outputs),
          .implicit = names_of(implicit)};
}

std::vector<std::pair<std::string, int64_t>> read_opsets(const OrtGraph* graph) {
  size_t count = 0;
  ok(api.ort->Graph_GetNumOperatorSets(graph, &count));
  std::vector<const char*> domains(count);
  std::vector<int64_t> versions(count);
  ok(api.ort->Graph_GetOperatorSets(graph, domains.data(), versions.data(), count));
  std::vector<std::pair<std::string, int64_t>> opsets;
  for (size_t i = 0; i < count; ++i) opsets.emplace_back(domains[i], versions[i]);
  return opsets;
}

/// Maps onnxruntime's number of a type to Weft's type; -1 for the undefined type, number 0.
constexpr int dtypes[] = {
    -1,       WEFT_F32,    WEFT_U8,     WEFT_I8,       WEFT_U16,        WEFT_I16,    WEFT_I32,
    WEFT_I64, WEFT_STRING, WEFT_BOOL,   WEFT_F16,      WEFT_F64,        WEFT_U32,    WEFT_U64,
    WEFT_C64, WEFT_C128,   WEFT_BF16,   WEFT_F8E4M3FN, WEFT_F8E4M3FNUZ, WEFT_F8E5M2, WEFT_F8E5M2FNUZ,
    WEFT_U4,  WEFT_I4,     WEFT_F4E2M1, WEFT_U2,       WEFT_I2,         WEFT_F8E8M0};

/// Numbers in onnx.proto of onnxruntime's types 24, 25 and 26: u2, i2, f8e8m0. Lower numbers are equal in both.
constexpr int proto_types_from_24[] = {25, 26, 24};

Tensor string_tensor(const OrtValue* value, std::span<const int64_t> dims) {
  size_t length = 0, count = 1;
  for (int64_t size : dims) count *= static_cast<size_t>(size);
  ok(api.ort->GetStringTensorDataLength(value, &length));
  std::vector<char> text(length);
  std::vector<size_t> begins(count), lengths(count);
  if (count > 0) ok(api.ort->GetStringTensorContent(value, text.data(), length, begins.data(), count));
  std::vector<const char*> strings;
  for (size_t i = 0; i < count; ++i) {
    strings.push_back(text.data() + begins[i]);
    lengths[i] = (i + 1 < count ? begins[i + 1] : length) - begins[i];
  }
  return Tensor(own<weft_tensor, weft_tensor_free>([&](weft_tensor** out) {
                  return weft_tensor_strings(dims.data(), dims.size(), strings.data(), lengths.data(), out);
                }).release());
}

Tensor copy_of(const OrtValue* value) {
  Tensor tensor = view_of(value);
  return tensor.dtype() == WEFT_STRING ? tensor : Tensor::copy(tensor.dtype(), tensor.bytes(), tensor.dims());
}

/// Constants of at least this many bytes are mapped from their file; a mapping costs too much for smaller constants.
constexpr size_t least_mapped = 65536;

/// Returns type and sizes of a tensor; nullopt if the value is no tensor or a size is unknown.
std::optional<std::pair<weft_dtype, std::vector<int64_t>>> fixed_shape(const OrtValueInfo* value) {
  const OrtTypeInfo* type = type_info(value);
  const OrtTensorTypeAndShapeInfo* tensor = nullptr;
  if (type) ok(api.ort->CastTypeInfoToTensorInfo(type, &tensor));
  if (!tensor || !api.ort->TensorTypeAndShape_HasShape(tensor)) return std::nullopt;
  ONNXTensorElementDataType element{};
  ok(api.ort->GetTensorElementType(tensor, &element));
  size_t rank = 0;
  ok(api.ort->GetDimensionsCount(tensor, &rank));
  std::vector<int64_t> dims(rank);
  ok(api.ort->GetDimensions(tensor, dims.data(), rank));
  if (std::ranges::any_of(dims, [](int64_t size) { return size < 0; })) return std::nullopt;
  return std::pair(dtype_of(element), dims);
}

/// Copies a sequence or map. Frees the value that onnxruntime's GetValue makes for each item.
Tensor container_of(const OrtValue* value, weft_kind kind) {
  OrtAllocator* allocator = nullptr;
  ok(api.ort->GetAllocatorWithDefaultOptions(&allocator));
  size_t count = 0;
  ok(api.ort->GetValueCount(value, &count));
  std::vector<Tensor> items;
  for (size_t i = 0; i < count; ++i) {
    OrtValue* item = nullptr;
    ok(api.ort->GetValue(value, static_cast<int>(i), allocator, &item));
    items.push_back(copy_of(OwnedValue(item).get()));
  }
  return Tensor::collect(kind, items);
}

}  // namespace

Tensor value_of(const OrtValue* value, bool is_optional) {
  if (is_optional) {
    int has_value = 0;
    ok(api.ort->HasValue(value, &has_value));
    return Tensor::collect(WEFT_OPTIONAL, has_value ? std::vector{value_of(value, false)} : std::vector<Tensor>());
  }
  ONNXType type{};
  ok(api.ort->GetValueType(value, &type));
  if (type == ONNX_TYPE_SEQUENCE) return container_of(value, WEFT_SEQUENCE);
  return type == ONNX_TYPE_MAP ? container_of(value, WEFT_MAP) : view_of(value);
}

bool NodeView::has_bodies() const {
  size_t count = 0;
  ok(api.ort->Node_GetNumSubgraphs(handle, &count));
  return count > 0;
}

bool GraphView::is_constant(const std::string& value) const {
  auto found = values.find(value);
  bool is_constant = false;
  if (found != values.end()) ok(api.ort->ValueInfo_IsConstantInitializer(found->second, &is_constant));
  return is_constant;
}

const OrtValue* GraphView::constant(const std::string& value) const {
  const OrtValue* tensor = nullptr;
  if (is_constant(value)) ok(api.ort->ValueInfo_GetInitializerValue(values.at(value), &tensor));
  return tensor;
}

std::optional<StoredConstant> GraphView::stored_constant(const std::string& value) const {
  auto found = values.find(value);
  OrtExternalInitializerInfo* info = nullptr;
  if (handle && found != values.end()) ok(api.ort->ValueInfo_GetExternalInitializerInfo(found->second, &info));
  OwnedExternalInfo place(info);
  auto shape = place ? fixed_shape(found->second) : std::nullopt;
  if (!shape) return std::nullopt;
  const ORTCHAR_T* model = nullptr;
  ok(api.ort->Graph_GetModelPath(handle, &model));
  auto folder = std::filesystem::path(model).parent_path();
  StoredConstant stored{.path = folder / api.ort->ExternalInitializerInfo_GetFilePath(info),
                        .offset = static_cast<size_t>(api.ort->ExternalInitializerInfo_GetFileOffset(info)),
                        .dtype = shape->first,
                        .dims = shape->second};
  try {
    size_t bytes = stored.map().bytes().size(), said = api.ort->ExternalInitializerInfo_GetByteSize(info);
    bool is_same = said == 0 || said == bytes;  // 0: the model does not give the length
    return is_same && bytes >= least_mapped ? std::optional(stored) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;  // onnxruntime reads the constant itself, or reports the error
  }
}

std::string name_of(const OrtValueInfo* value) {
  const char* name = "";
  if (value) ok(api.ort->GetValueInfoName(value, &name));
  return name;
}

const OrtTypeInfo* type_info(const OrtValueInfo* value) {
  const OrtTypeInfo* info = nullptr;
  ok(api.ort->GetValueInfoTypeInfo(value, &info));
  return info;
}

std::string op_of(const OrtNode* node) {
  const char* op = nullptr;
  ok(api.ort->Node_GetOperatorType(node, &op));
  return op;
}

const OrtGraph* graph_of(const OrtNode* node) {
  const OrtGraph* graph = nullptr;
  ok(api.ort->Node_GetGraph(node, &graph));
  return graph;
}

GraphView read_graph(const OrtGraph* graph) {
  GraphView view{.handle = graph, .opsets = read_opsets(graph)};
  ok(api.ort->Graph_GetParentNode(graph, &view.parent));
  for (const OrtNode* node : list<const OrtNode*>(&OrtApi::Graph_GetNumNodes, &OrtApi::Graph_GetNodes, graph))
    view.nodes.push_back(read_node(node, view));
  auto inputs = list<const OrtValueInfo*>(&OrtApi::Graph_GetNumInputs, &OrtApi::Graph_GetInputs, graph);
  auto outputs = list<const OrtValueInfo*>(&OrtApi::Graph_GetNumOutputs, &OrtApi::Graph_GetOutputs, graph);
  remember(view, inputs);
  remember(view, outputs);
  view.inputs = names_of(inputs);
  view.outputs = names_of(outputs);
  return view;
}

GraphView graph_of_node(const GraphView& graph, const OrtNode* node) {
  GraphView view{.opsets = graph.opsets};
  view.nodes = {read_node(node, view)};
  for (const std::string& output : view.nodes[0].outputs) {
    if (!output.empty()) view.outputs.push_back(output);
  }
  return view;
}

std::vector<std::pair<std::string, const OrtGraph*>> bodies(const OrtNode* node) {
  size_t count = 0;
  ok(api.ort->Node_GetNumSubgraphs(node, &count));
  std::vector<const OrtGraph*> graphs(count);
  std::vector<const char*> attributes(count);
  if (count > 0) ok(api.ort->Node_GetSubgraphs(node, graphs.data(), count, attributes.data()));
  std::vector<std::pair<std::string, const OrtGraph*>> named;
  for (size_t i = 0; i < count; ++i) named.emplace_back(attributes[i], graphs[i]);
  return named;
}

size_t count_nodes(const GraphView& graph) {
  size_t total = graph.nodes.size();
  for (const NodeView& node : graph.nodes) {
    for (const auto& [attribute, body] : bodies(node.handle)) total += count_nodes(read_graph(body));
  }
  return total;
}

weft_dtype dtype_of(ONNXTensorElementDataType type) {
  bool is_known = type > 0 && static_cast<size_t>(type) < std::size(dtypes);
  if (!is_known) throw Error(WEFT_UNSUPPORTED, "E149", "element type " + std::to_string(type) + " is unknown to Weft");
  return static_cast<weft_dtype>(dtypes[type]);
}

int64_t proto_type_of(ONNXTensorElementDataType type) { return type < 24 ? type : proto_types_from_24[type - 24]; }

ONNXTensorElementDataType onnx_type_of(weft_dtype type) {
  auto found = std::ranges::find(dtypes, static_cast<int>(type));
  return static_cast<ONNXTensorElementDataType>(found - std::begin(dtypes));
}

Tensor view_of(const OrtValue* value) {
  ONNXTensorElementDataType type{};
  const int64_t* sizes = nullptr;
  size_t rank = 0;
  ok(api.ort->GetTensorElementTypeAndShapeDataReference(value, &type, &sizes, &rank));
  std::span<const int64_t> dims(sizes, rank);
  weft_dtype dtype = dtype_of(type);
  if (dtype == WEFT_STRING) return string_tensor(value, dims);
  const void* data = nullptr;
  ok(api.ort->GetTensorData(value, &data));
  size_t bits = static_cast<size_t>(weft_dtype_bits(dtype));
  for (int64_t size : dims) bits *= static_cast<size_t>(size);
  return Tensor::view(dtype, {static_cast<const std::byte*>(data), (bits + 7) / 8}, dims);
}

}  // namespace weft::ort
