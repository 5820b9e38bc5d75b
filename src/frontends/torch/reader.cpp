// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "frontends/torch/archive.h"
#include "frontends/torch/exported.h"

namespace weft::torch {
namespace {

using Json = nlohmann::json;

constexpr int64_t schema_major = 8;
constexpr int max_nesting = 64;  // depth of graphs within graphs

/// A JSON value, and the path to it for error messages.
class Field {
 public:
  Field(const Json& json, std::string path) : json_(&json), path_(std::move(path)) {}

  const Json& json() const { return *json_; }
  const std::string& path() const { return path_; }
  [[noreturn]] void fail(std::string_view what) const {
    throw Error({.kind = ErrorKind::model,
                 .code = "E108",
                 .what = cat(path_, " ", what, ", is ", shown()),
                 .hint = "export and save the program again"});
  }
  bool has(std::string_view name) const {
    require(json_->is_object(), "must be an object");
    auto found = json_->find(name);
    return found != json_->end() && !found->is_null();
  }
  Field at(std::string_view name) const {
    if (!has(name)) fail(cat("must have '", name, "'"));
    return {*json_->find(name), cat(path_, ".", name)};
  }
  std::vector<Field> items() const {
    require(json_->is_array(), "must be a list");
    std::vector<Field> fields;
    for (size_t i = 0; i < json_->size(); ++i) fields.push_back({(*json_)[i], cat(path_, "[", i, "]")});
    return fields;
  }
  std::vector<std::pair<std::string, Field>> entries() const {
    require(json_->is_object(), "must be an object");
    std::vector<std::pair<std::string, Field>> fields;
    for (const auto& [key, value] : json_->items())
      fields.emplace_back(key, Field(value, cat(path_, ".", printable(key))));
    return fields;
  }
  std::string text() const {
    require(json_->is_string(), "must be a text");
    return json_->get<std::string>();
  }
  bool flag() const {
    require(json_->is_boolean(), "must be true or false");
    return json_->get<bool>();
  }
  int64_t integer() const {
    bool fits = json_->is_number_integer() && !(json_->is_number_unsigned() && json_->get<uint64_t>() > INT64_MAX);
    require(fits, "must be a whole number of 64 bits");
    return json_->get<int64_t>();
  }
  /// Returns a number. torch writes infinities and NaN as strings, because JSON has none.
  double number() const {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    if (*json_ == "Infinity") return infinity;
    if (*json_ == "-Infinity") return -infinity;
    if (*json_ == "NaN") return std::numeric_limits<double>::quiet_NaN();
    require(json_->is_number(), "must be a number");
    return json_->get<double>();
  }
  /// Returns the only entry of an object, which is how the schema writes a union.
  std::pair<std::string, Field> only() const {
    auto all = entries();
    require(all.size() == 1, "must have one entry");
    return std::move(all[0]);
  }

 private:
  void require(bool holds, std::string_view what) const {
    if (!holds) fail(what);
  }
  std::string shown() const {
    std::string text = json_->dump(-1, ' ', false, Json::error_handler_t::replace);
    return printable(text.size() > 60 ? text.substr(0, 60) + "..." : text);
  }

  const Json* json_;
  std::string path_;
};

/// Converts a number of the schema's ScalarType (torch/_export/serde/schema.py), which differs from c10's.
std::optional<DType> dtype_of(int64_t number) {
  static const std::map<int64_t, DType> types = {
      {1, DType::u8},          {2, DType::i8},          {3, DType::i16},     {4, DType::i32},       {5, DType::i64},
      {6, DType::f16},         {7, DType::f32},         {8, DType::f64},     {10, DType::c64},      {11, DType::c128},
      {12, DType::boolean},    {13, DType::bf16},       {28, DType::u16},    {29, DType::f8e4m3fn}, {30, DType::f8e5m2},
      {31, DType::f8e4m3fnuz}, {32, DType::f8e5m2fnuz}, {33, DType::f8e8m0}, {34, DType::u32},      {35, DType::u64}};
  auto found = types.find(number);
  return found == types.end() ? std::nullopt : std::optional(found->second);
}

DType read_dtype(const Field& field) {
  auto type = dtype_of(field.integer());
  if (!type)
    throw Error(
        {.kind = ErrorKind::unsupported,
         .code = "E149",
         .what = cat(field.path(), " is element type ", field.integer(), " of torch, which Weft does not know")});
  return *type;
}

Size read_size(const Field& field) {
  auto [tag, value] = field.only();
  if (tag == "as_int") return {.number = value.integer()};
  if (tag != "as_expr") field.fail("must have as_int or as_expr");
  return {.number = {}, .expression = value.at("expr_str").text()};
}

std::vector<Size> read_sizes(const Field& field) {
  std::vector<Size> sizes;
  for (const Field& item : field.items()) sizes.push_back(read_size(item));
  return sizes;
}

TensorMeta read_meta(const Field& field) {
  constexpr int64_t strided = 7;
  if (field.at("layout").integer() != strided)
    throw Error(
        {.kind = ErrorKind::unsupported,
         .code = "E149",
         .what = cat(field.path(), " is of layout ", field.at("layout").integer(), ", not dense (", strided, ")"),
         .hint = "make it dense before the export: tensor.to_dense()"});
  return {read_dtype(field.at("dtype")), read_sizes(field.at("sizes")), read_sizes(field.at("strides")),
          read_size(field.at("storage_offset"))};
}

Item item_of_name(const Field& field) { return {.kind = Item::Kind::name, .text = field.at("name").text()}; }
Item item_of_integer(const Field& field) { return {.kind = Item::Kind::integer, .integer = field.integer()}; }
Item item_of_number(const Field& field) { return {.kind = Item::Kind::number, .number = field.number()}; }
Item item_of_flag(const Field& field) { return {.kind = Item::Kind::flag, .integer = field.flag()}; }
Item item_of_text(const Field& field) { return {.kind = Item::Kind::text, .text = field.text()}; }

/// Reads {"as_name": "s"}, or a constant such as {"as_int": 1}.
Item item_of_symbolic(const Field& field) {
  auto [tag, value] = field.only();
  if (tag == "as_name") return {.kind = Item::Kind::name, .text = value.text()};
  if (tag == "as_int") return item_of_integer(value);
  if (tag == "as_float") return item_of_number(value);
  if (tag == "as_bool") return item_of_flag(value);
  field.fail("must have as_name or a value");
}

Item item_of_optional(const Field& field) {
  auto [tag, value] = field.only();
  return tag == "as_none" ? Item{} : item_of_name(value);
}

Item item_of_device(const Field& field) { return {.kind = Item::Kind::text, .text = field.at("type").text()}; }

struct ArgumentForm {
  std::string_view tag;
  Argument::Kind kind;
  bool is_list;
  Item (*read)(const Field&);
};
constexpr ArgumentForm forms[] = {
    {"as_tensor", Argument::Kind::tensor, false, item_of_name},
    {"as_tensors", Argument::Kind::tensor, true, item_of_name},
    {"as_optional_tensor", Argument::Kind::tensor, false, item_of_optional},
    {"as_optional_tensors", Argument::Kind::tensor, true, item_of_optional},
    {"as_int", Argument::Kind::scalar, false, item_of_integer},
    {"as_ints", Argument::Kind::scalar, true, item_of_integer},
    {"as_float", Argument::Kind::scalar, false, item_of_number},
    {"as_floats", Argument::Kind::scalar, true, item_of_number},
    {"as_bool", Argument::Kind::scalar, false, item_of_flag},
    {"as_bools", Argument::Kind::scalar, true, item_of_flag},
    {"as_sym_int", Argument::Kind::scalar, false, item_of_symbolic},
    {"as_sym_ints", Argument::Kind::scalar, true, item_of_symbolic},
    {"as_sym_bool", Argument::Kind::scalar, false, item_of_symbolic},
    {"as_sym_bools", Argument::Kind::scalar, true, item_of_symbolic},
    {"as_sym_float", Argument::Kind::scalar, false, item_of_symbolic},
    {"as_sym_floats", Argument::Kind::scalar, true, item_of_symbolic},
    {"as_string", Argument::Kind::text, false, item_of_text},
    {"as_strings", Argument::Kind::text, true, item_of_text},
    {"as_scalar_type", Argument::Kind::element, false, item_of_integer},
    {"as_memory_format", Argument::Kind::format, false, item_of_integer},
    {"as_layout", Argument::Kind::format, false, item_of_integer},
    {"as_device", Argument::Kind::device, false, item_of_device},
};

/// Reads graphs and, recursively, the graphs in their nodes' arguments.
class GraphReader {
 public:
  explicit GraphReader(ExportedProgram& program) : program_(program) {}

  Argument argument(const Field& field) {
    auto [tag, value] = field.only();
    if (tag == "as_none") return {};
    if (tag == "as_graph") return graph_argument(value);
    auto form = std::ranges::find(forms, tag, &ArgumentForm::tag);
    if (form == std::end(forms)) return {.kind = Argument::Kind::other, .items = {{.text = tag}}};
    Argument read{.kind = form->kind, .is_list = form->is_list, .tag = form->tag};
    if (!form->is_list) read.items.push_back(form->read(value));
    else
      for (const Field& item : value.items()) read.items.push_back(form->read(item));
    if (form->kind == Argument::Kind::element) read.items[0].integer = static_cast<int64_t>(read_dtype(value));
    return read;
  }

  Graph graph(const Field& field) {
    if (++depth_ > max_nesting)
      throw Error({.kind = ErrorKind::model,
                   .code = "E152",
                   .what = cat(field.path(), " is nested more than ", max_nesting, " graphs deep")});
    Graph graph;
    for (const Field& item : field.at("inputs").items()) graph.inputs.push_back(argument(item));
    for (const Field& item : field.at("outputs").items()) graph.outputs.push_back(argument(item));
    for (const Field& item : field.at("nodes").items()) {
      graph.nodes.push_back(node(item));
      graph.nodes.back().index = std::ssize(graph.nodes) - 1;
    }
    for (const auto& [name, meta] : field.at("tensor_values").entries()) graph.tensors.emplace(name, read_meta(meta));
    for (const auto& [name, size] : field.at("sym_int_values").entries()) graph.sizes.emplace(name, read_size(size));
    --depth_;
    return graph;
  }

 private:
  Argument graph_argument(const Field& field) {
    program_.subgraphs.push_back(graph(field.at("graph")));
    return {.kind = Argument::Kind::graph, .graph = &program_.subgraphs.back()};
  }

  Node node(const Field& field) {
    constexpr std::string_view prefix = "torch.ops.";
    Node node;
    node.target = field.at("target").text();
    if (node.target.starts_with(prefix)) node.target.erase(0, prefix.size());
    for (const Field& input : field.at("inputs").items())
      node.inputs.push_back({input.at("name").text(), argument(input.at("arg"))});
    for (const Field& output : field.at("outputs").items()) node.outputs.push_back(argument(output));
    if (field.has("name")) node.name = field.at("name").text();
    Field notes = field.at("metadata");
    if (notes.has("stack_trace")) node.stack_trace = notes.at("stack_trace").text();
    return node;
  }

  ExportedProgram& program_;
  int depth_ = 0;
};

Input read_input(const Field& field) {
  auto [kind, value] = field.only();
  if (kind == "user_input") {
    auto [tag, argument] = value.at("arg").only();
    if (tag == "as_tensor") return {Input::Kind::user, argument.at("name").text(), {}};
    if (tag == "as_sym_int" && argument.has("as_name")) return {Input::Kind::user, argument.at("as_name").text(), {}};
    // A number, size or string; the export has fixed its value.
    return {Input::Kind::constant, {}, {}};
  }
  if (kind == "constant_input") return {Input::Kind::constant, value.at("name").text(), {}};
  auto named = [&](Input::Kind which, const char* target) {
    return Input{which, value.at("arg").at("name").text(), value.at(target).text()};
  };
  if (kind == "parameter") return named(Input::Kind::parameter, "parameter_name");
  if (kind == "buffer") return named(Input::Kind::buffer, "buffer_name");
  if (kind == "tensor_constant") return named(Input::Kind::constant_tensor, "tensor_constant_name");
  throw Error({.kind = ErrorKind::unsupported,
               .code = "E122",
               .what = cat(field.path(), " is an input of kind '", printable(kind), "', which Weft cannot run"),
               .hint = "run ep.run_decompositions({}) before torch.export.save"});
}

Output read_output(const Field& field, GraphReader& graphs) {
  auto [kind, value] = field.only();
  auto tensor = [&] {
    return Argument{.kind = Argument::Kind::tensor, .items = {item_of_name(value.at("arg"))}, .tag = "as_tensor"};
  };
  if (kind == "user_output") return {graphs.argument(value.at("arg")), {}};
  if (kind == "buffer_mutation") return {tensor(), value.at("buffer_name").text()};
  if (kind == "parameter_mutation") return {tensor(), value.at("parameter_name").text()};
  if (kind == "user_input_mutation") return {tensor(), value.at("user_input_name").text()};
  throw Error({.kind = ErrorKind::unsupported,
               .code = "E122",
               .what = cat(field.path(), " is an output of kind '", printable(kind), "'; Weft runs inference only"),
               .hint = "export the model in eval mode, without a loss"});
}

Json parse(std::span<const std::byte> bytes, const std::string& name) {
  std::string_view text = as_text(bytes);
  Json json = Json::parse(text.begin(), text.end(), nullptr, false);
  if (json.is_discarded())
    throw Error({.kind = ErrorKind::model,
                 .code = "E108",
                 .what = cat(name, " (", text.size(), " bytes) is not JSON"),
                 .hint = "export and save the program again"});
  return json;
}

void check_version(const Field& program) {
  Field version = program.at("schema_version");
  int64_t major = version.at("major").integer(), minor = version.at("minor").integer();
  if (major == schema_major) return;
  throw Error({.kind = ErrorKind::model,
               .code = "E112",
               .what = cat(program.path(), " is of schema ", major, ".", minor, ", Weft reads ", schema_major, ".x"),
               .hint = major > schema_major
                           ? "save it with an older torch (2.13 writes 8.x), or update Weft"
                           : "load it with the torch that wrote it, and save it with torch 2.9 or newer"});
}

std::map<std::string, Range> read_ranges(const Field& field) {
  std::map<std::string, Range> ranges;
  for (const auto& [name, range] : field.entries()) {
    Range& of = ranges[name];
    if (range.has("min_val")) of.min = range.at("min_val").integer();
    if (range.has("max_val")) of.max = range.at("max_val").integer();
    if (of.min && of.max && *of.min > *of.max) range.fail("has a least size above its greatest");
  }
  return ranges;
}

void read_program(const Json& json, const std::string& name, ExportedProgram& program) {
  Field all(json, name);
  check_version(all);
  GraphReader graphs(program);
  Field module = all.at("graph_module"), signature = module.at("signature");
  program.graph = graphs.graph(module.at("graph"));
  program.ranges = read_ranges(all.at("range_constraints"));
  if (all.has("guards_code"))
    for (const Field& guard : all.at("guards_code").items()) program.guards.push_back(guard.text());
  if (all.has("torch_version")) program.metadata["torch_version"] = all.at("torch_version").text();
  for (const Field& input : signature.at("input_specs").items()) program.inputs.push_back(read_input(input));
  for (const Field& output : signature.at("output_specs").items())
    program.outputs.push_back(read_output(output, graphs));
  if (program.inputs.size() != program.graph.inputs.size())
    signature.fail(cat("names ", program.inputs.size(), " inputs, the graph has ", program.graph.inputs.size()));
  if (program.outputs.size() != program.graph.outputs.size())
    signature.fail(cat("names ", program.outputs.size(), " outputs, the graph has ", program.graph.outputs.size()));
}

// ---- Weights ----

std::vector<int64_t> numbers(const Field& field) {
  std::vector<int64_t> numbers;
  for (const Size& size : read_sizes(field)) {
    if (!size.number) field.fail("must hold numbers only");
    if (*size.number < 0)
      throw Error({.kind = ErrorKind::model, .code = "E150", .what = cat(field.path(), " has ", *size.number)});
    numbers.push_back(*size.number);
  }
  return numbers;
}

/// Returns the number of elements in memory from the first to the last one; E146 if it overflows.
int64_t reach_of(std::span<const int64_t> sizes, std::span<const int64_t> strides, const Field& field) {
  int64_t reach = 1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    int64_t step = 0;
    if (sizes[i] == 0) return 0;
    if (__builtin_mul_overflow(sizes[i] - 1, strides[i], &step) || __builtin_add_overflow(reach, step, &reach))
      throw Error({.kind = ErrorKind::model, .code = "E146", .what = cat(field.path(), ": sizes overflow: ", sizes)});
  }
  return reach;
}

bool is_row_major(std::span<const int64_t> sizes, std::span<const int64_t> strides) {
  int64_t step = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] != 1 && strides[i] != step) return false;
    step *= sizes[i];
  }
  return true;
}

/// Copies the elements at `strides` of `data` into row-major order.
Bytes gathered(const Bytes& data, std::span<const int64_t> sizes, std::span<const int64_t> strides, size_t width,
               int64_t count) {
  std::vector<std::byte> out(count * width);
  std::vector<int64_t> index(sizes.size(), 0);
  int64_t from = 0;
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(&out[i * width], data.data() + from * width, width);
    for (size_t a = sizes.size(); a-- > 0;) {
      from += strides[a];
      if (++index[a] < sizes[a]) break;
      from -= strides[a] * sizes[a];
      index[a] = 0;
    }
  }
  return Bytes(std::move(out));
}

Tensor read_weight(const Field& field, const Bytes& data) {
  Field meta = field.at("tensor_meta");
  TensorMeta type = read_meta(meta);
  std::vector<int64_t> sizes = numbers(meta.at("sizes")), strides = numbers(meta.at("strides"));
  if (sizes.size() != strides.size()) meta.fail(cat("has ", sizes.size(), " sizes and ", strides.size(), " strides"));
  Size offset = read_size(meta.at("storage_offset"));
  int64_t begin = offset.number.value_or(-1), count = element_count(sizes), reach = reach_of(sizes, strides, meta);
  auto width = static_cast<int64_t>(bits(type.dtype) / 8), have = static_cast<int64_t>(data.size()) / width;
  if (begin < 0) meta.fail(cat("has storage_offset ", begin));
  if (reach > have || begin > have - reach)
    throw Error({.kind = ErrorKind::model,
                 .code = "E147",
                 .what = cat(field.path(), " needs ", reach, " elements from ", begin, " on, its member has ", have)});
  constexpr int64_t max_repeated = 1 << 26;  // most elements that strides of 0 may repeat
  if (count > have && count > max_repeated)
    throw Error({.kind = ErrorKind::model,
                 .code = "E148",
                 .what = cat(field.path(), " has ", count, " elements, its member ", have)});
  Bytes all = data.part(begin * width, reach * width);
  bool is_dense = is_row_major(sizes, strides);
  return {.dtype = type.dtype, .dims = sizes, .data = is_dense ? all : gathered(all, sizes, strides, width, count)};
}

void read_weights(const Archive& archive, std::string_view folder, std::string_view ending, ExportedProgram& program) {
  for (const auto& [member, bytes] : archive.members()) {
    if (!member.starts_with(folder) || !member.ends_with(ending)) continue;
    Json json = parse(bytes, member);
    for (const auto& [name, field] : Field(json, member).at("config").entries()) {
      if (field.at("use_pickle").flag())
        throw Error(
            {.kind = ErrorKind::model,
             .code = "E107",
             .what = cat("weight '", printable(name), "' is pickled in ", member, ", and pickle files can run code"),
             .hint = "ep = ep.run_decompositions({}) before torch.export.save makes plain tensors of it"});
      if (!field.has("tensor_meta")) continue;
      program.weights[name] = read_weight(field, archive.member(cat(folder, field.at("path_name").text())));
    }
  }
}

std::string_view trimmed(std::span<const std::byte> bytes) { return trim(as_text(bytes)); }

void check_archive(const Archive& archive) {
  auto fail = [&](std::string what, std::string hint) {
    throw Error({.kind = ErrorKind::model,
                 .code = "E102",
                 .what = cat(printable(archive.source()), ": ", what),
                 .hint = std::move(hint)});
  };
  if (archive.members().contains("serialized_exported_program.json"))
    fail("is a program that a torch before 2.8 saved", "load it there, and save it with torch 2.9 or newer");
  if (archive.members().contains("byteorder") && trimmed(archive.member("byteorder")) != "little")
    fail(cat("has byte order '", printable(trimmed(archive.member("byteorder"))), "', not 'little'"),
         "save it on a machine of this byte order");
}

}  // namespace

bool is_exported_program(std::span<const std::byte> file) {
  std::string_view text = as_text(file);
  std::string_view start = text.substr(0, 4096),
                   tail = text.substr(text.size() - std::min<size_t>(text.size(), 1 << 16));
  if (!text.starts_with("PK\x03\x04"))
    return trim(start).starts_with('{') && start.find("\"graph_module\"") != start.npos;
  auto names = [&](std::string_view name) { return start.find(name) != start.npos || tail.find(name) != tail.npos; };
  return names("/archive_format") || names("serialized_exported_program") || names("/data/weights/");
}

ExportedProgram read_exported_program(Bytes file, const std::string& source) {
  ExportedProgram program;
  program.source = source, program.file = file;
  if (as_text(file).starts_with("PK")) {
    Archive archive(file, source);
    check_archive(archive);
    constexpr std::string_view folder = "models/", ending = ".json";
    std::vector<std::string> models;
    for (const auto& [name, bytes] : archive.members())
      if (name.starts_with(folder) && name.ends_with(ending)) models.push_back(name);
    if (models.size() != 1)
      throw Error({.kind = ErrorKind::model,
                   .code = "E102",
                   .what = cat(printable(source), " holds ", models.size(), " models, not one: ", models),
                   .hint = "save one program with torch.export.save (packages of AOTInductor hold machine code)"});
    read_program(parse(archive.member(models[0]), models[0]), models[0], program);
    read_weights(archive, "data/weights/", "_weights_config.json", program);
    read_weights(archive, "data/constants/", "_constants_config.json", program);
    return program;
  }
  program.is_from_file = false;
  read_program(parse(file, source), source, program);
  return program;
}

}  // namespace weft::torch
