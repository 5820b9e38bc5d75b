// SPDX-License-Identifier: Apache-2.0
#include "quantise/model_edit.h"

#include <algorithm>
#include <ranges>

#include "base/error.h"
#include "base/text.h"
#include "frontends/common/wire.h"
#include "frontends/onnx/file/constants.h"
#include "frontends/onnx/file/writer.h"

namespace weft::quantise {
namespace {

using onnx::put_head, onnx::put_integer, onnx::put_text;

// Field numbers of onnx.proto.
namespace in_model {
constexpr uint32_t ir_version = 1, graph = 7, opset = 8;
}
namespace in_graph {
constexpr uint32_t node = 1, weight = 5, input = 11, output = 12;
}
namespace in_node {
constexpr uint32_t input = 1, output = 2, attribute = 5;
}
namespace in_attribute {
constexpr uint32_t graph = 6, graphs = 11;
}

constexpr int64_t largest_message = 1'900'000'000;  // protobuf's limit is 2 GiB
constexpr size_t smallest_external = 1024;
constexpr uint64_t external_alignment = 4096;

std::string attribute_text(const std::string& name) {
  std::string out;
  put_text(out, 1, name);
  return out;
}

std::string text_of(const NewNode& node) {
  std::string out;
  for (const std::string& name : node.inputs) put_text(out, 1, name);
  for (const std::string& name : node.outputs) put_text(out, 2, name);
  put_text(out, 3, node.name.empty() ? node.outputs[0] : node.name);
  put_text(out, 4, node.op);
  for (const auto& [name, value] : node.integers) {
    std::string attribute = attribute_text(name);
    put_integer(attribute, 3, value);
    put_integer(attribute, 20, static_cast<int64_t>(onnx::AttributeKind::integer));
    put_text(out, 5, attribute);
  }
  if (!node.axes.empty()) {
    std::string attribute = attribute_text("axes");
    for (int64_t axis : node.axes) put_integer(attribute, 8, axis);
    put_integer(attribute, 20, static_cast<int64_t>(onnx::AttributeKind::integers));
    put_text(out, 5, attribute);
  }
  if (!node.domain.empty()) put_text(out, 7, node.domain);
  return out;
}

/// Calls `visit` with the number and the bytes of each field.
template <class Visit>
void for_each_field(std::span<const std::byte> message, const Visit& visit) {
  frontend::Wire wire(message, message.data(), "model");
  for (const std::byte* begin = wire.rest().data(); wire.next(); begin = wire.rest().data()) {
    wire.skip();
    visit(wire.field(), std::span(begin, wire.rest().data()));
  }
}

/// Returns the content of a length-delimited field.
std::span<const std::byte> content_of(std::span<const std::byte> field) {
  frontend::Wire wire(field, field.data(), "field");
  wire.next();
  return wire.bytes("content");
}

/// Returns the text of field `wanted` in a message, or "".
std::string_view text_field(std::span<const std::byte> message, uint32_t wanted) {
  frontend::Wire wire(message, message.data(), "model");
  while (wire.next()) {
    if (wire.field() == wanted) return wire.text("name");
    wire.skip();
  }
  return {};
}

bool is_external(std::span<const std::byte> tensor) {
  frontend::Wire wire(tensor, tensor.data(), "tensor");
  while (wire.next()) {
    if (wire.field() == 14) return wire.integer("data_location") == 1;
    wire.skip();
  }
  return false;
}

}  // namespace

/// The file beside the model that holds its weights, one after another.
struct ModelEdit::External {
  std::string file;
  uint64_t size = 0;
  std::vector<Bytes> pieces = {};

  /// Adds a tensor to the file; returns the TensorProto that refers to its bytes.
  std::string put(const std::string& name, const Tensor& value) {
    uint64_t padding = (external_alignment - size % external_alignment) % external_alignment;
    pieces.emplace_back(std::vector<std::byte>(padding));
    pieces.push_back(value.data);
    std::string out = onnx::tensor_bytes({.dtype = value.dtype, .dims = value.dims}, name);
    out.resize(out.size() - 2);  // removes the field raw_data, which is empty
    put_entry(out, "location", file);
    put_entry(out, "offset", cat(size + padding));
    put_entry(out, "length", cat(value.data.size()));
    put_integer(out, 14, 1);
    size += padding + value.data.size();
    return out;
  }

 private:
  static void put_entry(std::string& out, std::string_view key, const std::string& value) {
    std::string entry;
    put_text(entry, 1, key);
    put_text(entry, 2, value);
    put_text(out, 13, entry);
  }
};

ModelEdit::ModelEdit(onnx::Model model, std::filesystem::path folder) {
  auto source = std::make_shared<Source>();
  source->model = std::move(model);
  source->folder = std::move(folder);
  read_fields(*source);
  source_ = std::move(source);
}

void ModelEdit::read_fields(Source& source) {
  auto read = [](std::span<const std::byte> message, std::vector<Field>& fields) {
    for_each_field(message, [&](uint32_t number, std::span<const std::byte> whole) {
      fields.push_back({.number = number, .whole = whole, .content = {}});
    });
  };
  read(source.model.file, source.model_fields);
  for (Field& field : source.model_fields) {
    if (field.number != in_model::graph) continue;
    field.content = content_of(field.whole);
    read(field.content, source.graph_fields);
  }
  for (Field& field : source.graph_fields) {
    bool is_weight = field.number == in_graph::weight, is_node = field.number == in_graph::node;
    if (!is_weight && !is_node && field.number != in_graph::input && field.number != in_graph::output) continue;
    field.content = content_of(field.whole);
    if (is_node) source.nodes.push_back(field.content);
    if (is_node) source.names.emplace(text_field(field.content, 3));
    else source.names.emplace(text_field(field.content, is_weight ? 8 : 1));
    source.has_external = source.has_external || (is_weight && is_external(field.content));
  }
  for (const onnx::Node& node : source.model.graph.nodes) {
    source.names.insert(node.outputs.begin(), node.outputs.end());
    for (std::string_view name : node.outputs) source.makers.emplace(name, node.index);
    onnx::for_each_body(node, [&](const onnx::Graph& body) {
      for (const onnx::Node& inner : body.nodes) source.names.insert(inner.outputs.begin(), inner.outputs.end());
    });
  }
}

int64_t opset_of(const onnx::Model& model) {
  int64_t version = 0;
  for (const onnx::OpsetImport& opset : model.opsets)
    if (opset.domain.empty() || opset.domain == "ai.onnx") version = opset.version;
  return version;
}

int64_t ModelEdit::opset() const {
  int64_t version = opset_of(model());
  auto required = opsets_.find("");
  return required == opsets_.end() ? version : std::max(version, required->second);
}

bool ModelEdit::is_output(std::string_view name) const {
  return std::ranges::find(model().graph.outputs, name, &onnx::ValueInfo::name) != model().graph.outputs.end();
}

const onnx::Node* ModelEdit::maker(std::string_view name) const {
  auto found = source_->makers.find(name);
  return found == source_->makers.end() ? nullptr : &model().graph.nodes[found->second];
}

void ModelEdit::set_input(size_t node, size_t position, std::string name) {
  inputs_[node].insert_or_assign(position, std::move(name));
}

void ModelEdit::put_on_result(size_t node, NewNode next) {
  std::string whole(model().graph.nodes[node].outputs[0]);
  std::string& result = results_[node];
  next.outputs = {result.empty() ? whole : result};
  next.name = new_name(cat(whole, "_", next.op));  // `node` itself may be called as its result
  result = new_name(whole + "_product");
  next.inputs.insert(next.inputs.begin(), result);
  auto& after = after_[node];
  after.insert(after.begin(), std::move(next));
}

void ModelEdit::put_behind(const std::string& value, NewNode added) {
  auto own = source_->makers.find(value);
  auto put = makers_.find(value);
  if (own == source_->makers.end() && put == makers_.end()) return put_first(std::move(added));
  size_t maker = own == source_->makers.end() ? put->second : own->second;
  for (const std::string& name : added.outputs) makers_.insert_or_assign(name, maker);
  put_after(maker, std::move(added));
}

std::string ModelEdit::put_behind(const std::string& value, NewNode added, const std::string& ending) {
  std::string result = new_name(value + ending);
  added.outputs = {result};
  put_behind(value, std::move(added));
  return result;
}

void ModelEdit::require_opset(const std::string& domain, int64_t version) {
  int64_t& now = opsets_[domain];
  now = std::max(now, version);
}

std::string ModelEdit::new_name(const std::string& base) {
  std::string name = base;
  for (int i = 1; source_->names.contains(name) || given_.contains(name); ++i) name = cat(base, "_", i);
  return *given_.insert(name).first;
}

void ModelEdit::replace_weight(const onnx::Graph& graph, const std::string& name,
                               std::vector<std::pair<std::string, Tensor>> weights, NewNode maker) {
  auto& place = replaced_[&graph];
  if (&graph == &model().graph) {
    for (auto& [part, value] : weights) add_weight(part, std::move(value));
    if (auto own = source_->makers.find(name); own != source_->makers.end()) remove(own->second);
    put_first(std::move(maker));
    weights = {}, maker = {};
  }
  place.insert_or_assign(name, Replacement{.weights = std::move(weights), .maker = std::move(maker)});
}

bool ModelEdit::is_replaced(const onnx::Graph& graph, std::string_view name) const {
  auto found = replaced_.find(&graph);
  return found != replaced_.end() && found->second.contains(name);
}

/// Encodes a body with its current weights.
std::string ModelEdit::body_text(std::span<const std::byte> body, const onnx::Graph& parsed) const {
  std::string out;
  if (auto found = replaced_.find(&parsed); found != replaced_.end())
    for (const auto& [name, now] : found->second) {
      put_text(out, in_graph::node, text_of(now.maker));
      for (const auto& [part, value] : now.weights) put_text(out, in_graph::weight, onnx::tensor_bytes(value, part));
    }
  auto node = parsed.nodes.begin();
  for_each_field(body, [&](uint32_t number, std::span<const std::byte> whole) {
    if (number == in_graph::node) {
      const onnx::Node& now = *node++;
      if (now.outputs.empty() || !is_replaced(parsed, now.outputs[0]))
        put_text(out, number, attributes_text(content_of(whole), now));
    } else if (number != in_graph::weight || !is_replaced(parsed, text_field(content_of(whole), 8))) {
      out += as_text(whole);
    }
  });
  return out;
}

/// Encodes a node's attributes; the bodies among them get the current weights.
std::string ModelEdit::attributes_text(std::span<const std::byte> node, const onnx::Node& parsed) const {
  bool has_body = false;
  onnx::for_each_body(parsed, [&](const onnx::Graph&) { has_body = true; });
  if (replaced_.empty() || !has_body) return std::string(as_text(node));
  std::string out;
  auto attribute = parsed.attributes.begin();
  for_each_field(node, [&](uint32_t number, std::span<const std::byte> whole) {
    const auto* bodies =
        number == in_node::attribute ? std::get_if<std::vector<const onnx::Graph*>>(&(attribute++)->value) : nullptr;
    if (!bodies) {
      out += as_text(whole);
      return;
    }
    std::string text;
    auto body = bodies->begin();
    for_each_field(content_of(whole), [&](uint32_t part, std::span<const std::byte> bytes) {
      if (part == in_attribute::graph || part == in_attribute::graphs)
        put_text(text, part, body_text(content_of(bytes), **body++));
      else text += as_text(bytes);
    });
    put_text(out, number, text);
  });
  return out;
}

/// Encodes a node with its current inputs and result names.
std::string ModelEdit::node_text(size_t index) const {
  std::span<const std::byte> node = source_->nodes[index];
  auto changed = inputs_.find(index);
  std::string others = attributes_text(node, model().graph.nodes[index]);
  auto result = results_.find(index);
  if (changed == inputs_.end()) return others;  // results are renamed only if inputs are changed too
  const auto& now = changed->second;
  const auto& given = model().graph.nodes[index].inputs;
  std::string out;
  size_t count = std::max(given.size(), now.empty() ? 0 : now.rbegin()->first + 1);
  for (size_t i = 0; i < count; ++i) {
    auto found = now.find(i);
    put_text(out, 1, found != now.end() ? std::string_view(found->second) : i < given.size() ? given[i] : "");
  }
  for_each_field(std::as_bytes(std::span(others)), [&](uint32_t number, std::span<const std::byte> whole) {
    if (number == in_node::output && result != results_.end()) put_text(out, number, result->second);
    else if (number != in_node::input) out += as_text(whole);
  });
  return out;
}

/// Returns all nodes in order: added nodes, and the model's nodes by number.
std::vector<std::variant<const NewNode*, size_t>> ModelEdit::order() const {
  std::vector<std::variant<const NewNode*, size_t>> all;
  auto put = [&](const std::vector<NewNode>& added) {
    for (const NewNode& node : added) all.emplace_back(&node);
  };
  auto put_at = [&](const std::map<size_t, std::vector<NewNode>>& added, size_t i) {
    auto found = added.find(i);
    if (found != added.end()) put(found->second);
  };
  put(first_);
  for (size_t i = 0; i < model().graph.nodes.size(); ++i) {
    put_at(before_, i);
    if (!removed_.contains(i)) all.emplace_back(i);
    put_at(after_, i);
  }
  return all;
}

/// Returns the current inputs of one of the model's nodes.
std::vector<std::string> ModelEdit::reads(size_t index) const {
  const onnx::Node& node = model().graph.nodes[index];
  auto changed = inputs_.find(index);
  std::vector<std::string> names;
  if (changed == inputs_.end()) {
    for (std::string_view name : onnx::reads_of(node)) names.emplace_back(name);
    return names;
  }
  for (size_t i = 0; i < node.inputs.size(); ++i)
    if (!changed->second.contains(i)) names.emplace_back(node.inputs[i]);
  for (const auto& [position, name] : changed->second) names.push_back(name);
  return names;
}

/// Encodes, in order, all nodes on which results depend; adds the names that these nodes read to `read`.
std::vector<std::string> ModelEdit::live_nodes(std::set<std::string>& read) const {
  std::vector<std::string> live;
  auto is_read = [&](const auto& name) { return read.contains(std::string(name)); };
  for (const auto& entry : order() | std::views::reverse) {
    if (const auto* const* added = std::get_if<const NewNode*>(&entry)) {
      if (std::ranges::none_of((*added)->outputs, is_read)) continue;
      read.insert((*added)->inputs.begin(), (*added)->inputs.end());
      live.push_back(text_of(**added));
      continue;
    }
    size_t index = std::get<size_t>(entry);
    auto result = results_.find(index);
    if (result == results_.end() ? std::ranges::none_of(model().graph.nodes[index].outputs, is_read)
                                 : !is_read(result->second))
      continue;
    for (std::string& name : reads(index)) read.insert(std::move(name));
    live.push_back(node_text(index));
  }
  std::ranges::reverse(live);
  return live;
}

void ModelEdit::put_weights(std::string& graph, const std::set<std::string>& read, External* external) const {
  std::map<std::string_view, const onnx::TensorData*> known;
  for (const auto& weight : model().graph.initializers) known.emplace(weight.name, &weight);
  auto put = [&](const std::string& name, const Tensor& value) {
    bool is_outside = external && value.dtype != DType::string && value.data.size() >= smallest_external;
    put_text(graph, in_graph::weight, is_outside ? external->put(name, value) : onnx::tensor_bytes(value, name));
  };
  for (const Field& field : source_->graph_fields) {
    if (field.number != in_graph::weight) continue;
    std::string name(text_field(field.content, 8));
    if (!read.contains(name) || weights_.contains(name) || is_replaced(model().graph, name)) continue;
    if (external) put(name, onnx::to_tensor(*known.at(name)));
    else graph += as_text(field.whole);
  }
  for (const auto& [name, value] : weights_)
    if (read.contains(name)) put(name, value);
}

std::string ModelEdit::graph_text(External* external) const {
  std::set<std::string> read, given;
  for (const onnx::ValueInfo& output : model().graph.outputs)
    if (outputs_.empty()) read.emplace(output.name);
  read.insert(outputs_.begin(), outputs_.end());
  std::string graph;
  for (const std::string& text : live_nodes(read)) put_text(graph, in_graph::node, text);
  for (const auto& weight : model().graph.initializers) given.emplace(weight.name);
  auto is_dead_input = [&](const std::string& name) {
    return is_replaced(model().graph, name) || ((drops_inputs_ || given.contains(name)) && !read.contains(name));
  };
  put_weights(graph, read, external);
  for (const Field& field : source_->graph_fields) {
    if (field.number == in_graph::node || field.number == in_graph::weight) continue;
    // A replaced weight may also be a graph input. Removes that input, because callers must not pass the old weight.
    bool is_dead = field.number == in_graph::input && is_dead_input(std::string(text_field(field.content, 1)));
    bool is_replaced = field.number == in_graph::output && !outputs_.empty();
    if (!is_dead && !is_replaced) graph += as_text(field.whole);
  }
  for (const std::string& name : outputs_) {
    std::string port;
    put_text(port, 1, name);
    put_text(graph, in_graph::output, port);
  }
  return graph;
}

std::string ModelEdit::model_text(External* external) const {
  std::string out;
  put_integer(out, in_model::ir_version, std::max(model().ir_version, ir_version_));
  std::map<std::string, int64_t> opsets = opsets_;
  for (const onnx::OpsetImport& opset : model().opsets) {
    int64_t& version = opsets[std::string(opset.domain == "ai.onnx" ? "" : opset.domain)];
    version = std::max(version, opset.version);
  }
  for (const auto& [domain, version] : opsets) {
    std::string opset;
    put_text(opset, 1, domain);
    put_integer(opset, 2, version);
    put_text(out, in_model::opset, opset);
  }
  for (const Field& field : source_->model_fields) {
    if (field.number == in_model::graph) put_text(out, in_model::graph, graph_text(external));
    else if (field.number != in_model::ir_version && field.number != in_model::opset) out += as_text(field.whole);
  }
  return out;
}

std::string ModelEdit::bytes() const { return model_text(nullptr); }

int64_t ModelEdit::weight_bytes() const {
  size_t sum = 0;
  for (const auto& weight : model().graph.initializers) sum += weight.bytes.size();
  for (const auto& [name, value] : weights_) sum += value.data.size();
  return static_cast<int64_t>(sum);
}

void ModelEdit::write(const std::filesystem::path& path) const {
  if (!source_->has_external && weight_bytes() < largest_message) return write_file(path, as_bytes(bytes()));
  std::filesystem::path data = path.string() + ".data";
  External external{.file = data.filename().string()};
  std::string text = model_text(&external);
  std::vector<std::span<const std::byte>> pieces(external.pieces.begin(), external.pieces.end());
  write_file(data, pieces);
  try {
    write_file(path, as_bytes(text));
  } catch (...) {
    std::filesystem::remove(data);
    throw;
  }
}

}  // namespace weft::quantise
