// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/export/out.h"

#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "frontends/onnx/file/model.h"
#include "frontends/onnx/file/writer.h"

namespace weft::onnx {

constexpr uint32_t graph_node = 1, graph_weight = 5;

static std::string attribute_text(const OutAttribute& attribute) {
  std::string out;
  put_text(out, 1, attribute.name);
  auto put_kind = [&](AttributeKind kind) { put_integer(out, 20, static_cast<int64_t>(kind)); };
  if (const auto* integer = std::get_if<int64_t>(&attribute.value)) {
    put_integer(out, 3, *integer), put_kind(AttributeKind::integer);
  } else if (const auto* number = std::get_if<float>(&attribute.value)) {
    put_float(out, 2, *number), put_kind(AttributeKind::number);
  } else if (const auto* text = std::get_if<std::string>(&attribute.value)) {
    put_text(out, 4, *text), put_kind(AttributeKind::string);
  } else if (const auto* list = std::get_if<std::vector<int64_t>>(&attribute.value)) {
    for (int64_t value : *list) put_integer(out, 8, value);
    put_kind(AttributeKind::integers);
  } else if (const auto* graph = std::get_if<OutGraph>(&attribute.value)) {
    put_text(out, 6, graph->text), put_kind(AttributeKind::graph);
  } else {
    for (float value : std::get<std::vector<float>>(attribute.value)) put_float(out, 7, value);
    put_kind(AttributeKind::numbers);
  }
  return out;
}

/// Returns the name of a node: the quoted part of its source, else the whole source.
static std::string node_name(const std::string& source) {
  size_t begin = source.find('\''), end = source.rfind('\'');
  return begin != std::string::npos && end > begin + 1 ? source.substr(begin + 1, end - begin - 1) : source;
}

std::string message(std::initializer_list<std::pair<uint32_t, std::string>> fields) {
  std::string out;
  for (const auto& [field, text] : fields) put_text(out, field, text);
  return out;
}

std::string port(const std::string& name, const Type& type) {
  if (!type.is_tensor()) refuse_export(name, cat("'", printable(name), "' is ", to_string(type)));
  std::string dims, tensor;
  for (const Dim& dim : type.shape.dims) {
    std::string size;
    if (dim.is_constant()) put_integer(size, 1, dim.value());
    else put_text(size, 2, dim.as_symbol() ? dim.as_symbol()->name : to_string(dim));
    put_text(dims, 1, size);
  }
  put_integer(tensor, 1, element_code(type.shape.dtype));
  put_text(tensor, 2, dims);
  return message({{1, name}, {2, message({{1, tensor}})}});
}

void refuse_export(const std::string& source, std::string what) {
  throw Error({.kind = ErrorKind::unsupported,
               .code = "E223",
               .what = cat("the model cannot be written as ONNX: ", what),
               .where = source,
               .hint = "export it to ONNX with the framework that made it"});
}

Out::Out(const Module& main) {
  for (const Result& result : main.results()) taken_.insert(result.name);
  for (Value parameter : main.parameters()) taken_.insert(parameter.def->as<Parameter>()->parameter);
}

std::string Out::new_name(const std::string& base) {
  std::string name = base;
  for (int i = 1; taken_.contains(name); ++i) name = cat(base, "_", i);
  return *taken_.insert(name).first;
}

Names Out::add_all(std::string_view op, const Names& inputs, size_t outputs, const OutAttributes& attributes) {
  std::string node, name = new_name(source_.empty() ? std::string(op) : node_name(source_));
  Names results;
  for (const std::string& input : inputs) put_text(node, 1, input);
  for (size_t i = 0; i < outputs; ++i) results.push_back(i == 0 ? name + ":0" : new_name(cat(name, ":", i)));
  for (const std::string& result : results) put_text(node, 2, result);
  put_text(node, 3, name);
  put_text(node, 4, op);
  for (const OutAttribute& attribute : attributes) put_text(node, 5, attribute_text(attribute));
  put_text(nodes_, graph_node, node);
  return results;
}

void Out::add_output(const std::string& value, const std::string& name) {
  std::string node;
  put_text(node, 1, value);
  put_text(node, 2, name);
  put_text(node, 4, "Identity");
  put_text(nodes_, graph_node, node);
}

std::string Out::weight(const Tensor& value, const std::string& base) {
  std::string name = new_name(base);
  put_text(weights_, graph_weight, tensor_bytes(value, name));
  return name;
}

std::string Out::scalar(DType type, double value) { return weight(scalar_tensor(type, value)); }

void Out::learn_symbols(Value value) {
  if (!value.type().is_tensor()) return;
  for (size_t axis = 0; axis < value.dims().size(); ++axis)
    if (const Symbol* symbol = value.dims()[axis].as_symbol())
      symbols_.emplace(symbol->name, Place{.value = value, .list = {}, .index = static_cast<int64_t>(axis)});
}

void Out::set_size(const std::string& symbol, const std::string& scalar) {
  sizes_.insert_or_assign(to_string(Dim::symbol({.name = symbol})), scalar);
}

std::string Out::body(const std::function<void()>& write) {
  std::string around = std::move(nodes_);
  auto sizes = sizes_;
  auto symbols = symbols_;
  nodes_.clear();
  write();
  sizes_ = std::move(sizes), symbols_ = std::move(symbols);
  return std::exchange(nodes_, std::move(around));
}

void Out::set_symbol(const std::string& symbol, const std::string& list, int64_t index) {
  symbols_.insert_or_assign(symbol, Place{.value = {}, .list = list, .index = index});
}

std::string Out::symbol_size(const Symbol& symbol) {
  auto found = symbols_.find(symbol.name);
  if (found == symbols_.end())
    refuse_export(source_, cat("no input has the size '", printable(symbol.name), "' by itself"));
  const auto& [value, list, index] = found->second;
  std::string all = value ? add("Shape", {name(value)}) : list;
  return add("Gather", {all, scalar(DType::i64, static_cast<double>(index))});
}

std::string Out::factor(const DimFactor& factor) {
  if (factor.symbol) return size(Dim::symbol(*factor.symbol));
  std::string a = size(factor.a), b = size(factor.b);
  if (factor.function == "min") return add("Min", {a, b});
  if (factor.function == "max") return add("Max", {a, b});
  // Floor division: Div rounds towards 0, but a - mod(a, b) is a multiple of b, because Mod has the divisor's sign.
  return add("Div", {add("Sub", {a, add("Mod", {a, b})}), b});
}

std::string Out::product(const DimProduct& term) {
  std::string result;
  if (term.coefficient != 1 || term.factors.empty())
    result = weight(make_tensor(DType::i64, {}, std::vector<int64_t>{term.coefficient}));
  for (const DimFactor& each : term.factors)
    result = result.empty() ? factor(each) : add("Mul", {result, factor(each)});
  return result;
}

std::string Out::size(const Dim& dim) {
  auto [known, is_new] = sizes_.try_emplace(to_string(dim));
  if (!is_new) return known->second;
  std::string result;
  if (const Symbol* symbol = dim.as_symbol()) {
    result = symbol_size(*symbol);
  } else {
    for (const DimProduct& term : terms_of(dim))
      result = result.empty() ? product(term) : add("Add", {result, product(term)});
    if (result.empty()) result = scalar(DType::i64, 0);
  }
  return sizes_[to_string(dim)] = result;
}

std::string Out::sizes(const Dims& dims) {
  std::vector<int64_t> numbers;
  for (const Dim& dim : dims)
    if (dim.is_constant()) numbers.push_back(dim.value());
  if (numbers.size() == dims.size()) return integers(numbers);
  Names parts;
  for (const Dim& dim : dims)
    parts.push_back(dim.is_constant() ? integers({dim.value()}) : add("Unsqueeze", {size(dim), integers({0})}));
  return parts.size() == 1 ? parts[0] : add("Concat", parts, {{"axis", int64_t{0}}});
}

}  // namespace weft::onnx
