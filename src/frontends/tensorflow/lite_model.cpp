// SPDX-License-Identifier: Apache-2.0
#include "frontends/tensorflow/lite_model.h"

#include <algorithm>

#include "base/error.h"
#include "frontends/tensorflow/fault.h"
#include "frontends/tensorflow/flatbuffer.h"
#include "frontends/tensorflow/lite_sparse.h"

namespace weft::tensorflow {
namespace {

constexpr std::string_view identifier = "TFL3";
constexpr int64_t custom_operator = 32;
constexpr size_t max_rank = 32;

enum class Kind : uint8_t { byte, integer, wide, flag, number, text, integers };

struct Builtin {
  int64_t number;
  std::string_view name;
  int64_t options;
};
constexpr Builtin builtins[] = {
#define BUILTIN(...) {__VA_ARGS__},
#define OPTION(...)
#include "frontends/tensorflow/tflite.def"
#undef BUILTIN
#undef OPTION
};

struct Option {
  int64_t options;
  size_t slot;
  std::string_view name;
  Kind kind;
  int64_t fallback;
};
constexpr Option option_fields[] = {
#define BUILTIN(...)
#define OPTION(options, slot, name, kind, fallback) {options, slot, name, Kind::kind, fallback},
#include "frontends/tensorflow/tflite.def"
#undef BUILTIN
#undef OPTION
};

// The slots of the fields in the flatbuffer's tables.
namespace slot {
enum Model { version, operator_codes, subgraphs, description, buffers, signatures = 7 };
enum Code { deprecated_code, custom_code, op_version, builtin_code };
enum Graph { tensors, inputs, outputs, operators, graph_name };
enum Tensor { shape, type, buffer, name, quantization, is_variable, sparsity, shape_signature, has_rank, variants };
enum Quantization { scale = 2, zero_point, details_type, quantized_dimension = 6 };
enum Operator { code_index, op_inputs, op_outputs, options_type, options, custom_options, options2_type = 11 };
enum Buffer { data, offset, size };
enum SignatureSlot { signature_inputs, signature_outputs, key, subgraph = 4 };
}  // namespace slot

AttributeValue value_of(const FlatTable& table, const Option& field) {
  switch (field.kind) {
    case Kind::byte: return static_cast<int64_t>(table.number(field.slot, static_cast<int8_t>(field.fallback)));
    case Kind::integer: return static_cast<int64_t>(table.number(field.slot, static_cast<int32_t>(field.fallback)));
    case Kind::wide: return table.number(field.slot, field.fallback);
    case Kind::flag: return table.number(field.slot, static_cast<uint8_t>(field.fallback)) != 0;
    case Kind::number: return static_cast<double>(table.number(field.slot, static_cast<float>(field.fallback)));
    case Kind::text: return std::string(table.text(field.slot));
    case Kind::integers: break;
  }
  auto numbers = table.numbers<int32_t>(field.slot);
  return std::vector<int64_t>(numbers.begin(), numbers.end());
}

/// Adds the default options of an operator, for a file that leaves out the table of options.
void add_defaults(int64_t options, Node& node) {
  for (const Option& field : option_fields) {
    if (options == 0 || field.options != options) continue;
    if (field.kind == Kind::flag) node.attributes.emplace_back(field.name, field.fallback != 0);
    else if (field.kind == Kind::number) node.attributes.emplace_back(field.name, static_cast<double>(field.fallback));
    else if (field.kind == Kind::text) node.attributes.emplace_back(field.name, std::string());
    else if (field.kind != Kind::integers) node.attributes.emplace_back(field.name, field.fallback);
  }
}

/// Reads the options as attributes. An option that is a vector of integers is left out if the file does not give it.
void read_options(const FlatTable& op, const Builtin& builtin, Node& node) {
  int64_t kind = op.number<uint8_t>(slot::options_type);
  auto table = op.table(slot::options);
  if (op.number<uint8_t>(slot::options2_type))
    fail("E122", cat(node.op, " has options of a kind that Weft does not know"), describe(node));
  if (!table || kind == 0) return add_defaults(builtin.options, node);
  if (kind != builtin.options)
    fail("E108", cat(node.op, " has options of kind ", kind, ", not ", builtin.options), describe(node));
  std::vector<bool> known(table->slots());
  for (const Option& field : option_fields) {
    if (field.options != kind) continue;
    if (field.slot < known.size()) known[field.slot] = true;
    if (field.kind == Kind::integers && !table->has(field.slot)) continue;
    node.attributes.emplace_back(field.name, value_of(*table, field));
  }
  for (size_t s = 0; s < known.size(); ++s) {
    if (!known[s] && table->has(s))
      fail("E141", cat(node.op, " has an option ", s, " that Weft does not know"), describe(node));
  }
}

class LiteReader {
 public:
  explicit LiteReader(LiteModel& model) : model_(model), root_(FlatTable::root(model.file, identifier)) {}

  void read(const std::string& signature) {
    if (auto version = root_.number<uint32_t>(slot::version); version != 3)
      fail("E112", cat(printable(model_.source), " is of version ", version, " of the schema; Weft reads version 3"));
    model_.description = root_.text(slot::description);
    size_t graphs = root_.count(slot::subgraphs);
    if (graphs == 0) fail("E110", cat(printable(model_.source), " has no graph"));
    for (size_t g = 0; g < graphs; ++g) read_graph(root_.at(slot::subgraphs, g), model_.graphs.emplace_back());
    if (!signature.empty()) choose(signature);
    read_names();
  }

 private:
  Bytes bytes_of(std::span<const std::byte> part) const {
    return part.empty() ? Bytes() : model_.file.part(part.data() - model_.file.data(), part.size());
  }

  /// Returns the contents of buffer `index`; nothing if it has none. Files over 2 GiB keep contents after the
  /// flatbuffer.
  std::optional<Bytes> contents(uint32_t index) const {
    if (index == 0) return std::nullopt;
    if (index >= root_.count(slot::buffers))
      fail("E108", cat("a tensor names buffer ", index, " of ", root_.count(slot::buffers)));
    FlatTable buffer = root_.at(slot::buffers, index);
    auto offset = buffer.number<uint64_t>(slot::offset), size = buffer.number<uint64_t>(slot::size);
    if (offset > 1) {
      if (offset > model_.file.size() || size > model_.file.size() - offset)
        fail("E103", cat("buffer ", index, " lies behind the end of the file"));
      return model_.file.part(offset, size);
    }
    auto data = buffer.vector(slot::data, 1);
    return data ? std::optional(bytes_of(*data)) : std::nullopt;
  }

  LiteTensor read_tensor(const FlatTable& table) const {
    LiteTensor t{.name = std::string(table.text(slot::name)), .code = table.number<int8_t>(slot::type)};
    auto dims = table.numbers<int32_t>(slot::shape), open = table.numbers<int32_t>(slot::shape_signature);
    if (dims.size() > max_rank)
      fail("E140", cat("tensor '", printable(t.name), "' has ", dims.size(), " axes; the most are ", max_rank));
    for (size_t a = 0; a < dims.size(); ++a) {
      bool is_open = open.size() == dims.size() && open[a] == -1;
      if (!is_open && dims[a] < 0) fail("E150", cat("tensor '", printable(t.name), "' has a size of ", dims[a]));
      t.dims.push_back(is_open ? -1 : dims[a]);
    }
    t.has_rank = table.number<uint8_t>(slot::has_rank) != 0 || !dims.empty();
    t.is_variable = table.number<uint8_t>(slot::is_variable) != 0;
    if (auto steps = table.table(slot::quantization)) t.steps = read_steps(*steps, t);
    t.data = contents(table.number<uint32_t>(slot::buffer));
    if (auto sparsity = table.table(slot::sparsity); sparsity && t.data) t.data = densified(*sparsity, t);
    return t;
  }

  static Quantization read_steps(const FlatTable& table, const LiteTensor& t) {
    Quantization q{.scales = table.numbers<float>(slot::scale), .zeros = table.numbers<int64_t>(slot::zero_point)};
    q.axis = table.number<int32_t>(slot::quantized_dimension);
    if (table.number<uint8_t>(slot::details_type))
      fail("E122", cat("tensor '", printable(t.name), "' is quantised in a custom way"));
    if (q.scales.empty()) return {};
    if (q.zeros.empty()) q.zeros.assign(q.scales.size(), 0);
    bool fits =
        q.scales.size() == 1 || (q.axis >= 0 && q.axis < std::ssize(t.dims) && t.dims[q.axis] == std::ssize(q.scales));
    if (q.zeros.size() != q.scales.size() || !fits)
      fail("E150", cat("tensor '", printable(t.name), "' has ", q.scales.size(), " scales and ", q.zeros.size(),
                       " zero points for axis ", q.axis, " of ", t.dims));
    return q;
  }

  LiteOperator read_operator(const FlatTable& table, int64_t index, const LiteGraph& graph) const {
    auto code = table.number<uint32_t>(slot::code_index);
    if (code >= root_.count(slot::operator_codes))
      fail("E108", cat("an operator names code ", code, " of ", root_.count(slot::operator_codes)));
    FlatTable entry = root_.at(slot::operator_codes, code);
    int64_t number =
        std::max<int64_t>(entry.number<int8_t>(slot::deprecated_code), entry.number<int32_t>(slot::builtin_code));
    LiteOperator op{.node = {.op = {}, .name = {}, .index = index}, .inputs = {}, .outputs = {}};
    for (auto i : table.numbers<int32_t>(slot::op_inputs)) op.inputs.push_back(checked(i, -1, graph));
    for (auto i : table.numbers<int32_t>(slot::op_outputs)) op.outputs.push_back(checked(i, 0, graph));
    if (!op.outputs.empty()) op.node.name = graph.tensors[op.outputs[0]].name;
    auto builtin = std::ranges::find(builtins, number, &Builtin::number);
    if (number == custom_operator) {
      std::string name(entry.text(slot::custom_code));
      op.node.op = find_lite(name) ? name : cat("custom:", name);
      if (op.node.op != name) return op;
      for (auto [key, value] :
           flex_numbers(table.vector(slot::custom_options, 1).value_or(std::span<const std::byte>())))
        op.node.attributes.emplace_back(key, value);
    } else if (builtin == std::end(builtins)) {
      op.node.op = cat("builtin ", number);
    } else {
      op.node.op = builtin->name;
      read_options(table, *builtin, op.node);
    }
    return op;
  }

  static int64_t checked(int64_t tensor, int64_t least, const LiteGraph& graph) {
    if (tensor >= least && tensor < std::ssize(graph.tensors)) return tensor;
    fail("E108", cat("names tensor ", tensor, " of ", graph.tensors.size()));
  }

  void read_graph(const FlatTable& table, LiteGraph& graph) const {
    graph.name = table.text(slot::graph_name);
    for (size_t t = 0; t < table.count(slot::tensors); ++t)
      graph.tensors.push_back(read_tensor(table.at(slot::tensors, t)));
    for (auto i : table.numbers<int32_t>(slot::inputs)) graph.inputs.push_back(checked(i, 0, graph));
    for (auto i : table.numbers<int32_t>(slot::outputs)) graph.outputs.push_back(checked(i, 0, graph));
    for (size_t o = 0; o < table.count(slot::operators); ++o)
      graph.operators.push_back(read_operator(table.at(slot::operators, o), static_cast<int64_t>(o), graph));
  }

  void choose(const std::string& signature) {
    std::string there;
    for (size_t s = 0; s < root_.count(slot::signatures); ++s) {
      FlatTable table = root_.at(slot::signatures, s);
      model_.main = table.number<uint32_t>(slot::subgraph);
      if (model_.main >= model_.graphs.size())
        fail("E108", cat("a signature names graph ", model_.main, " of ", model_.graphs.size()));
      if (table.text(slot::key) == signature) return;
      there += cat(there.empty() ? "" : ", ", printable(table.text(slot::key)));
    }
    throw Error({.kind = ErrorKind::usage,
                 .code = "E310",
                 .what = cat(printable(model_.source), " has no signature '", printable(signature), "'"),
                 .hint = there.empty() ? "it has none" : cat("it has ", there)});
  }

  /// Reads the names of inputs and outputs from the graph's first signature, else from its tensors.
  void read_names() {
    const LiteGraph& graph = model_.graphs[model_.main];
    auto named = [&](const std::vector<int64_t>& tensors, size_t list, std::string_view stem) {
      std::vector<std::string> names;
      for (int64_t t : tensors) {
        std::string name = signature_name(list, t);
        if (name.empty()) name = graph.tensors[t].name;
        if (name.empty()) name = cat(stem, names.size());
        while (std::ranges::find(names, name) != names.end()) name += "_";
        names.push_back(name);
      }
      return names;
    };
    model_.input_names = named(graph.inputs, slot::signature_inputs, "input");
    model_.output_names = named(graph.outputs, slot::signature_outputs, "output");
  }

  std::string signature_name(size_t list, int64_t tensor) const {
    for (size_t s = 0; s < root_.count(slot::signatures); ++s) {
      FlatTable signature = root_.at(slot::signatures, s);
      if (signature.number<uint32_t>(slot::subgraph) != model_.main) continue;
      for (size_t i = 0; i < signature.count(list); ++i) {
        FlatTable entry = signature.at(list, i);
        if (entry.number<uint32_t>(1) == tensor) return std::string(entry.text(0));
      }
      return {};
    }
    return {};
  }

  LiteModel& model_;
  FlatTable root_;
};

}  // namespace

bool is_lite_model(std::span<const std::byte> file) {
  return as_text(file).substr(std::min<size_t>(file.size(), 4), 4) == identifier;
}

LiteModel read_lite_model(Bytes file, const std::string& source, const std::string& signature) {
  LiteModel model{.source = source,
                  .description = {},
                  .graphs = {},
                  .input_names = {},
                  .output_names = {},
                  .file = std::move(file)};
  LiteReader(model).read(signature);
  return model;
}

std::optional<DType> lite_type(int64_t code) {
#define FULL(number, type)
#define LITE(number, type) \
  if (code == number) return DType::type;
#include "frontends/tensorflow/dtypes.def"
#undef LITE
#undef FULL
  return std::nullopt;
}

}  // namespace weft::tensorflow
