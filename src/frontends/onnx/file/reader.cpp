// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/file/reader.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/log.h"
#include "frontends/common/external.h"
#include "frontends/common/wire.h"
#include "frontends/onnx/file/sniff.h"
#include "frontends/onnx/file/tensor_reader.h"

namespace weft::onnx {
namespace {

constexpr int deepest_type = 64;

[[noreturn]] void fail(std::string code, std::string what, std::string hint = {}) {
  throw Error({.kind = ErrorKind::model, .code = std::move(code), .what = std::move(what), .hint = std::move(hint)});
}

std::string_view plain_domain(std::string_view domain) { return domain == "ai.onnx" ? std::string_view() : domain; }

template <class T>
int64_t count(const std::vector<T>& list) {
  return static_cast<int64_t>(list.size());
}

/// The fields of an AttributeProto; `type` selects the field that is kept.
struct AttributeFields {
  int64_t type = 0;
  float number = 0;
  int64_t integer = 0;
  std::string_view string;
  std::vector<std::span<const std::byte>> numbers;
  std::vector<int64_t> integers;
  std::vector<std::string_view> strings;
  std::vector<TensorData> tensors;
  std::vector<const Graph*> graphs;
  std::vector<SparseTensor> sparse_tensors;
  std::vector<TypeProto> types;
  AttributeKind seen = AttributeKind::undefined;  ///< the last kind of value met, for files that give no type
};

std::vector<float> joined_floats(const std::vector<std::span<const std::byte>>& pieces) {
  std::vector<float> out;
  for (auto piece : pieces) {
    size_t start = out.size();
    out.resize(start + piece.size() / sizeof(float));
    if (!piece.empty()) std::memcpy(out.data() + start, piece.data(), piece.size());
  }
  return out;
}

/// Returns the last 160 bytes of a path, so that the paths of nested graphs do not grow with their depth.
std::string path_tail(std::string path) {
  constexpr size_t longest = 160;
  return path.size() <= longest ? path : cat("...", std::string_view(path).substr(path.size() - longest));
}

/// A graph in an attribute. It is read after its parent, so that nesting does not deepen the reader's recursion.
struct PendingGraph {
  Graph* graph;
  std::span<const std::byte> bytes;
  uint64_t missing;
  int64_t depth;
  std::string path;
};

class ModelReader {
 public:
  ModelReader(Model& model, frontend::ExternalFiles& external, const ReadOptions& options)
      : model_(model), source_{model.file, external}, options_(options) {}

  void read(Wire wire);

 private:
  void read_pending();
  void graph(Wire& wire, Graph& g);
  void node(Wire wire, Node& n);
  void attribute(Wire wire, Attribute& a);
  void attribute_field(Wire& wire, Attribute& a, AttributeFields& f);
  void keep_value(const Wire& wire, Attribute& a, AttributeFields& f);
  const Graph* subgraph(Wire wire);
  void function(Wire wire, Function& f);
  void count_node(const Wire& wire);

  Model& model_;
  TensorSource source_;
  const ReadOptions& options_;
  std::vector<PendingGraph> pending_;
  int64_t depth_ = 0;
  int64_t nodes_ = 0;
};

OpsetImport read_opset(Wire wire) {
  OpsetImport opset;
  while (wire.next()) switch (wire.field()) {
      case 1: opset.domain = plain_domain(wire.text("domain")); break;
      case 2: opset.version = wire.integer("version"); break;
      default: wire.skip();
    }
  return opset;
}

void read_metadata(Wire wire, Metadata& metadata) {
  auto& [key, value] = metadata.emplace_back();
  while (wire.next()) switch (wire.field()) {
      case 1: key = wire.text("key"); break;
      case 2: value = wire.text("value"); break;
      default: wire.skip();
    }
}

Dimension read_dimension(Wire wire) {
  Dimension dim;
  while (wire.next()) switch (wire.field()) {
      case 1: dim = {.value = wire.integer("dim_value"), .name = {}}; break;
      case 2: dim = {.value = {}, .name = wire.text("dim_param")}; break;
      default: wire.skip();
    }
  return dim;
}

std::vector<Dimension> read_shape(Wire wire) {
  std::vector<Dimension> dims;
  while (wire.next()) {
    if (wire.field() == 1) {
      dims.push_back(read_dimension(wire.message("dim", count(dims))));
    } else {
      wire.skip();
    }
  }
  return dims;
}

std::optional<DType> read_element(Wire& wire) {
  int64_t code = wire.integer("elem_type");
  auto type = element_type(code);
  if (!type && code != 0) fail("E149", cat(wire.path(), " has element type ", code, ", which Weft does not know"));
  return type;
}

TypeProto read_tensor_type(Wire wire, TypeProto::Kind kind) {
  TypeProto type{.kind = kind};
  while (wire.next()) switch (wire.field()) {
      case 1: type.element = read_element(wire); break;
      case 2: type.dims = read_shape(wire.message("shape")); break;
      default: wire.skip();
    }
  return type;
}

TypeProto read_type(Wire wire, int depth);

/// Reads a container's type. Field 1 has the inner type; a map has its key type in field 1, its value type in field 2.
TypeProto read_container_type(Wire wire, TypeProto::Kind kind, int depth) {
  TypeProto type{.kind = kind};
  uint32_t inner_field = kind == TypeProto::Kind::map ? 2 : 1;
  while (wire.next()) {
    if (wire.field() == inner_field) {
      type.inner.assign(1, read_type(wire.message("elem_type"), depth + 1));
    } else if (wire.field() == 1) {
      type.element = read_element(wire);
    } else {
      wire.skip();
    }
  }
  return type;
}

TypeProto read_type(Wire wire, int depth) {
  if (depth > deepest_type) fail("E152", cat("types are nested more than ", deepest_type, " deep in the model"));
  TypeProto type;
  using enum TypeProto::Kind;
  while (wire.next()) switch (wire.field()) {
      case 1: type = read_tensor_type(wire.message("tensor_type"), tensor); break;
      case 4: type = read_container_type(wire.message("sequence_type"), sequence, depth); break;
      case 5: type = read_container_type(wire.message("map_type"), map, depth); break;
      case 7: type.kind = opaque, wire.skip(); break;
      case 8: type = read_tensor_type(wire.message("sparse_tensor_type"), sparse_tensor); break;
      case 9: type = read_container_type(wire.message("optional_type"), optional, depth); break;
      default: wire.skip();
    }
  return type;
}

void read_value(Wire wire, std::vector<ValueInfo>& values) {
  ValueInfo value;
  while (wire.next()) switch (wire.field()) {
      case 1: value.name = wire.text("name"); break;
      case 2: value.type = read_type(wire.message("type"), 0); break;
      default: wire.skip();
    }
  values.push_back(std::move(value));
}

void ModelReader::read(Wire wire) {
  Model& m = model_;
  bool has_graph = false;
  while (wire.next()) switch (wire.field()) {
      case 1: m.ir_version = wire.integer("ir_version"); break;
      case 2: m.producer_name = wire.text("producer_name"); break;
      case 3: m.producer_version = wire.text("producer_version"); break;
      case 4: m.domain = wire.text("domain"); break;
      case 5: m.model_version = wire.integer("model_version"); break;
      case 7: {
        has_graph = true;
        Wire inner = wire.message("graph");
        graph(inner, m.graph);
        break;
      }
      case 8: m.opsets.push_back(read_opset(wire.message("opset_import", count(m.opsets)))); break;
      case 14: read_metadata(wire.message("metadata_props", count(m.metadata)), m.metadata); break;
      case 20: log(LogLevel::note, "the model's training information is not used"), wire.skip(); break;
      case 25: function(wire.message("functions", count(m.functions)), m.functions.emplace_back()); break;
      default: wire.skip();
    }
  if (!has_graph) fail("E110", cat(printable(m.source), " has no graph"));
  read_pending();
}

void ModelReader::read_pending() {
  while (!pending_.empty()) {
    PendingGraph next = std::move(pending_.back());
    pending_.pop_back();
    depth_ = next.depth;
    Wire wire(next.bytes, model_.file.data(), next.path, next.missing);
    graph(wire, *next.graph);
  }
}

void ModelReader::graph(Wire& wire, Graph& g) {
  while (wire.next()) switch (wire.field()) {
      case 1: {
        count_node(wire);
        Node& n = g.nodes.emplace_back();
        n.index = static_cast<int32_t>(g.nodes.size() - 1);
        node(wire.message("node", n.index), n);
        break;
      }
      case 2: g.name = wire.text("name"); break;
      case 5: g.initializers.push_back(read_tensor(wire.message("initializer", count(g.initializers)), source_)); break;
      case 11: read_value(wire.message("input", count(g.inputs)), g.inputs); break;
      case 12: read_value(wire.message("output", count(g.outputs)), g.outputs); break;
      case 13: read_value(wire.message("value_info", count(g.values)), g.values); break;
      case 15:
        g.sparse_initializers.push_back(
            read_sparse_tensor(wire.message("sparse_initializer", count(g.sparse_initializers)), source_));
        break;
      case 16: read_metadata(wire.message("metadata_props"), g.metadata); break;
      default: wire.skip();
    }
}

void ModelReader::count_node(const Wire& wire) {
  int64_t most = options_.max_nodes > 0 ? options_.max_nodes : 10'000'000;
  if (++nodes_ <= most) return;
  throw Error({.kind = ErrorKind::resource,
               .code = "E153",
               .what = cat(wire.path(), ": the model has more than ", most, " nodes"),
               .hint = "--max-nodes raises the limit"});
}

void ModelReader::node(Wire wire, Node& n) {
  while (wire.next()) switch (wire.field()) {
      case 1: n.inputs.push_back(wire.text("input")); break;
      case 2: n.outputs.push_back(wire.text("output")); break;
      case 3: n.name = wire.text("name"); break;
      case 4: n.op_type = wire.text("op_type"); break;
      case 5: attribute(wire.message("attribute", count(n.attributes)), n.attributes.emplace_back()); break;
      case 7: n.domain = plain_domain(wire.text("domain")); break;
      case 8: n.overload = wire.text("overload"); break;
      case 9: read_metadata(wire.message("metadata_props"), n.metadata); break;
      default: wire.skip();
    }
  if (n.op_type.empty()) wire.fail_damaged("op_type", "is missing");
}

void ModelReader::attribute(Wire wire, Attribute& a) {
  AttributeFields f;
  while (wire.next()) attribute_field(wire, a, f);
  if (a.name.empty()) wire.fail_damaged("name", "is missing");
  keep_value(wire, a, f);
}

void ModelReader::attribute_field(Wire& wire, Attribute& a, AttributeFields& f) {
  using enum AttributeKind;
  auto saw = [&f](AttributeKind kind) { f.seen = kind; };
  switch (wire.field()) {
    case 1: a.name = wire.text("name"); break;
    case 2: f.number = wire.float32("f"), saw(number); break;
    case 3: f.integer = wire.integer("i"), saw(integer); break;
    case 4: f.string = wire.text("s"), saw(string); break;
    case 5: f.tensors.assign(1, read_tensor(wire.message("t"), source_)), saw(tensor); break;
    case 6: f.graphs.assign(1, subgraph(wire.message("g"))), saw(AttributeKind::graph); break;
    case 7: wire.fixed("floats", 4, f.numbers), saw(numbers); break;
    case 8: wire.integers("ints", f.integers), saw(integers); break;
    case 9: f.strings.push_back(wire.text("strings")), saw(strings); break;
    case 10: f.tensors.push_back(read_tensor(wire.message("tensors", count(f.tensors)), source_)), saw(tensors); break;
    case 11: f.graphs.push_back(subgraph(wire.message("graphs", count(f.graphs)))), saw(graphs); break;
    case 14: f.types.assign(1, read_type(wire.message("tp"), 0)), saw(type); break;
    case 15: f.types.push_back(read_type(wire.message("type_protos", count(f.types)), 0)), saw(types); break;
    case 20: f.type = wire.integer("type"); break;
    case 21: a.reference = wire.text("ref_attr_name"); break;
    case 22:
      f.sparse_tensors.assign(1, read_sparse_tensor(wire.message("sparse_tensor"), source_)), saw(sparse_tensor);
      break;
    case 23:
      f.sparse_tensors.push_back(read_sparse_tensor(wire.message("sparse_tensors", count(f.sparse_tensors)), source_));
      saw(sparse_tensors);
      break;
    default: wire.skip();
  }
}

void ModelReader::keep_value(const Wire& wire, Attribute& a, AttributeFields& f) {
  using enum AttributeKind;
  if (f.type < 0 || f.type > static_cast<int64_t>(types))
    wire.fail_damaged("type", cat("is ", f.type, ", not in 0..14"));
  a.kind = f.type == 0 ? f.seen : static_cast<AttributeKind>(f.type);
  if (!a.reference.empty()) return;
  auto single = [&](auto& list) {
    if (list.size() != 1)
      wire.fail_damaged({}, cat("says it holds one ", to_string(a.kind), " and holds ", list.size()));
    a.value = std::move(list);
  };
  switch (a.kind) {
    case undefined: wire.fail_damaged({}, "holds no value"); break;
    case number: a.value = f.number; break;
    case integer: a.value = f.integer; break;
    case string: a.value = f.string; break;
    case tensor: single(f.tensors); break;
    case AttributeKind::graph: single(f.graphs); break;
    case numbers: a.value = joined_floats(f.numbers); break;
    case integers: a.value = std::move(f.integers); break;
    case strings: a.value = std::move(f.strings); break;
    case tensors: a.value = std::move(f.tensors); break;
    case graphs: a.value = std::move(f.graphs); break;
    case sparse_tensor: single(f.sparse_tensors); break;
    case sparse_tensors: a.value = std::move(f.sparse_tensors); break;
    case type: single(f.types); break;
    case types: a.value = std::move(f.types); break;
  }
}

const Graph* ModelReader::subgraph(Wire wire) {
  if (depth_ + 1 > options_.max_nesting) {
    fail("E152", cat("graphs are nested more than ", options_.max_nesting, " deep, at ", path_tail(wire.path())),
         "--max-nesting raises the limit");
  }
  Graph& g = model_.subgraphs.emplace_back();
  pending_.push_back({&g, wire.rest(), wire.missing(), depth_ + 1, path_tail(wire.path())});
  return &g;
}

void ModelReader::function(Wire wire, Function& f) {
  while (wire.next()) switch (wire.field()) {
      case 1: f.name = wire.text("name"); break;
      case 4: f.inputs.push_back(wire.text("input")); break;
      case 5: f.outputs.push_back(wire.text("output")); break;
      case 6: f.attributes.push_back(wire.text("attribute")); break;
      case 7: {
        count_node(wire);
        Node& n = f.nodes.emplace_back();
        n.index = static_cast<int32_t>(f.nodes.size() - 1);
        node(wire.message("node", n.index), n);
        break;
      }
      case 9: f.opsets.push_back(read_opset(wire.message("opset_import", count(f.opsets)))); break;
      case 10: f.domain = plain_domain(wire.text("domain")); break;
      case 11:
        attribute(wire.message("attribute_proto", count(f.attribute_defaults)), f.attribute_defaults.emplace_back());
        break;
      case 12: read_value(wire.message("value_info", count(f.values)), f.values); break;
      case 13: f.overload = wire.text("overload"); break;
      default: wire.skip();
    }
}

void check_opset(OpsetImport& opset, const ReadOptions& options) {
  if (!opset.domain.empty()) return;
  if (options.assume_opset) opset.version = options.assume_opset;
  if (opset.version > newest_opset) {
    fail("E112", cat("opset ", opset.version, " is newer than ", newest_opset, ", the newest that Weft knows"),
         "convert the model to an older opset with onnx.version_converter, or update Weft");
  }
  if (opset.version < oldest_opset) {
    fail("E113", cat("opset ", opset.version, " is older than ", oldest_opset, ", the oldest that Weft knows"),
         "convert the model with onnx.version_converter");
  }
}

void check_versions(Model& model, const ReadOptions& options) {
  if (model.ir_version > newest_ir_version) {
    fail("E112",
         cat("IR version ", model.ir_version, " is newer than ", newest_ir_version, ", the newest that Weft knows"));
  }
  if (model.opsets.empty() && options.assume_opset) model.opsets.push_back({});
  if (model.opsets.empty()) {
    fail("E111", cat(printable(model.source), " has no opset_import; need ", oldest_opset, "-", newest_opset));
  }
  for (auto& opset : model.opsets) check_opset(opset, options);
  for (auto& function : model.functions) {
    for (auto& opset : function.opsets) check_opset(opset, options);
  }
}

/// True if the first field could be a field of ModelProto.
bool starts_like_a_model(std::span<const std::byte> file) {
  if (file.size() < 2) return false;
  constexpr int numbers[] = {1 << 3, 5 << 3};
  constexpr int messages[] = {2, 3, 4, 6, 7, 8, 14};
  auto first = static_cast<int>(file[0]);
  auto second = static_cast<int>(file[1]);
  auto is_message = [first](int field) { return first == (field << 3 | 2); };
  bool long_tag = (first == 0xa2 || first == 0xca || first == 0xd2) && second == 1;  // fields 20, 25, 26
  return long_tag || std::ranges::find(numbers, first) != std::end(numbers) ||
         std::ranges::any_of(messages, is_message);
}

Model read(Bytes file, std::string name, frontend::ExternalFiles external, const ReadOptions& options) {
  refuse_other_files(file, name);
  if (!starts_like_a_model(file)) fail_not_a_model(file, name);
  Model model;
  model.source = std::move(name);
  model.file = std::move(file);
  try {
    ModelReader(model, external, options).read(Wire(model.file, model.file.data(), {}));
    check_versions(model, options);
  } catch (Error& error) {
    error.set_where(printable(model.source));
    throw;
  }
  return model;
}

}  // namespace

Model read_model(const std::filesystem::path& path, const ReadOptions& options) {
  Bytes file = map_file(path);
  bool beside = options.external_data_dir.empty();
  auto external =
      beside ? frontend::ExternalFiles::beside(path) : frontend::ExternalFiles::within(options.external_data_dir);
  return read(std::move(file), path.string(), std::move(external), options);
}

Model read_model(Bytes file, const ReadOptions& options) {
  auto external = options.external_data_dir.empty() ? frontend::ExternalFiles()
                                                    : frontend::ExternalFiles::within(options.external_data_dir);
  std::string name = options.source.empty() ? "the model" : options.source;
  return read(std::move(file), std::move(name), std::move(external), options);
}

}  // namespace weft::onnx
