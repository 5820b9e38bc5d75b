// SPDX-License-Identifier: Apache-2.0
#include "frontends/tensorflow/graph_model.h"

#include <cstring>

#include "base/error.h"
#include "base/numeric.h"
#include "frontends/common/wire.h"
#include "frontends/tensorflow/fault.h"

namespace weft::tensorflow {
namespace {

using frontend::Wire;

AttributeValue type_value(int64_t code) {
  auto type = full_type(code);
  return type ? AttributeValue(*type) : AttributeValue(cat("type ", code));
}

/// The elements that a TensorProto lists. The last one is repeated until the tensor is full.
struct Listed {
  std::vector<int64_t> integers;
  std::vector<std::span<const std::byte>> raw;
  std::vector<std::string> strings;
};

Tensor from_bytes(DType type, std::vector<int64_t> dims, std::span<const std::byte> given) {
  MutableTensor made = allocate_tensor(type, std::move(dims));
  size_t width = bits(type) / 8;
  size_t have = given.size() / width, want = made.tensor.data.size() / width;
  if (have > want || (have == 0 && want > 0))
    fail("E150", cat("a constant of ", made.tensor.shape(), " has ", have, " elements"));
  for (size_t i = 0; i < want; ++i)
    std::memcpy(made.data + i * width, given.data() + std::min(i, have - 1) * width, width);
  return made.tensor;
}

Tensor from_list(DType type, const std::vector<int64_t>& dims, const Listed& list) {
  std::vector<std::byte> bytes;
  if (type == DType::string) {
    auto strings = list.strings;
    size_t want = element_count(dims);
    if (strings.size() > want || (strings.empty() && want))
      fail("E150", cat("a constant of ", want, " strings has ", strings.size()));
    strings.resize(want, strings.empty() ? std::string() : strings.back());
    return make_string_tensor(dims, std::move(strings));
  }
  for (auto piece : list.raw) bytes.insert(bytes.end(), piece.begin(), piece.end());
  if (list.raw.empty()) {
    size_t width = bits(type) / 8;
    for (int64_t value : list.integers) {
      auto* start = reinterpret_cast<const std::byte*>(&value);  // little-endian: the low bytes
      bytes.insert(bytes.end(), start, start + width);
    }
  }
  if (bytes.empty() && element_count(dims) > 0) bytes.resize(bits(type) / 8);  // all zeros
  return from_bytes(type, dims, bytes);
}

Tensor read_tensor(Wire wire, const Bytes& file) {
  std::optional<DType> type;
  int64_t code = 0;
  Sizes sizes{.dims = std::vector<int64_t>()};
  std::optional<std::span<const std::byte>> content;
  Listed list;
  while (wire.next()) switch (wire.field()) {
      case 1: code = wire.integer("dtype"), type = full_type(code); break;
      case 2: sizes = read_sizes(wire.message("tensor_shape")); break;
      case 4: content = wire.bytes("tensor_content"); break;
      case 5: wire.fixed("float_val", 4, list.raw); break;
      case 6: wire.fixed("double_val", 8, list.raw); break;
      case 7: wire.integers("int_val", list.integers); break;
      case 8: list.strings.emplace_back(wire.text("string_val")); break;
      case 9: wire.fixed("scomplex_val", 4, list.raw); break;
      case 10: wire.integers("int64_val", list.integers); break;
      case 11: wire.integers("bool_val", list.integers); break;
      case 12: wire.fixed("dcomplex_val", 8, list.raw); break;
      case 13: wire.integers("half_val", list.integers); break;
      case 16: wire.integers("uint32_val", list.integers); break;
      case 17: wire.integers("uint64_val", list.integers); break;
      default: wire.skip();
    }
  if (!type) fail("E149", cat(wire.path(), " has element type ", code, ", which Weft does not know"));
  if (!sizes.dims || std::ranges::find(*sizes.dims, -1) != sizes.dims->end())
    fail("E150", cat(wire.path(), " is a constant of open sizes"));
  bool is_pair = is_complex(*type);
  if (is_pair) type = *type == DType::c64 ? DType::f32 : DType::f64, sizes.dims->push_back(2);
  int64_t elements = element_count(*sizes.dims);
  bool is_whole = content && static_cast<int64_t>(content->size()) == byte_size(*type, elements);
  constexpr int64_t most = int64_t{1} << 24;  // most elements that a few bytes may expand to
  if (elements > most && !is_whole)
    fail("E150",
         cat(wire.path(), " has ", elements, " elements and does not give them all; at most ", most, " are repeated"));
  size_t listed = 0;
  for (auto piece : list.raw) listed += piece.size();
  if (is_pair && !is_whole && static_cast<int64_t>(listed) != byte_size(*type, elements))
    fail("E150", cat(wire.path(), " is a constant of complex numbers that does not give them all"));
  if (!content || content->empty() || *type == DType::string) return from_list(*type, *sizes.dims, list);
  if (!is_whole) return from_bytes(*type, *sizes.dims, *content);
  Bytes data = file.part(content->data() - file.data(), content->size());
  auto width = static_cast<uintptr_t>(bits(*type)) / 8;
  if (reinterpret_cast<uintptr_t>(data.data()) % width) data = Bytes::copy(data);
  return {.dtype = *type, .dims = *sizes.dims, .data = data};
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

  /// Reads an attribute. Those that begin with "_" are TensorFlow's hints about devices and shapes, which are skipped.
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

Sizes read_sizes(Wire wire) {
  Sizes sizes{.dims = std::vector<int64_t>()};
  bool is_unknown = false;
  while (wire.next()) switch (wire.field()) {
      case 2: {
        Wire dim = wire.message("dim");
        int64_t size = 0;
        while (dim.next()) {
          if (dim.field() == 1) size = dim.integer("size");
          else dim.skip();
        }
        if (size < -1) fail("E150", cat(dim.path(), " is a size of ", size));
        sizes.dims->push_back(size);
        break;
      }
      case 3: is_unknown = wire.number("unknown_rank") != 0; break;
      default: wire.skip();
    }
  if (is_unknown) sizes.dims.reset();
  return sizes;
}

void read_graph(Wire& wire, GraphModel& model) { GraphReader(model).read(wire); }

bool is_graph_model(std::span<const std::byte> bytes) {
  std::string_view file = as_text(bytes);
  if (!file.starts_with('\n')) return false;
  std::string_view node = file.substr(frontend::after_length(file, 1));  // its name (field 1), its operator (field 2)
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
