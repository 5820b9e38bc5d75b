// SPDX-License-Identifier: Apache-2.0
// Imports Python's arithmetic on sizes, and the program's assertions about them.
#include <algorithm>
#include <cmath>

#include "frontends/torch/importer.h"
#include "frontends/torch/promote.h"
#include "ops/build.h"

namespace weft::torch {
namespace {

Values give(Call& c, Operand result) {
  c.give({.scalar = std::move(result)});
  return {};
}
Values give_size(Call& c, Dim size) { return give(c, {.kind = Operand::Kind::integer, .integer = std::move(size)}); }

Values size_of(Call& c) {
  Expr x = c.tensor("self");
  return give_size(c, size_at(x, c.axis_of("dim", x.rank())));
}

Values number_of_elements(Call& c) { return give_size(c, c.tensor("self").value.shape().elements()); }

/// Returns the name of argument i; argument names of Python's operators differ, so arguments are read by position.
std::string_view named(Call& c, size_t i) {
  if (i >= c.node().inputs.size()) c.fail("E140", cat("needs operand ", i, ", has ", c.node().inputs.size()));
  return c.node().inputs[i].name;
}

template <class F>
Values on_sizes(Call& c, F f) {
  Dim a = c.size(named(c, 0)), b = c.size(named(c, 1));
  return give_size(c, f(a, b));
}

bool is_whole(const Operand& x) { return x.kind != Operand::Kind::number && !x.tensor; }

/// Computes f in f64, as Python does. The result is a number, or a tensor if an operand is known at run time only.
template <class F>
Values on_floats(Call& c, F f) {
  Operand a = c.operand(named(c, 0)), b = c.operand(named(c, 1)), result{.kind = Operand::Kind::number};
  if (a.is_constant() && b.is_constant()) result.number = f(a.value(), b.value());
  else result.tensor = f(a.as(c, DType::f64), b.as(c, DType::f64)).value;
  return give(c, result);
}

/// Computes f: the result is a size if both operands are sizes, else a float.
template <class F>
Values arithmetic(Call& c, F f) {
  bool is_size = is_whole(c.operand(named(c, 0))) && is_whole(c.operand(named(c, 1)));
  return is_size ? on_sizes(c, f) : on_floats(c, f);
}

Values negated(Call& c) { return give_size(c, 0 - c.size(named(c, 0))); }

Values as_float(Call& c) {
  Operand a = c.operand(named(c, 0)), result{.kind = Operand::Kind::number};
  if (a.is_constant()) result.number = a.value();
  else result.tensor = a.as(c, DType::f64).value;
  return give(c, result);
}

/// Rounds a float to an integer, which may be a size.
template <Fn fn>
Values rounded(Call& c) {
  Expr x = frontend::apply(fn, c.operand(named(c, 0)).as(c, DType::f64));
  return give_size(c, sizes_in(c.module(), convert(x, DType::i64), 0)[0]);
}

/// Imports a comparison: a <= b + offset (a < b is a <= b - 1), a == b or a != b; `swap` exchanges a and b.
template <Relation::Kind kind, bool swap = false, int offset = 0>
Values relation(Call& c) {
  Dim a = c.size(named(c, 0)), b = c.size(named(c, 1));
  if (swap) std::swap(a, b);
  c.give({.relation = Relation{kind, a, b + Dim(offset)}});
  return {};
}

Values require_relation(Call& c) {
  c.ignore({"assert_msg", "msg"});
  const Binding* bound = c.binding(named(c, 0));
  if (!bound) return {};  // the condition is a Python True
  if (!bound->relation) c.unsupported("of an expression that is not a relation between sizes is not supported");
  c.importer().require(*bound->relation, "what the model asserts of its sizes");
  return {};
}

/// Adds guards for the bounds of a size.
Values require_range(Call& c) {
  Dim size = c.size(named(c, 0));
  GuardCollector guards(c.module());
  if (c.has("min")) require_less_equal(c.size("min"), size, "what the model asserts of its sizes");
  if (c.has("max") && !known_equal(c.size("max"), INT64_MAX))
    require_less_equal(size, c.size("max"), "what the model asserts of its sizes");
  return {};
}

Values check_metadata(Call& c) {
  Expr x = c.tensor(named(c, 0));
  c.ignore({"device", "layout", "stride"});
  if (auto type = c.element("dtype"); type && *type != x.dtype())
    c.fail("E141", cat("says ", *type, ", the tensor is ", x.value.shape()));
  Dims sizes = c.sizes("size");
  for (size_t a = 0; a < sizes.size() && a < x.dims().size(); ++a)
    c.require_same(sizes[a], x.dims()[a], "sizes that the model asserts");
  return {};
}

Values item(Call& c) {
  Expr x = c.tensor("self");
  x = reshape(x, {});
  if (is_float(x.dtype())) return give(c, {.kind = Operand::Kind::number, .tensor = x});
  Dim size = sizes_in(c.module(), convert(x, DType::i64), INT64_MIN)[0];
  return give(c, {.kind = x.dtype() == DType::boolean ? Operand::Kind::flag : Operand::Kind::integer, .integer = size});
}

Values power_of_sizes(Call& c) {
  Operand a = c.operand(named(c, 0)), b = c.operand(named(c, 1));
  bool is_small = b.is_constant() && b.value() >= 0 && b.value() <= 8;
  if (is_whole(a) && is_whole(b) && is_small)
    return give_size(c, size_power(c.size(named(c, 0)), static_cast<int64_t>(b.value())));
  if (!a.is_constant() || !b.is_constant()) c.unsupported("of sizes known only in the run is not supported");
  return give(c, {.kind = Operand::Kind::number, .number = std::pow(a.value(), b.value())});
}

constexpr auto add_numbers = [](auto a, auto b) { return a + b; };
constexpr auto sub = [](auto a, auto b) { return a - b; };
constexpr auto mul = [](auto a, auto b) { return a * b; };
constexpr auto div = [](auto a, auto b) { return a / b; };
constexpr auto largest = [](auto a, auto b) {
  using std::max;
  return max(a, b);
};
constexpr auto smallest = [](auto a, auto b) {
  using std::min;
  return min(a, b);
};

constexpr Operator scalar_rows[] = {
    {"aten.sym_size.int", size_of},
    {"aten.sym_numel.default", number_of_elements},
    {"_operator.add", [](Call& c) { return arithmetic(c, add_numbers); }},
    {"_operator.sub", [](Call& c) { return arithmetic(c, sub); }},
    {"_operator.mul", [](Call& c) { return arithmetic(c, mul); }},
    {"_operator.pow", power_of_sizes},
    {"_operator.floordiv",
     [](Call& c) { return on_sizes(c, [](const Dim& a, const Dim& b) { return floordiv(a, b); }); }},
    {"_operator.mod", [](Call& c) { return on_sizes(c, [](const Dim& a, const Dim& b) { return mod(a, b); }); }},
    {"_operator.neg", negated},
    {"_operator.truediv", [](Call& c) { return on_floats(c, div); }},
    {"_operator.le", relation<Relation::Kind::less_equal>},
    {"_operator.lt", relation<Relation::Kind::less_equal, false, -1>},
    {"_operator.ge", relation<Relation::Kind::less_equal, true>},
    {"_operator.gt", relation<Relation::Kind::less_equal, true, -1>},
    {"_operator.eq", relation<Relation::Kind::equal>},
    {"_operator.ne", relation<Relation::Kind::different>},
    {"sym_max", [](Call& c) { return arithmetic(c, largest); }},
    {"sym_min", [](Call& c) { return arithmetic(c, smallest); }},
    {"torch.sym_max", [](Call& c) { return arithmetic(c, largest); }},
    {"torch.sym_min", [](Call& c) { return arithmetic(c, smallest); }},
    {"torch.sym_float", as_float},
    {"math.trunc", rounded<Fn::trunc>},
    {"math.floor", rounded<Fn::floor>},
    {"math.ceil", rounded<Fn::ceil>},
    {"aten._assert_scalar.default", require_relation},
    {"aten.sym_constrain_range_for_size.default", require_range},
    {"aten.sym_constrain_range.default", require_range},
    {"aten._assert_tensor_metadata.default", check_metadata},
    {"aten.item.default", item},
    {"aten._local_scalar_dense.default", item},
};

}  // namespace

std::span<const Operator> scalar_operators() { return scalar_rows; }

}  // namespace weft::torch
