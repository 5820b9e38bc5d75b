// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/import/call.h"

#include "base/error.h"
#include "frontends/onnx/import/importer.h"
#include "ir/core_ops.h"
#include "ops/build.h"
#include "ops/wide.h"

namespace weft::onnx {
namespace {

template <class T>
constexpr AttributeKind kind_of = AttributeKind::undefined;
template <>
constexpr AttributeKind kind_of<float> = AttributeKind::number;
template <>
constexpr AttributeKind kind_of<int64_t> = AttributeKind::integer;
template <>
constexpr AttributeKind kind_of<std::string_view> = AttributeKind::string;
template <>
constexpr AttributeKind kind_of<std::vector<float>> = AttributeKind::numbers;
template <>
constexpr AttributeKind kind_of<std::vector<int64_t>> = AttributeKind::integers;
template <>
constexpr AttributeKind kind_of<std::vector<std::string_view>> = AttributeKind::strings;
template <>
constexpr AttributeKind kind_of<std::vector<TensorData>> = AttributeKind::tensor;
template <>
constexpr AttributeKind kind_of<std::vector<SparseTensor>> = AttributeKind::sparse_tensor;
template <>
constexpr AttributeKind kind_of<std::vector<const Graph*>> = AttributeKind::graph;
template <>
constexpr AttributeKind kind_of<std::vector<TypeProto>> = AttributeKind::type;

}  // namespace

Call::Call(Importer& importer, Scope& scope, const Node& node, int64_t opset, Values inputs)
    : Builder(*scope.body),
      importer_(importer),
      scope_(scope),
      node_(node),
      opset_(opset),
      inputs_(std::move(inputs)),
      used_(node.attributes.size()) {}

void Call::fail(std::string_view code, std::string what, std::string hint) const {
  throw Error({.kind = ErrorKind::model,
               .code = std::string(code),
               .what = cat(printable(node_.op_type), " ", what),
               .where = cat(describe(node_), scope_.within),
               .hint = std::move(hint)});
}

void Call::unsupported(std::string what) const {
  throw Error({.kind = ErrorKind::unsupported,
               .code = "E122",
               .what = cat(printable(node_.op_type), " ", what),
               .where = cat(describe(node_), scope_.within)});
}

void Call::expect_inputs(size_t least, size_t most) const {
  size_t have = inputs_.size();
  if (have < least || have > most) {
    std::string range = least == most ? cat(least) : cat(least, "-", most);
    fail("E140", cat("needs ", range, " inputs, has ", have));
  }
}

Value Call::input(size_t i) const {
  if (i >= inputs_.size()) fail("E140", cat("needs input ", i, ", has ", inputs_.size(), " inputs"));
  if (!inputs_[i]) fail("E140", cat("needs input ", i, ", which is not given"));
  return inputs_[i];
}

Value Call::optional_input(size_t i) const { return has_input(i) ? inputs_[i] : Value{}; }

Values Call::inputs(size_t from) const {
  Values values;
  for (size_t i = from; i < inputs_.size(); ++i) values.push_back(input(i));
  return values;
}

Dims Call::sizes(size_t i, int64_t least) const {
  const Shape& shape = input(i).shape();
  if (!is_integer(shape.dtype) || shape.rank() > 1)
    fail("E141", cat("needs input ", i, " as a vector of integers, is ", shape));
  constexpr int64_t max_axes = 4096;
  if (!shape.is_static()) importer_.note_static(input(i), i, node_.op_type, true);
  if (!shape.is_static() || (shape.elements().value() > max_axes && !constant(i)))
    unsupported(cat("input ", i, " holds ", shape.elements(), " sizes; their number must be fixed"));
  return sizes_in(module(), input(i), least);
}

Dim Call::size(size_t i, int64_t least) const {
  Dims all = sizes(i, least);
  if (all.size() != 1) fail("E140", cat("needs one number in input ", i, ", has ", all.size()));
  return all[0];
}

int64_t Call::integer_input(size_t i) const {
  auto all = numbers(i);
  if (all.size() != 1) fail("E140", cat("needs one number in input ", i, ", has ", all.size()));
  return all[0];
}

void Call::needs_constant(size_t i, std::string what) const {
  throw Error({.kind = ErrorKind::unsupported,
               .code = "E159",
               .what = cat(printable(node_.op_type), " input ", i, " '", printable(node_.inputs[i]), "' ", what),
               .where = cat(describe(node_), scope_.within),
               .why = importer_.note_static(inputs_[i], i, node_.op_type),
               .hint = "it must be constant, or follow from constants and small inputs of the model"});
}

std::vector<int64_t> Call::numbers(size_t i) const {
  auto contents = known_contents(input(i));
  if (!contents) needs_constant(i, "gives numbers that are only known when the model runs");
  std::vector<int64_t> numbers;
  for (const Dim& dim : *contents) {
    if (!dim.is_constant()) unsupported(cat("input ", i, " must be constant, is ", dim));
    numbers.push_back(dim.value());
  }
  return numbers;
}

std::optional<Tensor> Call::constant(size_t i) const {
  auto* found = input(i).def->as<Constant>();
  return found ? std::optional(found->tensor) : std::nullopt;
}

Tensor Call::require_constant(size_t i, std::string_view what) const {
  if (auto tensor = constant(i)) return *tensor;
  needs_constant(i, cat("gives its ", what, ", which is only known when the model runs"));
}

double Call::number_input(size_t i, std::string_view what) const {
  Tensor tensor = require_constant(i, what);
  if (tensor.elements() != 1) fail("E140", cat("needs one number as its ", what, ", has ", tensor.elements()));
  return to_doubles(tensor)[0];
}

const Attribute* Call::find(std::string_view name) const {
  for (size_t i = 0; i < node_.attributes.size(); ++i) {
    const Attribute& attribute = node_.attributes[i];
    if (attribute.name != name) continue;
    used_[i] = true;
    if (attribute.reference.empty()) return &attribute;
    if (!scope_.bindings) return nullptr;
    auto bound = scope_.bindings->find(attribute.reference);
    return bound == scope_.bindings->end() ? nullptr : bound->second;
  }
  return nullptr;
}

template <class T>
const T* Call::get(std::string_view name) const {
  const Attribute* attribute = find(name);
  if (!attribute) return nullptr;
  if (attribute->kind == kind_of<T>) return std::get_if<T>(&attribute->value);
  fail("E141", cat("attribute '", name, "' must be ", kind_of<T>, ", is ", attribute->kind));
}

template <class T>
const T& Call::require(std::string_view name) const {
  if (auto* value = get<T>(name)) return *value;
  fail("E142", cat("needs attribute '", name, "'"));
}

bool Call::has(std::string_view name) const { return find(name) != nullptr; }
int64_t Call::integer(std::string_view name) const { return require<int64_t>(name); }
int64_t Call::integer(std::string_view name, int64_t fallback) const {
  auto* value = get<int64_t>(name);
  return value ? *value : fallback;
}
int64_t Call::extent(std::string_view name) const {
  int64_t size = integer(name);
  if (size < 1 || size > INT32_MAX) fail("E145", cat(name, " must be 1 to 2^31 - 1, is ", size));
  return size;
}
double Call::number(std::string_view name) const { return require<float>(name); }
double Call::number(std::string_view name, double fallback) const {
  auto* value = get<float>(name);
  return value ? *value : fallback;
}
std::string Call::text(std::string_view name) const { return std::string(require<std::string_view>(name)); }
std::string Call::text(std::string_view name, std::string_view fallback) const {
  auto* value = get<std::string_view>(name);
  return std::string(value ? *value : fallback);
}
std::vector<int64_t> Call::integers(std::string_view name) const {
  auto* value = get<std::vector<int64_t>>(name);
  return value ? *value : std::vector<int64_t>();
}
std::vector<double> Call::floats(std::string_view name) const {
  auto* value = get<std::vector<float>>(name);
  return value ? std::vector<double>(value->begin(), value->end()) : std::vector<double>();
}
std::vector<std::string> Call::strings(std::string_view name) const {
  auto* value = get<std::vector<std::string_view>>(name);
  return value ? std::vector<std::string>(value->begin(), value->end()) : std::vector<std::string>();
}
Tensor Call::tensor(std::string_view name) const { return to_tensor(require<std::vector<TensorData>>(name)[0]); }
const SparseTensor& Call::sparse_tensor(std::string_view name) const {
  return require<std::vector<SparseTensor>>(name)[0];
}
const Graph& Call::graph(std::string_view name) const { return *require<std::vector<const Graph*>>(name)[0]; }
const TypeProto& Call::type(std::string_view name) const { return require<std::vector<TypeProto>>(name)[0]; }

DType Call::element(std::string_view name) const {
  int64_t code = integer(name);
  if (auto type = element_type(code)) return *type;
  fail("E149", cat("attribute '", name, "' is element type ", code, ", which Weft does not know"));
}
DType Call::element(std::string_view name, DType fallback) const { return integer(name, 0) ? element(name) : fallback; }

void Call::ignore(std::string_view name) const { find(name); }

void Call::expect_ranks(std::initializer_list<std::pair<size_t, int64_t>> ranks) const {
  for (auto [i, rank] : ranks) {
    if (!has_input(i)) continue;
    bool fits = inputs_[i].type().is_tensor() && inputs_[i].rank() == rank;
    if (!fits) fail("E151", cat("needs input ", i, " of rank ", rank, ", has ", inputs_[i].type()));
  }
}

void Call::check_attributes() const {
  for (size_t i = 0; i < used_.size(); ++i) {
    // Before opset 6, `consumed_inputs` was a hint about memory.
    bool is_hint = opset_ < 6 && node_.attributes[i].name == "consumed_inputs";
    if (!used_[i] && !is_hint)
      fail("E141", cat("has an attribute '", printable(node_.attributes[i].name), "' that it does not know"));
  }
}

}  // namespace weft::onnx
