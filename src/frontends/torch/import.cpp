// SPDX-License-Identifier: Apache-2.0
#include "frontends/torch/import.h"

#include <algorithm>

#include "base/error.h"
#include "frontends/torch/complex.h"
#include "frontends/torch/importer.h"
#include "frontends/torch/sympy.h"
#include "ir/core_ops.h"
#include "ops/build.h"

namespace weft::torch {
namespace {

constexpr size_t max_shown = 10;

using Table = std::unordered_map<std::string_view, Operator>;

const Table& operators() {
  static const Table table = [] {
    Table all;
    // Only the first entry of a name is kept, so special forms come before the entries made from elementwise.def.
    for (auto part :
         {scalar_operators(), control_operators(), view_operators(), factory_operators(), index_operators(),
          reduction_operators(), network_operators(), attention_operators(), composite_operators(), loss_operators(),
          order_operators(), special_operators(), recurrent_operators(), linear_operators(), quantised_operators(),
          elementwise_operators(), complex_operators(), random_operators()})
      for (const Operator& op : part) all.emplace(op.name, op);
    return all;
  }();
  return table;
}

/// Converts "aten.add_.Tensor" to "aten.add.Tensor"; returns nothing if the operator does not write in place.
std::optional<std::string> functional_name(const std::string& target) {
  size_t dot = target.rfind('.');
  if (!target.starts_with("aten.") || dot == target.npos || dot < 2) return {};
  if (target[dot - 1] != '_' || target[dot - 2] == '_') return {};
  return target.substr(0, dot - 1) + target.substr(dot);
}

const Operator* operator_of(const Node& node) {
  if (const Operator* known = find_operator(node.target)) return known;
  auto functional = functional_name(node.target);
  return functional ? find_operator(*functional) : nullptr;
}

/// Returns the innermost frame outside torch in a stack trace: "model.py:10: y = self.conv(x)".
std::string user_line(std::string_view trace) {
  std::string found;
  std::vector<std::string_view> lines = split(trace, '\n');
  for (size_t i = 0; i < lines.size(); ++i) {
    std::string_view line = trim(lines[i]);
    if (!line.starts_with("File \"") || line.starts_with("File \"torch/")) continue;
    if (line.find("-packages/torch/") != line.npos) continue;
    size_t end = line.find('"', 6), number = line.find("line ");
    if (end == line.npos || number == line.npos) continue;
    std::string_view digits = line.substr(number + 5);
    found = cat(line.substr(6, end - 6), ":", digits.substr(0, digits.find(',')));
    if (i + 1 < lines.size()) found += cat(": ", trim(lines[i + 1]));
  }
  return printable(found);
}

}  // namespace

namespace {

/// Returns the main name of an alias ("absolute" is "abs"), "special_" or "_copy" operator; empty for others. Of views
/// made in place (`x.t_()`), that is the view: x itself, the name of a new view, shows the same memory as before.
std::string plain_name(std::string_view name) {
  static const std::map<std::string_view, std::string_view> others = {
      {"absolute", "abs"},
      {"arccos", "acos"},
      {"arccosh", "acosh"},
      {"arcsin", "asin"},
      {"arcsinh", "asinh"},
      {"arctan", "atan"},
      {"arctanh", "atanh"},
      {"arctan2", "atan2"},
      {"concatenate", "cat"},
      {"detach_", "detach"},
      {"divide", "div"},
      {"fix", "trunc"},
      {"greater", "gt"},
      {"greater_equal", "ge"},
      {"less", "lt"},
      {"less_equal", "le"},
      {"moveaxis", "movedim"},
      {"multiply", "mul"},
      {"negative", "neg"},
      {"not_equal", "ne"},
      {"sgn", "sign"},
      {"squeeze_", "squeeze"},
      {"swapaxes_", "swapaxes"},
      {"swapdims_", "swapdims"},
      {"t_", "t"},
      {"unsqueeze_", "unsqueeze"},
      {"expit", "sigmoid"},
      {"gammaln", "lgamma"},
      {"multigammaln", "mvlgamma"},
      {"psi", "digamma"},
      {"subtract", "sub"},
  };
  constexpr std::string_view prefix = "aten.", special = "special_", copy = "_copy";
  if (!name.starts_with(prefix)) return {};
  std::string_view overload = name.substr(name.rfind('.')), base = name.substr(prefix.size());
  base = base.substr(0, base.rfind('.'));
  bool is_special = base.starts_with(special);
  if (is_special) base.remove_prefix(special.size());
  if (auto other = others.find(base); other != others.end()) return cat(prefix, other->second, overload);
  if (is_special) return cat(prefix, base, overload);
  return base.ends_with(copy) ? cat(prefix, base.substr(0, base.size() - copy.size()), overload) : "";
}

}  // namespace

const Operator* find_operator(std::string_view name) {
  auto found = operators().find(name);
  if (found == operators().end()) found = operators().find(plain_name(name));
  return found == operators().end() ? nullptr : &found->second;
}

std::vector<std::string> supported_operators() {
  std::vector<std::string> names;
  for (const auto& [name, op] : operators()) names.emplace_back(name);
  std::ranges::sort(names);
  return names;
}

std::string describe(const Node& node) {
  std::string name = node.name.empty() ? "" : cat("'", printable(node.name), "' ");
  return cat("node ", node.index, " ", name, "(", printable(node.target), ")");
}

Importer::Importer(const ExportedProgram& exported, const ImportOptions& options, const std::set<std::string>& states)
    : exported_(exported), options_(options), states_(states), program_(std::make_unique<Program>()) {
  program_->name = exported.source;
  program_->metadata = exported.metadata;
}

std::unique_ptr<Program> Importer::run() {
  if (!options_.faults) check_operators(exported_.graph);
  Scope scope{.module = &program_->main(), .graph = &exported_.graph};
  scope_ = &scope;
  bind_inputs();
  add_guards();
  nodes(exported_.graph);
  program_->main().set_results(results());
  return std::move(program_);
}

// ---- Checks of operators, before any node is translated ----

const std::set<std::string>& Importer::read_in(const Graph& graph) {
  auto [found, is_new] = read_.try_emplace(&graph);
  auto add = [&](const Argument& argument) {
    for (const Item& item : argument.items) found->second.insert(item.text);
  };
  for (const Node& node : is_new ? std::span(graph.nodes) : std::span<const Node>())
    for (const NamedArgument& input : node.inputs) add(input.value);
  if (is_new) std::ranges::for_each(graph.outputs, add);
  return found->second;
}

bool Importer::is_missing(const Node& node, const Graph& graph) {
  if (operator_of(node)) return false;
  auto is_read = [&](const Item& item) { return read_in(graph).contains(item.text); };
  bool is_out = node.target.find("out", node.target.rfind('.')) != node.target.npos;  // as in aten.add.out
  bool writes = node.outputs.empty() || functional_name(node.target) || is_out;
  return writes ||
         std::ranges::any_of(node.outputs, [&](auto& output) { return std::ranges::any_of(output.items, is_read); });
}

void Importer::check_operators(const Graph& graph) {
  std::map<std::string, std::vector<const Node*>> missing;
  auto collect = [&](const Graph& of) {
    for (const Node& node : of.nodes)
      if (is_missing(node, of)) missing[node.target].push_back(&node);
  };
  collect(graph);
  std::ranges::for_each(exported_.subgraphs, collect);
  if (missing.empty()) return;
  ErrorInfo all{.kind = ErrorKind::unsupported, .code = "E120"};
  size_t shown = 0;
  for (const auto& [target, nodes] : missing) {
    std::string times = nodes.size() > 1 ? cat(", used ", nodes.size(), " times") : "";
    std::string line = user_line(nodes[0]->stack_trace);
    std::string what = cat("op ", printable(target), " is unknown to Weft", times);
    if (shown == 0) all.what = what, all.where = cat(describe(*nodes[0]), line.empty() ? "" : ", ", line);
    else if (shown < max_shown) all.why += cat(shown == 1 ? "" : "\n   ", what, " (", describe(*nodes[0]), ")");
    ++shown;
  }
  if (shown > max_shown) all.why += cat("\n   and ", shown - max_shown, " more");
  all.hint = "ep = ep.run_decompositions() before torch.export.save writes the program with fewer operators";
  throw Error(std::move(all));
}

// ---- Inputs ----

namespace {

/// Returns a complex tensor as a tensor of pairs, which has the same bytes.
Tensor in_pairs(Tensor tensor) {
  if (!is_complex(tensor.dtype)) return tensor;
  tensor.dtype = part_type(tensor.dtype);
  tensor.dims.push_back(2);
  return tensor;
}

}  // namespace

Dim Importer::size_of(const Size& size) {
  if (size.number) return *size.number;
  return parse_size(size.expression, [&](std::string_view name) {
    if (auto known = options_.symbols.find(std::string(name)); known != options_.symbols.end()) {
      program_->symbol(known->second);
      return known->second;
    }
    Symbol symbol{.name = std::string(name)};
    if (auto range = exported_.ranges.find(symbol.name); range != exported_.ranges.end()) {
      symbol.min = range->second.min.value_or(INT64_MIN);  // an integer among the arguments may be negative
      symbol.max = range->second.max.value_or(INT64_MAX);
    }
    program_->symbol(symbol);
    return symbol;
  });
}

Type Importer::type_of(const TensorMeta& meta) {
  Dims dims;
  for (const Size& size : meta.sizes) dims.push_back(size_of(size));
  if (is_complex(meta.dtype)) dims.push_back(2);
  return Shape{part_type(meta.dtype), dims};
}

/// Returns the declared type of `input`, which is a name, or "flat_args_2" for the third argument of the model.
Type Importer::declared_type(const std::string& input) {
  int argument = 0;
  for (const Input& known : exported_.inputs) {
    bool is_user = known.kind == Input::Kind::user, is_argument = is_user || known.kind == Input::Kind::constant;
    bool is_it =
        (is_user ? known.name : known.target) == input || (is_argument && cat("flat_args_", argument++) == input);
    auto meta = exported_.graph.tensors.find(known.name);
    if (is_it && meta != exported_.graph.tensors.end()) return type_of(meta->second);
  }
  throw Error({.kind = ErrorKind::model, .code = "E134", .what = cat("input '", printable(input), "' has no type")});
}

void Importer::check_constant(const Input& input, const std::string& name, const Tensor& value) {
  auto meta = exported_.graph.tensors.find(input.name);
  if (meta == exported_.graph.tensors.end()) return;
  Shape declared = type_of(meta->second).shape;
  bool fits = declared.dtype == value.dtype && declared.rank() == std::ssize(value.dims);
  for (size_t a = 0; fits && a < value.dims.size(); ++a) fits = !known_different(declared.dims[a], value.dims[a]);
  if (fits) return;
  throw Error({.kind = ErrorKind::usage,
               .code = "E310",
               .what = cat("input '", printable(name), "' is ", declared, ", the value for it ", value.shape())});
}

void Importer::bind_inputs() {
  for (const Input& input : exported_.inputs) {
    auto meta = exported_.graph.tensors.find(input.name);
    if (meta == exported_.graph.tensors.end() || options_.constants.contains(input.name)) continue;
    for (const Dim& size : type_of(meta->second).shape.dims)
      size.visit_symbols([&](const Symbol& symbol) { known_sizes_.insert(symbol.name); });
  }
  for (bool is_user : {true, false}) {  // first the inputs that callers must give
    for (size_t i = 0; i < exported_.inputs.size(); ++i)
      if ((exported_.inputs[i].kind == Input::Kind::user) == is_user)
        bind_input(exported_.inputs[i], exported_.graph.inputs[i]);
  }
}

void Importer::bind_input(const Input& input, const Argument& argument) {
  if (input.kind == Input::Kind::constant) return;
  Module& main = program_->main();
  bool is_user = input.kind == Input::Kind::user;
  const std::string& name = is_user ? input.name : input.target;
  Entry& entry = scope_->names[input.name];
  if (argument.kind == Argument::Kind::scalar) {  // a size: known from the inputs' sizes, else a separate input
    auto size = exported_.graph.sizes.find(input.name);
    if (size == exported_.graph.sizes.end())
      throw Error({.kind = ErrorKind::model, .code = "E108", .what = cat("input '", printable(name), "' has no size")});
    Dim value = size_of(size->second);
    if (const Symbol* symbol = value.as_symbol(); symbol && !known_sizes_.contains(symbol->name))
      value = sizes_in(main, main.parameter(name, Shape{DType::i64, {}}), symbol->min)[0];
    entry.binding.scalar = Operand{.kind = Operand::Kind::integer, .integer = value};
    return;
  }
  state_names_[input.name] = name;
  auto weight = exported_.weights.find(input.target);
  auto declared = exported_.graph.tensors.find(input.name);
  entry.binding.is_complex = declared != exported_.graph.tensors.end() && is_complex(declared->second.dtype);
  auto constant = options_.constants.find(name);
  if (constant != options_.constants.end()) {
    check_constant(input, name, constant->second);
    entry.binding.tensor = main.append(Constant{constant->second}, {});
    return;
  }
  if (!is_user && weight != exported_.weights.end() && !states_.contains(name)) {
    entry.binding.tensor = main.append(Constant{in_pairs(weight->second)}, {});
    return;
  }
  if (declared == exported_.graph.tensors.end())
    throw Error({.kind = ErrorKind::model, .code = "E134", .what = cat("input '", printable(name), "' has no type")});
  entry.binding.tensor = main.parameter(name, type_of(declared->second));
  if (!is_user && weight != exported_.weights.end()) program_->defaults[name] = in_pairs(weight->second);
}

void Importer::require(const Relation& relation, std::string_view what) {
  GuardCollector guards(program_->main());
  using enum Relation::Kind;
  const auto& [kind, a, b] = relation;
  if (kind == equal) require_equal(a, b, what);
  else if (kind == less_equal) require_less_equal(a, b, what);
  else if (!known_different(a, b)) require_less_equal(1, max(a - b, b - a), what);
}

/// Adds guards for the conditions on input sizes that torch assumed when it exported the program.
void Importer::add_guards() {
  constexpr std::string_view what = "the sizes that the program was exported for";
  for (const auto& [text, range] : exported_.ranges) {
    auto is_letter = [](unsigned char c) { return std::isalnum(c) || c == '_'; };
    if (std::ranges::all_of(text, is_letter)) continue;  // a symbol has its bounds already
    Dim size = size_of({.expression = text});
    if (range.min) require({Relation::Kind::less_equal, *range.min, size}, what);
    if (range.max) require({Relation::Kind::less_equal, size, *range.max}, what);
  }
  auto sizes_of = [&](const std::string& input) { return declared_type(input).shape.dims; };
  for (const std::string& guard : exported_.guards) require(parse_relation(guard, sizes_of), what);
}

// ---- Nodes ----

void Importer::nodes(const Graph& graph) {
  for (const Node& each : graph.nodes) {
    if (!operator_of(each) && !is_missing(each, graph)) continue;
    try {
      node(each);
    } catch (const Error& error) {
      if (!options_.faults || scope_->graph != &exported_.graph) throw;
      options_.faults->push_back({each.index, error.info().what});
      for (const Argument& output : each.outputs)
        for (const Item& item : output.items) scope_->names[item.text].has_failed = true;
    }
  }
}

void Importer::node(const Node& node) {
  SourceScope source(*scope_->module, describe(node));
  try {
    translate_node(node);
  } catch (const Error& error) {
    ErrorInfo info = error.info();
    if (info.where.empty()) info.where = describe(node);
    std::string line = user_line(node.stack_trace);
    if (!line.empty() && info.why.find(line) == info.why.npos)
      info.why += cat(info.why.empty() ? "" : "\n   ", "at ", line);
    throw Error(std::move(info));
  }
}

void Importer::translate_node(const Node& node) {
  Call c(*this, *scope_->module, node);
  bool is_in_place = !find_operator(node.target) && functional_name(node.target);
  if (is_in_place) return mutate(c);
  Entry* base = viewed(c);
  bind_outputs(c, translate(c), base);
}

Values Importer::translate(Call& c) {
  const Operator* op = operator_of(c.node());
  if (!op)
    throw Error({.kind = ErrorKind::unsupported,
                 .code = "E120",
                 .what = cat("op ", printable(c.node().target), " is unknown to Weft")});
  GuardCollector guards(c.module());
  Values values = is_of_complex(c) ? by_parts(c, *op) : op->translate(c);
  c.check_arguments();
  return values;
}

/// True if the node reads complex numbers or its first result is complex.
bool Importer::is_of_complex(const Call& c) {
  auto is_read = [&](const NamedArgument& argument) {
    return argument.value.kind == Argument::Kind::tensor &&
           std::ranges::any_of(argument.value.items, [&](const Item& item) {
             return item.kind == Item::Kind::name && read(c, item.text).is_complex;
           });
  };
  return is_complex(declared_result(c, 0).value_or(DType::f32)) || std::ranges::any_of(c.node().inputs, is_read);
}

Value Importer::part_of(const Call& c, const Binding& bound) const {
  Expr x = c.expr(bound.tensor);
  if (!bound.is_complex)
    return part_ == 1 && is_float(x.dtype()) ? frontend::full(c, x.dtype(), x.dims(), 0).value : bound.tensor;
  if (!part_) c.unsupported("of complex numbers is not supported");
  Dims dims(x.dims().begin(), x.dims().end() - 1);
  return reshape(slice(x, x.rank() - 1, *part_, 1), dims);
}

/// Translates an operator on complex numbers: with its own function, or with the function for real numbers, applied to
/// the real and then to the imaginary parts.
Values Importer::by_parts(Call& c, const Operator& op) {
  if (const Operator* own = find_complex_operator(op.name)) return own->translate(c);
  if (!goes_by_parts(op.name)) c.unsupported("of complex numbers is not supported");
  std::array<Values, 2> parts;
  for (int64_t i : {0, 1}) {
    part_ = i;
    try {
      parts[i] = op.translate(c);
    } catch (...) {
      part_.reset();
      throw;
    }
    part_.reset();
    if (parts[0].empty()) return {};  // the operator returns sizes
  }
  Values joined;
  for (size_t i = 0; i < parts[0].size(); ++i) {
    auto column = [&](const Values& part) { return with_last_axis(c.expr(part[i])).value; };
    joined.push_back(frontend::concat(c, {column(parts[0]), column(parts[1])}, parts[0][i].shape().rank()));
  }
  return joined;
}

/// Returns the tensor that the node's result is, or may be, a view of; null if there is none.
Entry* Importer::viewed(const Call& c) {
  if (sharing_of(c) == Sharing::none || c.node().inputs.empty()) return nullptr;
  const Argument& self = c.node().inputs[0].value;
  return self.kind == Argument::Kind::tensor && !self.is_list ? &entry_of(c, self.items[0].text) : nullptr;
}

void Importer::check_type(const Call& c, const std::string& name, Value value) const {
  auto meta = scope_->graph->tensors.find(name);
  if (meta == scope_->graph->tensors.end()) return;
  const TensorMeta& said = meta->second;
  bool fits = part_type(said.dtype) == value.dtype() && std::ssize(said.sizes) + is_complex(said.dtype) == value.rank();
  for (size_t a = 0; fits && a < said.sizes.size(); ++a)
    fits = !said.sizes[a].number || !known_different(value.dims()[a], *said.sizes[a].number);
  if (fits) return;
  std::vector<std::string> sizes;
  for (const Size& size : said.sizes) sizes.push_back(size.number ? cat(*size.number) : size.expression);
  c.fail("E151", cat("gives ", value.shape(), ", and the program says ", said.dtype, sizes));
}

void Importer::bind_output(const Item& item, Binding binding, Entry* base, const Node& node, size_t result) {
  Entry& entry = scope_->names[item.text];
  if (entry.binding.tensor || entry.binding.scalar)
    throw Error({.kind = ErrorKind::model, .code = "E131", .what = cat("'", printable(item.text), "' is made twice")});
  entry.binding = std::move(binding);
  if (!base) return;
  entry.base = base, entry.node = &node, entry.result = result;
  Entry* root = base;
  while (root->base) root = root->base;
  entry.version = root->version;
}

void Importer::bind_outputs(Call& c, const Values& values, Entry* base) {
  size_t tensors = 0, others = 0;
  for (const Argument& output : c.node().outputs) {
    for (const Item& item : output.items) {
      if (item.kind != Item::Kind::name) continue;
      bool is_tensor = output.kind == Argument::Kind::tensor;
      bool is_absent = is_tensor ? tensors >= values.size() || !values[tensors] : others >= c.given().size();
      bool is_read = read_in(*scope_->graph).contains(item.text);
      if (is_absent && tensors > 0 && !is_read) {  // a result that only gradients need
        ++(is_tensor ? tensors : others);
        continue;
      }
      if (is_absent) c.unsupported(cat("gives no output '", printable(item.text), "'"));
      if (!is_tensor) {
        bind_output(item, c.given()[others++], nullptr, c.node(), 0);
        continue;
      }
      // Programs of torch before 2.13 declare some types wrongly: for `unique` the indices and counts
      // have the type of the values; the states of an LSTM have one axis too many.
      std::string_view target = c.node().target;
      bool is_of_set = target.starts_with("aten._unique") && values[tensors].dtype() == DType::i64;
      bool is_misnoted = tensors > 0 && (is_of_set || target.starts_with("aten.lstm."));
      if (is_read && !is_misnoted) check_type(c, item.text, values[tensors]);
      auto noted = scope_->graph->tensors.find(item.text);
      bool is_pair = noted != scope_->graph->tensors.end() && is_complex(noted->second.dtype);
      bind_output(item, {.tensor = values[tensors], .is_complex = is_pair}, base, c.node(), tensors);
      if (base) scope_->names[item.text].may_be_copy = sharing_of(c) == Sharing::perhaps;
      ++tensors;
    }
  }
}

// ---- Writes in place ----

Entry& Importer::entry_of(const Call& c, const std::string& name) {
  auto found = scope_->names.find(name);
  if (found == scope_->names.end()) c.fail("E132", cat("reads '", printable(name), "', which nothing makes"));
  if (found->second.has_failed) c.fail("E132", "is not checked: it reads an unsupported node before it");
  return found->second;
}

void Importer::refresh(const Call& c, Entry& entry) {
  if (!entry.base) return;
  Entry* root = entry.base;
  while (root->base) root = root->base;
  if (entry.version == root->version) return;
  refresh(c, *entry.base);
  if (entry.may_be_copy)
    c.unsupported(
        cat("reads what ", describe(*entry.node),
            " made of a tensor that was written in place since, and its strides decide whether it is a view"));
  entry.version = root->version;
  if (!entry.node) {
    entry.binding.tensor = entry.base->binding.tensor;
    return;
  }
  Call again(*this, *scope_->module, *entry.node);
  entry.binding.tensor = translate(again).at(entry.result);
}

const Binding& Importer::read(const Call& c, const std::string& name) {
  Entry& entry = entry_of(c, name);
  refresh(c, entry);
  return entry.binding;
}

void Importer::write(const Call& c, Entry& entry, Value value) {
  if (!entry.base) {
    entry.binding.tensor = value;
    ++entry.version;
    return;
  }
  refresh(c, *entry.base);
  Value whole = value;
  if (entry.node) {
    if (entry.binding.is_complex || entry.base->binding.is_complex)
      c.unsupported(cat("writes to what ", describe(*entry.node), " made of complex numbers"));
    if (entry.may_be_copy)
      c.unsupported(
          cat("writes to what ", describe(*entry.node), " made, and its strides decide whether it is a view"));
    Call view(*this, *scope_->module, *entry.node);
    whole = written_through(view, c.expr(entry.base->binding.tensor), c.expr(value), entry.result);
  }
  write(c, *entry.base, whole);
  Entry* root = entry.base;
  while (root->base) root = root->base;
  entry.version = root->version;
  entry.binding.tensor = value;
}

/// Translates an in-place operator such as add_: runs add and writes the result to the first argument.
void Importer::mutate(Call& c) {
  const Argument& self = c.node().inputs.empty() ? Argument{} : c.node().inputs[0].value;
  if (self.kind != Argument::Kind::tensor || self.is_list) c.unsupported("writes to a value that is not a tensor");
  Entry& target = entry_of(c, self.items[0].text);
  refresh(c, target);
  Value before = target.binding.tensor;
  Values made = translate(c);
  if (made.empty()) c.unsupported("gives no result to write");
  Expr value = convert(c.expr(made[0]), before.dtype());
  write(c, target, broadcast(value, before.dims()));
  for (const Argument& output : c.node().outputs) {
    if (output.kind != Argument::Kind::tensor || output.is_list)
      c.unsupported("returns more than the tensor that it writes");
    bind_output(output.items[0], target.binding, &target, c.node(), 0);
    scope_->names[output.items[0].text].node = nullptr;
  }
}

const TensorMeta* Importer::meta_of(const Call& c, std::string_view argument) const {
  auto named = std::ranges::find(c.node().inputs, argument, &NamedArgument::name);
  if (named == c.node().inputs.end() || named->value.items.empty()) return nullptr;
  auto meta = scope_->graph->tensors.find(named->value.items[0].text);
  return meta == scope_->graph->tensors.end() ? nullptr : &meta->second;
}

Dim Importer::offset_of(const Call& c, std::string_view argument) {
  const TensorMeta* meta = meta_of(c, argument);
  return meta ? size_of(meta->offset) : 0;
}

bool Importer::is_row_major(const Call& c, std::string_view argument) const {
  const TensorMeta* meta = meta_of(c, argument);
  if (!meta) return false;
  const TensorMeta& of = *meta;
  int64_t dense = 1;
  for (size_t a = of.sizes.size(); a-- > 0;) {
    if (of.sizes[a].number == 1) continue;
    if (of.strides[a].number != dense) return false;
    if (!of.sizes[a].number) return a == 0;
    dense *= *of.sizes[a].number;
  }
  return true;
}

std::optional<DType> Importer::declared_result(const Call& c, size_t i) const {
  const std::vector<Argument>& outputs = c.node().outputs;
  if (i >= outputs.size() || outputs[i].items.empty()) return {};
  auto meta = scope_->graph->tensors.find(outputs[i].items[0].text);
  return meta == scope_->graph->tensors.end() ? std::nullopt : std::optional(meta->second.dtype);
}

Values Importer::inlined(const frontend::Builder& c, const Graph& body, const std::vector<Binding>& inputs) {
  if (body.inputs.size() != inputs.size())
    c.fail("E158", cat("gives ", inputs.size(), " operands to a body of ", body.inputs.size(), " inputs"));
  Scope inner{.module = &c.module(), .graph = &body};
  for (size_t i = 0; i < inputs.size(); ++i)
    for (const Item& item : body.inputs[i].items) inner.names[item.text].binding = inputs[i];
  Scope* outer = std::exchange(scope_, &inner);
  Values values;
  try {
    nodes(body);
    for (const Argument& output : body.outputs) values.push_back(output_value(output));
    for (const Argument& input : body.inputs)
      for (const Item& item : input.items)
        if (inner.names[item.text].version > 0) c.unsupported("has a body that writes to its inputs in place");
  } catch (...) {
    scope_ = outer;
    throw;
  }
  scope_ = outer;
  return values;
}

// ---- Results ----

Value Importer::output_value(const Argument& argument) {
  const Item& item = argument.items.at(0);
  Module& module = *scope_->module;
  Node end;
  end.target = "output", end.index = std::ssize(scope_->graph->nodes);
  Call c(*this, module, end);
  if (item.kind != Item::Kind::name) {
    if (item.kind == Item::Kind::text) c.unsupported("is a text, which is not supported");
    bool is_number = item.kind == Item::Kind::number;
    Operand value{.kind = is_number ? Operand::Kind::number : Operand::Kind::integer,
                  .integer = item.integer,
                  .number = item.number};
    return value.as(c, is_number ? DType::f64 : item.kind == Item::Kind::flag ? DType::boolean : DType::i64);
  }
  const Binding& bound = read(c, item.text);
  if (bound.tensor) return bound.tensor;
  if (!bound.scalar) c.unsupported(cat("'", printable(item.text), "' is a condition on sizes"));
  return bound.scalar->as(c, bound.scalar->kind == Operand::Kind::number ? DType::f64 : DType::i64);
}

std::string Importer::result_name(std::string wanted) {
  std::string name = wanted;
  for (int64_t i = 1; !result_names_.insert(name).second; ++i) name = cat(wanted, "_", i);
  return name;
}

std::vector<Result> Importer::results() {
  std::vector<Result> results;
  for (const Value& parameter : program_->main().parameters())
    result_names_.insert(parameter.def->as<Parameter>()->parameter);
  auto add = [&](const Argument& argument, std::string name) {
    if (argument.is_none() || argument.kind == Argument::Kind::text) return;  // None, or a string
    try {
      results.push_back({result_name(std::move(name)), output_value(argument)});
    } catch (const Error&) {
      if (!options_.faults) throw;
    }
  };
  std::set<std::string> returned;
  for (const Output& output : exported_.outputs) {
    if (!output.mutated.empty()) {
      auto same = [&](const auto& input) { return input.second == output.mutated; };
      auto input = std::ranges::find_if(state_names_, same);
      if (input != state_names_.end()) returned.insert(input->first), changed_.insert(output.mutated);
    }
    std::string text = output.value.items.empty() ? "output" : output.value.items[0].text;
    add(output.value, !output.mutated.empty() ? output.mutated + ".next" : text.empty() ? "output" : text);
  }
  for (const Input& input : exported_.inputs) {
    auto entry = scope_->names.find(input.name);
    if (entry == scope_->names.end() || entry->second.version == 0 || returned.contains(input.name)) continue;
    const std::string& name = state_names_[input.name];
    changed_.insert(name);
    add({.kind = Argument::Kind::tensor, .items = {{.kind = Item::Kind::name, .text = input.name}}}, name + ".next");
  }
  return results;
}

Type declared_type(const ExportedProgram& exported, const std::string& input) {
  ImportOptions plain;
  return Importer(exported, plain, {}).declared_type(input);
}

std::unique_ptr<Program> import_exported(const ExportedProgram& exported, const ImportOptions& options) {
  Importer first(exported, options, {});
  auto program = first.run();
  auto is_weight = [&](const std::string& name) { return exported.weights.contains(name); };
  if (std::ranges::none_of(first.changed(), is_weight)) return program;
  if (options.faults) options.faults->clear();
  return Importer(exported, options, first.changed()).run();
}

}  // namespace weft::torch
