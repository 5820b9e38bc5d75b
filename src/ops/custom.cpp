// SPDX-License-Identifier: Apache-2.0
#include "ops/custom.h"

#include <algorithm>
#include <cstring>

#include "base/text.h"
#include "ir/core_ops.h"
#include "ir/op_fields.h"
#include "ops/check.h"

namespace weft {
namespace {

using shape_rule::refuse;

/// One type in the shape rule of a custom operator, such as "f32[n,k]", with its sizes still as text.
struct Pattern {
  DType dtype = DType::f32;
  bool any_dims = false;
  std::vector<std::string> dims;
};

struct Rule {
  std::vector<Pattern> inputs, outputs;
};

/// Splits at commas that are outside brackets.
std::vector<std::string_view> split_types(std::string_view text) {
  std::vector<std::string_view> parts;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] == '[') ++depth;
    if (i < text.size() && text[i] == ']') --depth;
    if (i < text.size() && (text[i] != ',' || depth > 0)) continue;
    if (auto part = trim(text.substr(begin, i - begin)); !part.empty()) parts.push_back(part);
    begin = i + 1;
  }
  return parts;
}

Pattern parse_pattern(std::string_view text) {
  size_t open = text.find('[');
  bool is_whole = open == std::string_view::npos || text.ends_with(']');
  if (!is_whole) refuse("E191", "'", printable(text), "' is not a type: write f32[n,k]");
  Pattern pattern;
  fields::parse(trim(text.substr(0, open)), pattern.dtype, {});
  if (open == std::string_view::npos) return pattern;
  std::string_view sizes = trim(text.substr(open + 1, text.size() - open - 2));
  pattern.any_dims = sizes == "...";
  if (sizes.empty() || pattern.any_dims) return pattern;
  for (std::string_view size : split(sizes, ',')) pattern.dims.emplace_back(trim(size));
  return pattern;
}

Rule parse_rule(std::string_view text) {
  size_t arrow = text.find("->");
  if (arrow == std::string_view::npos) refuse("E191", "the rule '", printable(text), "' has no '->'");
  Rule rule;
  for (std::string_view type : split_types(text.substr(0, arrow))) rule.inputs.push_back(parse_pattern(type));
  for (std::string_view type : split_types(text.substr(arrow + 2))) rule.outputs.push_back(parse_pattern(type));
  return rule;
}

bool fits(const Rule& rule, Operands in) {
  if (rule.inputs.size() != in.size()) return false;
  for (size_t i = 0; i < in.size(); ++i) {
    const Pattern& pattern = rule.inputs[i];
    if (!in[i].is_tensor() || in[i].shape.dtype != pattern.dtype) return false;
    if (!pattern.any_dims && pattern.dims.size() != in[i].shape.dims.size()) return false;
  }
  return true;
}

/// The values of the sizes that a rule names, which are bound from one input after another.
class Binding {
 public:
  explicit Binding(const Custom& op) : op_(op) {}

  void bind(const Pattern& pattern, const Shape& shape) {
    if (pattern.any_dims) return bind_any(shape);
    for (size_t i = 0; i < pattern.dims.size(); ++i) {
      Dim wanted = parse_dim(pattern.dims[i], [](std::string_view name) { return Symbol{.name = std::string(name)}; });
      const Symbol* symbol = wanted.as_symbol();
      if (symbol && !find(symbol->name)) sizes.emplace_back(symbol->name, shape.dims[i]);
      else require_equal(shape.dims[i], known(wanted), cat(op_.op, ": size ", pattern.dims[i], " of ", shape));
    }
  }

  Dims dims(const Pattern& pattern) const {
    if (pattern.any_dims && !any_) refuse("E191", op_.op, ": no input has sizes '...'");
    if (pattern.any_dims) return *any_;
    Dims dims;
    for (const std::string& text : pattern.dims)
      dims.push_back(known(parse_dim(text, [](std::string_view name) { return Symbol{.name = std::string(name)}; })));
    return dims;
  }

  std::vector<std::pair<std::string, Dim>> sizes;

 private:
  const Dim* find(const std::string& name) const {
    auto found = std::ranges::find(sizes, name, &std::pair<std::string, Dim>::first);
    return found == sizes.end() ? nullptr : &found->second;
  }
  void bind_any(const Shape& shape) {
    if (any_) return shape_rule::same_dims(op_.op, {shape.dtype, *any_}, shape);
    any_ = shape.dims;
    sizes.emplace_back("count", shape.elements());
  }
  Dim known(const Dim& dim) const {
    return dim.substitute([&](const Symbol& symbol) {
      const Dim* size = find(symbol.name);
      if (!size) refuse("E191", op_.op, ": the rule '", op_.rule, "' takes size '", symbol.name, "' from no input");
      return *size;
    });
  }

  const Custom& op_;
  std::optional<Dims> any_;
};

/// Returns the operands that the rule describes: all except the address of a host function.
Operands ruled(const Custom& op, Operands in) { return op.calls_host() ? in.first(in.size() - 1) : in; }

/// Returns the function's address, the user pointer and the attributes as a constant that the kernel reads.
Tensor host_call_tensor(const CustomOperator& op, const std::vector<std::string>& attributes) {
  std::string text;
  for (const std::string& attribute : attributes) text += cat(text.empty() ? "" : "\n", attribute);
  std::vector<int64_t> words(2 + text.size() / 8 + 1);
  words[0] = static_cast<int64_t>(reinterpret_cast<intptr_t>(op.call));
  words[1] = static_cast<int64_t>(reinterpret_cast<intptr_t>(op.user));
  std::memcpy(&words[2], text.c_str(), text.size() + 1);
  return make_i64_tensor(words);
}

}  // namespace

BoundRule bind_rule(const Custom& op, Operands in) {
  if (op.calls_host() && in.empty()) refuse("E140", op.op, " lacks the address of its function");
  in = ruled(op, in);
  for (std::string_view text : split(op.rule, ';')) {
    Rule rule = parse_rule(text);
    if (!fits(rule, in)) continue;
    Binding binding(op);
    for (size_t i = 0; i < in.size(); ++i) binding.bind(rule.inputs[i], in[i].shape);
    BoundRule bound;
    for (const Pattern& output : rule.outputs) bound.results.push_back(Shape{output.dtype, binding.dims(output)});
    bound.sizes = std::move(binding.sizes);
    return bound;
  }
  std::string types;
  for (const Type& type : in) types += cat(types.empty() ? "" : ", ", type);
  refuse("E141", op.op, " takes '", op.rule, "', not ", types);
}

Types Custom::infer(Operands in) const { return bind_rule(*this, in).results; }

std::vector<Value> append_custom(Module& module, const CustomOperator& op, std::vector<std::string> attributes,
                                 std::vector<Value> inputs) {
  bool is_whole = op.source.empty() ? op.call != nullptr : !op.function.empty();
  if (!is_whole) {
    throw Error(
        {.kind = ErrorKind::usage,
         .code = "E217",
         .what = cat("custom operator ", printable(op.name), " has neither source with a function nor a callback")});
  }
  if (op.source.empty()) inputs.push_back(module.append(Constant{host_call_tensor(op, attributes)}, {}));
  Custom custom{.op = op.name,
                .rule = op.rule,
                .source = op.source,
                .function = op.function,
                .tasks = op.tasks,
                .pointwise = op.is_pointwise,
                .attributes = std::move(attributes)};
  Value first = module.append(std::move(custom), std::move(inputs));
  std::vector<Value> results;
  for (uint32_t k = 0; k < first.def->types.size(); ++k) results.push_back(first.def->result(k));
  return results;
}

}  // namespace weft
