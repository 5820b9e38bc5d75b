// SPDX-License-Identifier: Apache-2.0
#include "frontends/tensorflow/call.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "frontends/common/complex.h"
#include "frontends/common/views.h"
#include "ir/core_ops.h"
#include "ops/views.h"

namespace weft::tensorflow {

size_t WrittenVariables::count() const {
  size_t count = all.size();
  for (const auto& [graph, names] : by_body) count += names.size();
  return count;
}

Values Graphs::built(int64_t graph, const Builder& body, const Values& inputs, const std::set<std::string>& variables,
                     bool is_condition) {
  Values own(inputs.begin(), inputs.end() - std::ssize(variables));
  OpenBody open{.graph = graph, .body = &body, .is_condition = is_condition};
  for (size_t next = own.size(); const std::string& name : variables) open.values[name] = inputs[next++];
  struct Close {
    std::vector<OpenBody>& bodies;
    ~Close() { bodies.pop_back(); }
  } close{bodies_};
  bodies_.push_back(std::move(open));
  Values results = inlined(graph, body.module(), own);
  if (is_condition) return results;
  for (const std::string& name : variables) results.push_back(bodies_.back().values[name]);
  return results;
}

std::set<std::string> Graphs::written_by(std::span<const int64_t> graphs) const {
  std::set<std::string> names;
  for (int64_t graph : graphs) {
    auto known = written_.by_body.find(graph);
    if (known != written_.by_body.end()) names.insert(known->second.begin(), known->second.end());
  }
  return names;
}

Value Graphs::in_body(size_t depth, const Builder& at, const std::string& name) {
  if (depth == 0) return main_variable(at, name);
  auto known = bodies_[depth - 1].values.find(name);
  if (known != bodies_[depth - 1].values.end()) return known->second;
  Value value = bodies_[depth - 1].body->body().capture(in_body(depth - 1, at, name));
  return bodies_[depth - 1].values[name] = value;
}

Value Graphs::variable(const Builder& at, const std::string& name) {
  Value value = in_body(bodies_.size(), at, name);
  if (value.def->parent == &at.module()) return value;
  if (!value.def->is<Constant>()) at.unsupported("inside of a branch or loop of TensorFlow 1 is not supported");
  return at.body().capture(value);
}

void Graphs::assign(const Builder& at, const std::string& name, Value value) {
  if (bodies_.empty()) return assign_in_main(at, name, value);
  OpenBody& open = bodies_.back();
  if (&at.module() != &open.body->module())
    at.unsupported("inside of a branch or loop of TensorFlow 1 is not supported");
  if (open.is_condition) at.unsupported("in the condition of a loop is not supported");
  written_.all.insert(name);
  written_.by_body[open.graph].insert(name);
  open.values[name] = value;
}

std::string describe(const Node& node) {
  std::string name = node.name.empty() ? "" : cat(" '", printable(node.name), "'");
  return cat("node ", node.index, name, " (", printable(node.op), ")");
}

Call::Call(Module& module, const Node& node, Values inputs, std::vector<std::optional<DType>> outputs, Graphs& graphs,
           std::vector<bool> pairs)
    : Builder(module),
      node_(node),
      inputs_(std::move(inputs)),
      outputs_(std::move(outputs)),
      graphs_(graphs),
      pairs_(std::move(pairs)),
      asked_(node.attributes.size()) {}

void Call::fail(std::string_view code, std::string what, std::string hint) const {
  throw Error({.kind = ErrorKind::model,
               .code = std::string(code),
               .what = cat(printable(node_.op), " ", what),
               .where = describe(node_),
               .hint = std::move(hint)});
}

void Call::unsupported(std::string what) const {
  throw Error({.kind = ErrorKind::unsupported,
               .code = "E122",
               .what = cat(printable(node_.op), " ", what),
               .where = describe(node_)});
}

void Call::expect_inputs(size_t least, size_t most) const {
  if (inputs_.size() >= least && inputs_.size() <= most) return;
  std::string range = least == most ? cat(least) : cat(least, "-", most);
  fail("E140", cat("needs ", range, " inputs, has ", inputs_.size()));
}

void Call::expect_rank(size_t i, int64_t rank) const {
  if (input(i).rank() != rank)
    fail("E151", cat("needs input ", i, " of rank ", rank, ", has ", input(i).value.shape()));
}

Expr Call::input(size_t i) const {
  if (i >= inputs_.size()) fail("E140", cat("needs input ", i, ", has ", inputs_.size(), " inputs"));
  if (!inputs_[i]) fail("E140", cat("needs input ", i, ", which is not given"));
  if (!inputs_[i].type().is_tensor()) fail("E141", cat("needs a tensor as input ", i, ", has ", inputs_[i].type()));
  return {this, inputs_[i]};
}

Call Call::with(Values inputs) const { return Call(module(), node_, std::move(inputs), outputs_, graphs_); }

DType Call::output_type(size_t i) const {
  if (i >= outputs_.size()) fail("E140", cat("needs output ", i, ", has ", outputs_.size(), " outputs"));
  if (!outputs_[i]) fail("E149", cat("gives a value of a type that Weft does not know"));
  return *outputs_[i];
}

Expr Call::flat(size_t i) const {
  const Shape& shape = input(i).value.shape();
  if (!is_integer(shape.dtype)) fail("E141", cat("needs input ", i, " to be whole numbers, is ", shape));
  constexpr int64_t most = 4096;
  if (!shape.is_static() || shape.elements().value() > most)
    unsupported(cat("input ", i, " holds ", shape.elements(), " numbers; how many must be fixed"));
  return flattened(inputs_[i]);
}

/// Returns an integer tensor as an i64 vector. Flattens the parts of a concatenation along axis 0 separately, so that
/// known elements stay known.
Expr Call::flattened(Value value) const {
  while (value.def->is<Reshape>()) value = value.def->inputs[0];
  const auto* joined = value.def->as<Concat>();
  if (!joined || joined->axis != 0 || value.rank() < 2)
    return reshape(convert(Expr{this, value}, DType::i64), {value.shape().elements()});
  Values parts;
  for (Value part : value.def->inputs) parts.push_back(flattened(part));
  return frontend::concat(*this, parts, 0);
}

Dims Call::sizes(size_t i, int64_t least) const { return sizes_in(module(), flat(i), least); }

Dims Call::sizes_for(Expr x, size_t i) const {
  Expr shape = flat(i);
  return known_contents(shape) ? sizes(i, -1) : frontend::sizes_by_data(x, shape);
}

std::vector<int64_t> Call::numbers(size_t i) const {
  auto contents = known_contents(flat(i));
  if (auto known = contents ? frontend::fixed_numbers(*contents) : std::nullopt) return *known;
  throw Error({.kind = ErrorKind::unsupported,
               .code = "E159",
               .what = cat(printable(node_.op), " input ", i, " gives numbers that are only known when the model runs"),
               .where = describe(node_),
               .hint = "it must be constant"});
}

int64_t Call::number_of(size_t i) const {
  auto all = numbers(i);
  if (all.size() != 1) fail("E140", cat("needs one number in input ", i, ", has ", all.size()));
  return all[0];
}

std::vector<int64_t> Call::axes_in(size_t i, int64_t rank) const {
  std::vector<int64_t> found = numbers(i);
  for (int64_t& a : found) a = axis(a, rank);
  std::ranges::sort(found);
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

std::optional<Tensor> Call::constant(size_t i) const {
  auto* found = input(i).value.def->as<Constant>();
  return found ? std::optional(found->tensor) : std::nullopt;
}

std::optional<std::string> Call::constant_text(size_t i) const {
  auto found = constant(i);
  bool is_text = found && found->dtype == DType::string && found->elements() == 1;
  return is_text ? std::optional((*found->strings)[0]) : std::nullopt;
}

const AttributeValue* Call::find(std::string_view name) const {
  const auto* found = asked_.find(node_.attributes, [](const auto& each) { return each.first; }, name);
  return found ? &found->second : nullptr;
}

template <class T>
const T* Call::get(std::string_view name, bool if_of_type) const {
  const AttributeValue* value = find(name);
  if (!value) return nullptr;
  if (auto* found = std::get_if<T>(value)) return found;
  if (if_of_type) return nullptr;
  fail("E141", cat("has an attribute '", name, "' of another kind"));
}

int64_t Call::integer(std::string_view name) const {
  if (auto* value = get<int64_t>(name)) return *value;
  fail("E142", cat("needs attribute '", name, "'"));
}
int64_t Call::integer(std::string_view name, int64_t fallback) const {
  auto* value = get<int64_t>(name);
  return value ? *value : fallback;
}
bool Call::flag(std::string_view name, bool fallback) const {
  auto* value = get<bool>(name);
  return value ? *value : fallback;
}
double Call::number(std::string_view name, double fallback) const {
  auto* value = get<double>(name);
  return value ? *value : fallback;
}
std::string Call::text(std::string_view name, std::string_view fallback) const {
  auto* value = get<std::string>(name);
  return value ? *value : std::string(fallback);
}
std::vector<int64_t> Call::integers(std::string_view name) const {
  auto* value = get<std::vector<int64_t>>(name);
  return value ? *value : std::vector<int64_t>();
}
std::vector<double> Call::numbers(std::string_view name) const {
  auto* none = get<std::vector<int64_t>>(name, true);  // a list without elements is read as integers
  if (none && none->empty()) return {};
  auto* value = get<std::vector<double>>(name);
  return value ? *value : std::vector<double>();
}
const Sizes& Call::shape(std::string_view name) const {
  if (auto* value = get<Sizes>(name)) return *value;
  fail("E142", cat("needs attribute '", name, "'"));
}
std::optional<DType> Call::type(std::string_view name) const {
  const AttributeValue* value = find(name);
  if (!value) fail("E142", cat("needs attribute '", name, "'"));
  auto* known = std::get_if<DType>(value);
  return known ? std::optional(*known) : std::nullopt;
}
int64_t Call::mode(std::string_view name, std::initializer_list<std::string_view> names) const {
  const AttributeValue* value = find(name);
  if (!value || std::holds_alternative<int64_t>(*value)) return integer(name, 0);
  std::string given = text(name);
  auto found = std::ranges::find(names, given);
  if (found == names.end()) fail("E145", cat(name, " '", printable(given), "' is unknown"));
  return found - names.begin();
}

const Tensor& Call::tensor(std::string_view name) const {
  if (auto* value = get<Tensor>(name)) return *value;
  fail("E142", cat("needs attribute '", name, "'"));
}

void Call::check_attributes() const {
  for (size_t i = 0; i < node_.attributes.size(); ++i) {
    bool is_type = std::holds_alternative<DType>(node_.attributes[i].second);  // types follow from the operands
    if (!asked_.was(i) && !is_type)
      fail("E141", cat("has an attribute '", printable(node_.attributes[i].first), "' that it does not know"));
  }
}

std::vector<Operator> all_operators() {
  std::vector<Operator> all;
  for (auto part :
       {elementwise_operators(), network_operators(), layout_operators(), indexing_operators(), reduction_operators(),
        control_operators(), complex_operators(), full_operators(), list_operators(), selection_operators(),
        text_operators(), recurrent_operators(), matrix_operators(), picture_operators(), quantised_operators()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

Outcome translated(const Operator& op, Call&& call) {
  auto done = [&](Call&& plain) {
    if (!call.has_outputs()) plain.forget_outputs();
    Values values = op.translate(plain);
    plain.check_attributes();
    return values;
  };
  bool has_pairs = false;
  for (size_t i = 0; i < call.input_count(); ++i) has_pairs |= call.has_pairs(i);
  if (!has_pairs || op.pairs == Pairs::known) {
    Values values = op.translate(call);
    call.check_attributes();
    return {values, call.gives_pairs()};
  }
  auto halves = [&](int64_t i) {
    Values own = call.inputs();
    for (size_t k = 0; k < own.size(); ++k) {
      if (call.has_pairs(k)) own[k] = frontend::part({&call, own[k]}, i);
    }
    return own;
  };
  if (op.pairs == Pairs::sizes) return {done(call.with(halves(0)))};
  if (op.steps != Steps::moved && op.pairs != Pairs::apart) call.unsupported("of complex numbers is not supported");
  Values re = done(call.with(halves(0))), im = done(call.with(halves(1))), both;
  for (size_t k = 0; k < re.size(); ++k) both.push_back(frontend::pair_of({{&call, re[k]}, {&call, im[k]}}));
  return {both, true};
}

namespace {

using Names = std::map<std::string_view, Operator>;

Names by_name(std::string_view Operator::* name) {
  Names names;
  for (const Operator& op : all_operators()) {
    if (!(op.*name).empty()) names.emplace(op.*name, op);
  }
  return names;
}

const Operator* find(const Names& names, std::string_view name) {
  auto found = names.find(name);
  return found == names.end() ? nullptr : &found->second;
}

}  // namespace

const Operator* find_lite(std::string_view name) {
  static const Names names = by_name(&Operator::lite);
  return find(names, name);
}

const Operator* find_full(std::string_view name) {
  static const Names names = [] {
    Names all = by_name(&Operator::full);
    for (const FnInfo& fn : all_fns()) {
      if (!fn.tf.empty()) all.try_emplace(fn.tf, Operator{"", fn.tf, by_definition});
    }
    return all;
  }();
  return find(names, name);
}

}  // namespace weft::tensorflow
