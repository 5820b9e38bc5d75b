// SPDX-License-Identifier: Apache-2.0
#include "frontends/tensorflow/saved_model.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "base/error.h"
#include "base/text.h"
#include "frontends/tensorflow/fault.h"
#include "frontends/tensorflow/graph_tensors.h"

namespace weft::tensorflow {
namespace {

using frontend::Wire;

struct Signature {
  std::vector<GraphPort> inputs, outputs;
  bool is_sparse = false;  ///< true if a value consists of several tensors
};

/// A MetaGraphDef; its graph is not parsed yet.
struct MetaGraph {
  std::set<std::string> tags;
  std::map<std::string, Signature> signatures;
  std::string_view restore;  ///< the node that reads the variables
  std::span<const std::byte> graph;
};

void read_port(Wire wire, Signature& signature, std::vector<GraphPort>& ports) {
  GraphPort port;
  while (wire.next()) {
    if (wire.field() == 1) {
      port.name = wire.text("key");
    } else if (wire.field() == 2) {
      Wire info = wire.message("value");
      while (info.next()) switch (info.field()) {
          case 1: port.value = info.text("name"); break;
          case 2: port.type = full_type(info.integer("dtype")); break;
          case 3: port.sizes = read_sizes(info.message("tensor_shape")); break;
          default: info.skip();
        }
    } else {
      wire.skip();
    }
  }
  signature.is_sparse |= port.value.empty();
  ports.push_back(std::move(port));
}

void read_signature(Wire wire, MetaGraph& meta) {
  std::string name;
  Signature signature;
  while (wire.next()) {
    if (wire.field() == 1) {
      name = wire.text("key");
    } else if (wire.field() == 2) {
      Wire value = wire.message("value");
      while (value.next()) switch (value.field()) {
          case 1: read_port(value.message("inputs"), signature, signature.inputs); break;
          case 2: read_port(value.message("outputs"), signature, signature.outputs); break;
          default: value.skip();
        }
    } else {
      wire.skip();
    }
  }
  std::ranges::sort(signature.inputs, {}, &GraphPort::name);  // the file's order is arbitrary
  std::ranges::sort(signature.outputs, {}, &GraphPort::name);
  if (!name.starts_with("__saved_model_")) meta.signatures[name] = std::move(signature);  // skips internal signatures
}

MetaGraph read_meta_graph(Wire wire) {
  MetaGraph meta;
  while (wire.next()) switch (wire.field()) {
      case 1: {
        Wire info = wire.message("meta_info_def");
        while (info.next()) {
          if (info.field() == 4) meta.tags.emplace(info.text("tags"));
          else info.skip();
        }
        break;
      }
      case 2: meta.graph = wire.bytes("graph_def"); break;
      case 3: {
        Wire saver = wire.message("saver_def");
        while (saver.next()) {
          if (saver.field() == 3) meta.restore = saver.text("restore_op_name");
          else saver.skip();
        }
        break;
      }
      case 5: read_signature(wire.message("signature_def"), meta); break;
      default: wire.skip();
    }
  return meta;
}

[[noreturn]] void not_there(std::string what, std::string hint) {
  throw Error({.kind = ErrorKind::usage, .code = "E310", .what = std::move(what), .hint = std::move(hint)});
}

std::string list(const auto& names) {
  std::string text;
  for (const auto& name : names) text += cat(text.empty() ? "" : ", ", printable(name));
  return text;
}

MetaGraph chosen_graph(std::vector<MetaGraph> all, const std::string& source, const std::string& tag) {
  if (all.empty()) fail("E110", cat(printable(source), " has no graph"));
  if (tag.empty() && all.size() == 1) return std::move(all[0]);
  std::set<std::string> wanted;
  const std::string_view tags = tag.empty() ? std::string_view("serve") : tag;
  for (std::string_view part : split(tags, ',')) wanted.emplace(trim(part));
  std::vector<std::string> there;
  for (MetaGraph& meta : all) {
    if (meta.tags == wanted) return std::move(meta);
    there.push_back(list(meta.tags));
  }
  std::string choices;
  for (const std::string& tags : there) choices += cat(choices.empty() ? "'" : ", '", tags, "'");
  not_there(cat(printable(source), " has no graph with the tag '", list(wanted), "'"),
            cat("its graphs have ", choices));
}

Signature chosen_signature(MetaGraph& meta, const std::string& source, const std::string& name) {
  std::vector<std::string> names;
  for (const auto& [own, signature] : meta.signatures) names.push_back(own);
  if (names.empty())
    fail("E110", cat(printable(source), " has no signature, so nothing says what it computes"), {},
         "save it with one: tf.saved_model.save(model, FOLDER, signatures=function)");
  bool has_default = meta.signatures.contains("serving_default");
  if (name.empty() && names.size() > 1 && !has_default)
    not_there(cat(printable(source), " has several signatures, and none is serving_default"),
              cat("choose with --signature or signature=: ", list(names)));
  auto found = meta.signatures.find(!name.empty() ? name : has_default ? "serving_default" : names[0]);
  if (found == meta.signatures.end())
    not_there(cat(printable(source), " has no signature '", printable(name), "'"), cat("it has ", list(names)));
  if (found->second.is_sparse)
    fail("E149",
         cat("signature '", printable(found->first), "' has a value that is of several tensors (sparse or ragged)"));
  return std::move(found->second);
}

/// Finds the checkpoint key of each variable by its assignment from a RestoreV2 result, in the main graph or in the
/// function that the restoring node calls.
class Restoration {
 public:
  explicit Restoration(GraphModel& model) : model_(model) {}

  void find(std::string_view restore) {
    auto by_name = names_of(model_.nodes);
    add(model_.nodes, by_name, [&](std::string_view name) { return variable(by_name, name); });
    auto caller = by_name.find(restore.substr(0, restore.find(':')));
    if (caller == by_name.end()) return;
    const auto* called = attribute_of<std::string>(caller->second->node, "f");
    auto number = called ? model_.function_numbers.find(*called) : model_.function_numbers.end();
    if (number == model_.function_numbers.end()) return;
    const GraphFunction& function = model_.functions[number->second];
    const auto& operands = caller->second->inputs;
    add(function.nodes, names_of(function.nodes), [&](std::string_view name) -> std::string {
      size_t at = std::ranges::find(function.inputs, name) - function.inputs.begin();
      return at < std::min(function.inputs.size(), operands.size()) ? variable(by_name, operands[at]) : "";
    });
  }

 private:
  using Names = std::unordered_map<std::string_view, const GraphNode*>;

  static Names names_of(const std::vector<GraphNode>& nodes) {
    Names names;
    for (const GraphNode& node : nodes) names.emplace(node.node.name, &node);
    return names;
  }

  static std::string variable(const Names& by_name, std::string_view value) {
    auto found = by_name.find(parse(value).node);
    return found == by_name.end() ? std::string() : variable_of(found->second->node);
  }

  /// Returns element `number` of the constant string operand `i` of a restoring node; empty if it is not constant.
  static std::string told(const Names& by_name, const GraphNode& node, size_t i, size_t number) {
    auto maker = i < node.inputs.size() ? by_name.find(parse(node.inputs[i]).node) : by_name.end();
    const auto* names = maker == by_name.end() ? nullptr : attribute_of<Tensor>(maker->second->node, "value");
    return names && names->strings && number < names->strings->size() ? (*names->strings)[number] : std::string();
  }

  static bool read_number(std::string_view text, int64_t& number) {
    auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
    return problem == std::errc() && end == text.data() + text.size();
  }

  /// Parses "10 4 0,5:-": the sizes of the whole tensor, then the start and the length of a part along each axis.
  static CheckpointSlice part_of(const std::string& text) {
    CheckpointSlice part;
    auto words = split(text, ' ');
    if (words.size() < 2) return part;
    for (std::string_view extent : split(words.back(), ':')) {
      auto numbers = split(extent, ',');
      part.emplace_back();
      if (numbers.size() < 2) continue;  // "-": the whole axis
      bool is_known = read_number(numbers[0], part.back().start) && read_number(numbers[1], part.back().length);
      if (!is_known || part.back().length < 0)
        fail("E108", cat("a variable is restored from '", printable(text), "', which names no part"));
    }
    return part;
  }

  /// Returns the checkpoint entry that a value is restored from; an empty key if it is unknown.
  static Restored source_of(const Names& by_name, std::string_view value) {
    for (int steps = 0; steps < 8; ++steps) {
      Reference reference = parse(value);
      auto found = by_name.find(reference.node);
      if (found == by_name.end() || found->second->inputs.size() < 2) {
        bool hands_on = found != by_name.end() && found->second->inputs.size() == 1;
        if (!hands_on) return {};
        value = found->second->inputs[0];
        continue;
      }
      if (found->second->node.op != "RestoreV2") return {};
      return {told(by_name, *found->second, 1, reference.number),
              part_of(told(by_name, *found->second, 2, reference.number))};
    }
    return {};
  }

  void add(const std::vector<GraphNode>& nodes, const Names& by_name,
           const std::function<std::string(std::string_view)>& variable_at) {
    for (const GraphNode& n : nodes) {
      bool assigns = n.node.op == "AssignVariableOp" || n.node.op == "Assign";
      if (!assigns || n.inputs.size() < 2) continue;
      Restored source = source_of(by_name, n.inputs[1]);
      std::string name = variable_at(n.inputs[0]);
      if (!source.key.empty() && !name.empty()) model_.restored.emplace(name, std::move(source));
    }
  }

  GraphModel& model_;
};

}  // namespace

bool is_saved_model(std::span<const std::byte> bytes) {
  // Version 1, then a graph. An ONNX model has a producer's name in this place, which never begins with a newline.
  std::string_view file = as_text(bytes);
  return file.starts_with("\x08\x01\x12") && file.substr(frontend::after_length(file, 3)).starts_with('\n');
}

GraphModel read_saved_model(Bytes file, const std::filesystem::path& folder, const std::string& source,
                            const std::string& tag, const std::string& signature) {
  GraphModel model;
  model.source = source, model.file = std::move(file);
  Wire wire(model.file, model.file.data(), "saved_model");
  std::vector<MetaGraph> graphs;
  while (wire.next()) {
    if (wire.field() == 2) graphs.push_back(read_meta_graph(wire.message("meta_graphs", std::ssize(graphs))));
    else wire.skip();
  }
  MetaGraph meta = chosen_graph(std::move(graphs), source, tag);
  Signature chosen = chosen_signature(meta, source, signature);
  model.inputs = std::move(chosen.inputs), model.outputs = std::move(chosen.outputs);
  Wire graph(meta.graph, model.file.data(), "graph_def");
  read_graph(graph, model);
  Restoration(model).find(meta.restore);
  model.checkpoint = folder.empty() ? std::make_shared<Checkpoint>() : std::make_shared<Checkpoint>(folder);
  return model;
}

}  // namespace weft::tensorflow
