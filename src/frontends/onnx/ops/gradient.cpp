// SPDX-License-Identifier: Apache-2.0
// Gradient (ai.onnx.preview.training): the derivatives of value `y` by values `xs`, in reverse mode over the
// instructions between them (Griewank and Walther, "Evaluating Derivatives", 2008, section 3.2). These instructions are
// copied, with the node's inputs in place of the values that `xs` and `zs` name. A later pass merges equal
// instructions.
#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>

#include "frontends/onnx/import/expr.h"
#include "frontends/onnx/import/importer.h"
#include "ir/control.h"
#include "ops/reduce.h"
#include "ops/views.h"

namespace weft::onnx {
namespace {

/// The reverse-mode rule of an operator, which computes the operands' derivatives from g, the derivative of the result.
struct Rule {
  Call& c;
  const Instruction& i;
  Expr g;

  Expr in(size_t k) const { return {&c, i.inputs[k]}; }
  Expr out() const { return {&c, Value{const_cast<Instruction*>(&i), 0}}; }

  /// Returns the derivative of each operand, null if it is 0; nothing if there is no rule.
  std::optional<Values> apply() const {
    if (i.types.size() != 1) return std::nullopt;
    if (const auto* op = i.as<Elementwise>()) return elementwise(op->fn);
    if (i.is<Convert>()) return Values{is_float(in(0).dtype()) ? convert(g, in(0).dtype()).value : Value{}};
    if (i.is<Reshape>()) return Values{reshape(g, in(0).dims())};
    if (const auto* op = i.as<Transpose>()) return Values{transpose(g, inverse_of(op->permutation))};
    if (i.is<Broadcast>()) return Values{summed_to(in(0).dims())};
    if (const auto* op = i.as<Concat>()) return concat_parts(op->axis);
    if (const auto* op = i.as<Slice>()) return slice_place(*op);
    if (const auto* op = i.as<Reduce>()) return reduced(*op);
    if (const auto* op = i.as<Softmax>()) return softmax(*op);
    if (i.is<Dot>()) return Values{matmul(g, swap_last(in(1))), matmul(swap_last(in(0)), g)};
    return std::nullopt;
  }

  std::optional<Values> elementwise(Fn fn) const {
    if (i.inputs.size() == 1) return unary(fn);
    if (fn == Fn::select) return Values{{}, select(in(0), g, 0), select(in(0), 0, g)};
    Expr a = in(0), b = in(1);
    switch (fn) {
      case Fn::add: return Values{g, g};
      case Fn::sub: return Values{g, -g};
      case Fn::mul: return Values{g * b, g * a};
      case Fn::div: return Values{g / b, -(g * out()) / b};
      case Fn::pow: return Values{g * b * pow(a, b - 1.0), select(a > 0, g * out() * log(a), 0)};
      case Fn::min: return Values{select(a <= b, g, 0), select(a <= b, 0, g)};
      case Fn::max: return Values{select(a >= b, g, 0), select(a >= b, 0, g)};
      default: return std::nullopt;
    }
  }

  std::optional<Values> unary(Fn fn) const {
    Expr x = in(0), y = out();
    switch (fn) {
      case Fn::neg: return Values{-g};
      case Fn::abs: return Values{g * sign(x)};
      case Fn::reciprocal: return Values{-(g * y * y)};
      case Fn::sqrt: return Values{g * 0.5 / y};
      case Fn::rsqrt: return Values{g * -0.5 * y / x};
      case Fn::exp: return Values{g * y};
      case Fn::expm1: return Values{g * (y + 1.0)};
      case Fn::log: return Values{g / x};
      case Fn::log1p: return Values{g / (x + 1.0)};
      case Fn::sin: return Values{g * cos(x)};
      case Fn::cos: return Values{-(g * onnx::apply(Fn::sin, x))};
      case Fn::tan: return Values{g * (y * y + 1.0)};
      case Fn::asin: return Values{g * rsqrt(1.0 - x * x)};
      case Fn::acos: return Values{-(g * rsqrt(1.0 - x * x))};
      case Fn::atan: return Values{g / (x * x + 1.0)};
      case Fn::sinh: return Values{g * onnx::apply(Fn::cosh, x)};
      case Fn::cosh: return Values{g * onnx::apply(Fn::sinh, x)};
      case Fn::tanh: return Values{g * (1.0 - y * y)};
      case Fn::erf: return Values{g * exp(-(x * x)) * (2 * std::numbers::inv_sqrtpi)};
      case Fn::sigmoid: return Values{g * y * (1.0 - y)};
      case Fn::relu: return Values{select(x > 0, g, 0)};
      case Fn::sign:
      case Fn::floor:
      case Fn::ceil:
      case Fn::round:
      case Fn::trunc: return Values{zero_like(x)};
      default: return std::nullopt;
    }
  }

  Value zero_like(Expr x) const { return full(c, x.dtype(), x.dims(), 0); }

  /// Returns g summed over the axes along which an operand of sizes `dims` was broadcast.
  Value summed_to(const Dims& dims) const {
    Dims from = g.dims();
    std::vector<int64_t> axes;
    size_t added = from.size() - dims.size();
    for (size_t k = 0; k < from.size(); ++k) {
      if (k < added || (known_equal(dims[k - added], 1) && !known_equal(from[k], 1)))
        axes.push_back(static_cast<int64_t>(k));
    }
    return reshape(axes.empty() ? g : reduce(ReduceFn::sum, g, axes), dims);
  }

  Values concat_parts(int64_t axis) const {
    Values parts;
    Dim at = 0;
    for (size_t k = 0; k < i.inputs.size(); ++k) {
      Dim size = in(k).dims()[axis];
      parts.push_back(slice(g, axis, at, size));
      at = at + size;
    }
    return parts;
  }

  std::optional<Values> slice_place(const Slice& op) const {
    if (!std::ranges::all_of(op.steps, [](int64_t step) { return step == 1; })) return std::nullopt;
    Pad pad{.before = op.starts, .after = {}};
    for (size_t k = 0; k < op.sizes.size(); ++k) pad.after.push_back(in(0).dims()[k] - op.starts[k] - op.sizes[k]);
    return Values{c.emit(pad, {g, number(c, g.dtype(), 0)})};
  }

  std::optional<Values> reduced(const Reduce& op) const {
    if (op.fn != ReduceFn::sum && op.fn != ReduceFn::mean) return std::nullopt;
    Dims kept = in(0).dims();
    Dim count = 1;
    for (int64_t axis : op.axes) {
      count = count * kept[axis];
      kept[axis] = 1;
    }
    Expr share = g;
    if (op.fn == ReduceFn::mean) share = g / scalar(c, count, g.dtype());
    return Values{broadcast(reshape(share, kept), in(0).dims())};
  }

  Values softmax(const Softmax& op) const {
    Expr y = out();
    if (op.logarithm) return {g - exp(y) * reduce(ReduceFn::sum, g, {op.axis})};
    return {(g - reduce(ReduceFn::sum, g * y, {op.axis})) * y};
  }
};

/// Returns the value of this graph that an attribute names.
Value named_value(Call& c, const std::string& name) {
  Value value = c.importer().find(c.scope(), name);
  if (!value) c.fail("E132", cat("names '", printable(name), "', which no node before it makes"));
  if (value.def->parent != &c.module()) c.unsupported("of a value of the graph around it is not supported");
  return value;
}

/// Returns the instructions that depend on `from` and that `y` depends on, in order.
std::vector<Instruction*> between(Module& module, const Values& from, Value y) {
  std::vector<bool> follows(module.id_limit());
  for (Value x : from) follows[x.def->id] = true;
  std::vector<Instruction*> list;
  for (Instruction& i : module) {
    bool reads = std::ranges::any_of(i.inputs, [&](Value v) { return follows[v.def->id]; });
    if (!follows[i.id] && reads) list.push_back(&i);
    follows[i.id] = follows[i.id] || reads;
  }
  std::vector<bool> needed(module.id_limit());
  needed[y.def->id] = true;
  std::vector<Instruction*> way;
  for (auto at = list.rbegin(); at != list.rend(); ++at) {
    if (!needed[(*at)->id]) continue;
    way.push_back(*at);
    for (Value input : (*at)->inputs) needed[input.def->id] = true;
  }
  std::ranges::reverse(way);
  return way;
}

using Replaced = std::map<std::pair<const Instruction*, uint32_t>, Value>;

Value replaced(const Replaced& by, Value value) {
  auto found = by.find({value.def, value.index});
  return found == by.end() ? value : found->second;
}

Values gradient(Call& c) {
  std::vector<std::string> names = c.strings("xs"), others = c.strings("zs");
  size_t count = names.size();
  names.insert(names.end(), others.begin(), others.end());
  if (count == 0) c.fail("E142", "needs attribute 'xs'");
  c.expect_inputs(names.size(), names.size());
  Value y = named_value(c, c.text("y"));
  Values from;
  Replaced now;
  for (size_t k = 0; k < names.size(); ++k) {
    for (size_t j = 0; j < k; ++j) {
      if (c.input(j) == c.input(k)) c.unsupported("with one value in two places is not supported");
    }
    from.push_back(named_value(c, names[k]));
    now[{from[k].def, from[k].index}] = c.input(k);
  }
  std::vector<Instruction*> written;
  for (Instruction* i : between(c.module(), from, y)) {
    if (!i->modules.empty() || sets_symbols(*i))
      c.unsupported(cat("through ", display_name(i->op), " of ", i->source, " is not supported"));
    Values inputs;
    for (Value input : i->inputs) inputs.push_back(replaced(now, input));
    SourceScope source(c.module(), i->source);
    Value first = c.module().append(i->op, inputs);
    written.push_back(first.def);
    for (uint32_t k = 0; k < i->types.size(); ++k) now.try_emplace({i, k}, Value{first.def, k});
  }
  Replaced sums;  // the derivative of y by each value
  auto add = [&](Value value, Value more) {
    auto [sum, is_first] = sums.try_emplace({value.def, value.index}, more);
    if (!is_first) sum->second = Expr{&c, sum->second} + Expr{&c, more};
  };
  Value end = replaced(now, y);
  add(end, full(c, end.dtype(), end.dims(), 1));
  for (auto at = written.rbegin(); at != written.rend(); ++at) {
    auto sum = sums.find({*at, 0});
    if (sum == sums.end() || !is_float((*at)->types[0].shape.dtype)) continue;
    auto parts = Rule{c, **at, {&c, sum->second}}.apply();
    if (!parts) c.unsupported(cat("through ", display_name((*at)->op), " of ", (*at)->source, " is not supported"));
    for (size_t k = 0; k < parts->size(); ++k) {
      if ((*parts)[k]) add((*at)->inputs[k], (*parts)[k]);
    }
  }
  Values results;
  for (size_t k = 0; k < count; ++k) {
    auto sum = sums.find({c.input(k).def, c.input(k).index});
    Value x = c.input(k);
    results.push_back(sum == sums.end() ? full(c, x.dtype(), x.dims(), 0).value : sum->second);
  }
  return results;
}

constexpr Operator gradient_table[] = {
    {"ai.onnx.preview.training", "Gradient", gradient,
     "through arithmetic, functions of elements but few, views, sums, means, softmax and matrix products"},
};

}  // namespace

std::span<const Operator> gradient_operators() { return gradient_table; }

}  // namespace weft::onnx
