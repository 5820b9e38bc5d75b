// SPDX-License-Identifier: Apache-2.0
#include "frontends/tensorflow/graph_model.h"

#include <cstring>

#include "base/error.h"
#include "frontends/common/wire.h"
#include "frontends/tensorflow/fault.h"
#include "frontends/tensorflow/graph_tensors.h"

namespace weft::tensorflow {
namespace {

using frontend::Wire;

AttributeValue type_value(int64_t code) {
  auto type = full_type(code);
  return type ? AttributeValue(*type) : AttributeValue(cat("type ", code));
}

std::string_view function_name(Wire wire) {
  std::string_view name;
  while (wire.next()) {
    if (wire.field() == 1) name = wire.text("name");
    else wire.skip();
  }
  return name;
}

AttributeValue read_list(Wire wire) {
  std::vector<int64_t> integers;
  std::vector<std::span<const std::byte>> raw;
  std::string strings;
  bool has_strings = false, has_numbers = false;
  while (wire.next()) switch (wire.field()) {
      case 2: strings += cat(has_strings ? "," : "", wire.text("s")), has_strings = true; break;
      case 3: wire.integers("i", integers); break;
      case 4: wire.fixed("f", 4, raw), has_numbers = true; break;
      case 5: wire.integers("b", integers); break;
      case 6: wire.integers("type", integers); break;
      case 9: strings += cat(has_strings ? "," : "", function_name(wire.message("func"))), has_strings = true; break;
      default: wire.skip();
    }
  if (has_strings) return strings;
  if (!has_numbers) return integers;
  std::vector<double> numbers;
  for (auto piece : raw) {
    for (size_t i = 0; i + 4 <= piece.size(); i += 4) {
      float value;
      std::memcpy(&value, piece.data() + i, 4);
      numbers.push_back(value);
    }
  }
  return numbers;
}

class GraphReader {
 public:
  explicit GraphReader(GraphModel& model) : model_(model) {}

  void read(Wire& wire) {
    while (wire.next()) switch (wire.field()) {
        case 1:
          model_.nodes.push_back(node(wire.message("node", std::ssize(model_.nodes)), std::ssize(model_.nodes)));
          break;
        case 2: library(wire.message("library")); break;
        default: wire.skip();
      }
  }

 private:
  void library(Wire wire) {
    while (wire.next()) {
      if (wire.field() == 1) function(wire.message("function", std::ssize(model_.functions)));
      else wire.skip();
    }
  }

  static std::pair<std::string_view, std::string_view> pair(Wire wire) {
    std::pair<std::string_view, std::string_view> entry;
    while (wire.next()) switch (wire.field()) {
        case 1: entry.first = wire.text("key"); break;
        case 2: entry.second = wire.text("value"); break;
        default: wire.skip();
      }
    return entry;
  }

  void function(Wire wire) {
    GraphFunction f;
    std::string_view name;
    while (wire.next()) switch (wire.field()) {
        case 1: {
          Wire signature = wire.message("signature");
          while (signature.next()) switch (signature.field()) {
              case 1: name = signature.text("name"); break;
              case 2: f.inputs.push_back(function_name(signature.message("input_arg"))); break;
              case 3: f.outputs.push_back(function_name(signature.message("output_arg"))); break;
              default: signature.skip();
            }
          break;
        }
        case 3: f.nodes.push_back(node(wire.message("node_def", std::ssize(f.nodes)), std::ssize(f.nodes))); break;
        case 4: f.returned.insert(pair(wire.message("ret"))); break;
        case 6: f.effects.push_back(pair(wire.message("control_ret")).second); break;
        default: wire.skip();
      }
    model_.function_numbers[name] = std::ssize(model_.functions);
    model_.functions.push_back(std::move(f));
  }

  GraphNode node(Wire wire, int64_t index) {
    GraphNode n;
    n.node.index = index;
    while (wire.next()) switch (wire.field()) {
        case 1: n.node.name = wire.text("name"); break;
        case 2: n.node.op = wire.text("op"); break;
        case 3: n.inputs.push_back(wire.text("input")); break;
        case 5: attribute(wire.message("attr"), n.node); break;
        default: wire.skip();
      }
    return n;
  }

  /// Reads an attribute. Skips attributes that begin with "_", which are TensorFlow's hints about devices and shapes.
  void attribute(Wire wire, Node& node) {
    std::string_view name;
    AttributeValue value = int64_t{0};
    while (wire.next()) switch (wire.field()) {
        case 1: name = wire.text("key"); break;
        case 2: value = this->value(wire.message("value")); break;
        default: wire.skip();
      }
    if (!name.starts_with("_")) node.attributes.emplace_back(name, std::move(value));
  }

  AttributeValue value(Wire wire) {
    AttributeValue value = std::vector<int64_t>();  // an empty list has no field at all
    while (wire.next()) switch (wire.field()) {
        case 1: value = read_list(wire.message("list")); break;
        case 2: value = std::string(wire.text("s")); break;
        case 3: value = wire.integer("i"); break;
        case 4: value = static_cast<double>(wire.float32("f")); break;
        case 5: value = wire.number("b") != 0; break;
        case 6: value = type_value(wire.integer("type")); break;
        case 7: value = read_sizes(wire.message("shape")); break;
        case 8: value = read_tensor(wire.message("tensor"), model_.file); break;
        case 10: value = std::string(function_name(wire.message("func"))); break;
        default: wire.skip();
      }
    return value;
  }

  GraphModel& model_;
};

}  // namespace

Reference parse(std::string_view text) {
  Reference reference{.node = {}, .output = {}, .is_order_only = text.starts_with('^')};
  if (reference.is_order_only) text.remove_prefix(1);
  reference.node = text.substr(0, text.find(':'));
  text.remove_prefix(std::min(reference.node.size() + 1, text.size()));
  size_t colon = text.find(':');
  if (colon != text.npos) reference.output = text.substr(0, colon), text.remove_prefix(colon + 1);
  for (char digit : text) {
    if (digit < '0' || digit > '9' || reference.number > 100'000)
      fail("E108", cat("a node reads '", printable(text), "', which is not the number of an output"));
    reference.number = reference.number * 10 + (digit - '0');
  }
  return reference;
}

bool is_placeholder(const Node& node) { return node.op == "Placeholder" || node.op == "PlaceholderV2"; }

std::string variable_of(const Node& node) {
  const auto* shared = attribute_of<std::string>(node, "shared_name");
  return shared && !shared->empty() ? *shared : node.name;
}

void read_graph(Wire& wire, GraphModel& model) { GraphReader(model).read(wire); }

bool is_graph_model(std::span<const std::byte> bytes) {
  std::string_view file = as_text(bytes);
  if (!file.starts_with('\n')) return false;
  std::string_view node = file.substr(frontend::after_length(file, 1));  // fields 1 and 2: name, operator
  if (!node.starts_with('\n') || node.size() < 2) return false;
  return node.substr(std::min<size_t>(node.size(), 2 + (node[1] & 127))).starts_with('\x12');
}

GraphModel read_graph_model(Bytes file, const std::string& source) {
  GraphModel model;
  model.source = source, model.file = std::move(file);
  Wire wire(model.file, model.file.data(), "graph");
  read_graph(wire, model);
  for (const GraphNode& n : model.nodes) {
    if (!is_placeholder(n.node)) continue;
    const auto* type = attribute_of<DType>(n.node, "dtype");
    const auto* sizes = attribute_of<Sizes>(n.node, "shape");
    model.inputs.push_back({.name = n.node.name,
                            .value = n.node.name,
                            .type = type ? std::optional(*type) : std::nullopt,
                            .sizes = sizes ? *sizes : Sizes()});
  }
  return model;
}

}  // namespace weft::tensorflow
