// SPDX-License-Identifier: Apache-2.0
#include "frontends/torch/call.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "frontends/torch/complex.h"
#include "frontends/torch/importer.h"
#include "ops/build.h"

namespace weft::torch {

Expr Operand::as(const Call& c, DType type) const {
  if (tensor) return convert(c.expr(tensor), type);
  if (kind != Kind::number && !integer.is_constant()) return frontend::scalar(c, integer, type);
  if (type == DType::boolean) return frontend::number(c, type, value() != 0);
  if (kind == Kind::number) {
    if (is_integer(type)) return frontend::number(c, type, std::trunc(number));
    return frontend::number(c, type, number);
  }
  if (is_integer(type)) {
    int64_t whole[] = {integer.value()};
    Tensor exact = make_tensor(DType::i64, {}, whole);
    return convert(c.expr(constant(c.module(), exact)), type);
  }
  return frontend::number(c, type, value());
}

Call::Call(Importer& importer, Module& module, const Node& node)
    : Builder(module), importer_(importer), node_(node), asked_(node.inputs.size()) {}

void Call::fail(std::string_view code, std::string what, std::string hint) const {
  throw Error({.kind = ErrorKind::model, .code = std::string(code), .what = cat(name(), " ", what), .hint = hint});
}

void Call::unsupported(std::string what) const {
  throw Error({.kind = ErrorKind::unsupported, .code = "E122", .what = cat(name(), " ", what)});
}

void Call::wrong_kind(std::string_view name, const Argument& argument, std::string_view wanted) const {
  fail("E141", cat("takes ", wanted, " as '", name, "', has ", argument.tag.empty() ? "another kind" : argument.tag,
                   argument.kind == Argument::Kind::other ? cat(" ", printable(argument.items[0].text)) : ""));
}

const Argument* Call::find(std::string_view name) const {
  const NamedArgument* found = asked_.find(node_.inputs, &NamedArgument::name, name);
  return found && !found->value.is_none() ? &found->value : nullptr;
}

const Argument& Call::require(std::string_view name) const {
  const Argument* argument = find(name);
  if (!argument) fail("E140", cat("has no argument '", name, "'"));
  return *argument;
}

const Item& Call::only(std::string_view name) const {
  const Argument& argument = require(name);
  if (argument.items.size() != 1) fail("E140", cat("takes one value as '", name, "', has ", argument.items.size()));
  return argument.items[0];
}

bool Call::has(std::string_view argument) const { return find(argument) != nullptr; }

Value Call::value_of(std::string_view argument, const Item& item) const {
  const Binding& bound = importer_.read(*this, item.text);
  if (bound.tensor) return importer_.part_of(*this, bound);
  if (bound.scalar && bound.scalar->tensor) return bound.scalar->tensor;
  fail("E141", cat("takes a tensor as '", argument, "', '", printable(item.text), "' is a size"));
}

Expr Call::tensor(std::string_view argument) const {
  const Argument& given = require(argument);
  if (given.kind != Argument::Kind::tensor || given.is_list) wrong_kind(argument, given, "a tensor");
  return expr(value_of(argument, given.items[0]));
}

bool Call::is_complex(std::string_view argument) const {
  const Argument* given = find(argument);
  bool is_tensor = given && given->kind == Argument::Kind::tensor && !given->is_list;
  return is_tensor && importer_.read(*this, given->items[0].text).is_complex;
}

Expr Call::pair(std::string_view argument) const {
  if (!is_complex(argument)) fail("E141", cat("takes complex numbers as '", argument, "'"));
  return expr(importer_.read(*this, require(argument).items[0].text).tensor);
}

std::optional<Expr> Call::optional(std::string_view argument) const {
  return has(argument) ? std::optional(tensor(argument)) : std::nullopt;
}

std::vector<std::optional<Expr>> Call::optional_tensors(std::string_view argument) const {
  const Argument& given = require(argument);
  if (given.kind != Argument::Kind::tensor && !given.items.empty()) wrong_kind(argument, given, "tensors");
  std::vector<std::optional<Expr>> values;
  for (const Item& item : given.items)
    values.push_back(Argument::is_none(item) ? std::nullopt : std::optional(expr(value_of(argument, item))));
  return values;
}

std::vector<Expr> Call::tensors(std::string_view argument) const {
  std::vector<Expr> values;
  for (const auto& value : optional_tensors(argument)) {
    if (!value) fail("E140", cat("has None among '", argument, "'"));
    values.push_back(*value);
  }
  return values;
}

Operand Call::scalar(std::string_view name, const Item& item) const {
  switch (item.kind) {
    case Item::Kind::integer: return {.kind = Operand::Kind::integer, .integer = item.integer};
    case Item::Kind::flag: return {.kind = Operand::Kind::flag, .integer = item.integer};
    case Item::Kind::number: return {.kind = Operand::Kind::number, .number = item.number};
    case Item::Kind::name: break;
    default: fail("E141", cat("takes a number as '", name, "'"));
  }
  const Binding& bound = importer_.read(*this, item.text);
  if (bound.scalar) return *bound.scalar;
  if (bound.tensor) return {.kind = Operand::Kind::tensor, .tensor = value_of(name, item)};
  unsupported(cat("computes with '", printable(item.text), "', a condition on sizes"));
}

Operand Call::operand(std::string_view argument) const {
  const Argument& given = require(argument);
  if (given.kind == Argument::Kind::tensor && !given.is_list)
    return {.kind = Operand::Kind::tensor, .tensor = value_of(argument, given.items[0])};
  if (given.kind != Argument::Kind::scalar || given.is_list) wrong_kind(argument, given, "a tensor or a number");
  return scalar(argument, given.items[0]);
}

Dim Call::as_size(std::string_view name, const Item& item) const {
  Operand value = scalar(name, item);
  bool is_whole = value.kind == Operand::Kind::integer || value.kind == Operand::Kind::flag;
  if (is_whole && !value.tensor) return value.integer;
  if (value.tensor && is_integer(value.tensor.dtype()) && value.tensor.rank() == 0)
    return sizes_in(module(), value.tensor, INT64_MIN)[0];
  fail("E141", cat("takes a whole number as '", name, "'"));
}

Dim Call::size(std::string_view argument) const {
  const Argument& given = require(argument);
  if (given.kind != Argument::Kind::scalar && given.kind != Argument::Kind::tensor)
    wrong_kind(argument, given, "a whole number");
  return as_size(argument, only(argument));
}

Dims Call::sizes(std::string_view argument) const {
  Dims sizes;
  const Argument* given = find(argument);
  if (!given) return sizes;
  if (given->kind != Argument::Kind::scalar && !given->items.empty()) wrong_kind(argument, *given, "whole numbers");
  for (const Item& item : given->items) sizes.push_back(as_size(argument, item));
  return sizes;
}

void Call::not_fixed(std::string_view name) const {
  throw Error({.kind = ErrorKind::unsupported,
               .code = "E159",
               .what = cat(node_.target, " needs fixed numbers as '", name, "', which are known only in the run")});
}

int64_t Call::integer(std::string_view argument) const {
  auto value = size(argument).constant();
  if (!value) not_fixed(argument);
  return *value;
}

std::vector<int64_t> Call::integers(std::string_view argument) const {
  auto numbers = frontend::fixed_numbers(sizes(argument));
  if (!numbers) not_fixed(argument);
  return *numbers;
}

double Call::number(std::string_view argument) const {
  Operand value = scalar(argument, only(argument));
  if (!value.is_constant()) not_fixed(argument);
  return value.value();
}

std::vector<double> Call::numbers(std::string_view argument) const {
  std::vector<double> numbers;
  const Argument* given = find(argument);
  if (!given) return numbers;
  for (const Item& item : given->items) {
    Operand value = scalar(argument, item);
    if (!value.is_constant()) not_fixed(argument);
    numbers.push_back(value.value());
  }
  return numbers;
}

bool Call::flag(std::string_view argument, bool fallback) const {
  if (!has(argument)) return fallback;
  const Item& item = only(argument);
  if (item.kind != Item::Kind::flag && item.kind != Item::Kind::integer)
    wrong_kind(argument, require(argument), "true or false");
  return item.integer != 0;
}

std::string Call::text(std::string_view argument, std::string_view fallback) const {
  if (!has(argument)) return std::string(fallback);
  const Argument& given = require(argument);
  if (given.kind != Argument::Kind::text || given.is_list) wrong_kind(argument, given, "a text");
  return given.items[0].text;
}

std::optional<DType> Call::element(std::string_view argument) const {
  if (!has(argument)) return {};
  const Argument& given = require(argument);
  if (given.kind != Argument::Kind::element) wrong_kind(argument, given, "an element type");
  return part_type(static_cast<DType>(given.items[0].integer));
}

const Argument& Call::argument(size_t i) const {
  if (i >= node_.inputs.size()) fail("E140", cat("needs argument ", i, ", has ", node_.inputs.size(), " arguments"));
  asked_.mark(i);
  return node_.inputs[i].value;
}

const Binding* Call::binding(std::string_view argument) const {
  const Item& item = only(argument);
  return item.kind == Item::Kind::name ? &importer_.read(*this, item.text) : nullptr;
}

void Call::ignore(std::initializer_list<std::string_view> arguments) const {
  for (std::string_view argument : arguments) find(argument);
}

void Call::require_default(std::string_view argument, bool is_default) const {
  if (!is_default) unsupported(cat("with a '", argument, "' other than its default is not supported"));
}

void Call::check_arguments() const {
  for (size_t i = 0; i < node_.inputs.size(); ++i) {
    if (!asked_.was(i) && !node_.inputs[i].value.is_none())
      unsupported(cat("with argument '", printable(node_.inputs[i].name), "' is not supported"));
  }
}

int64_t Call::axis_of(std::string_view argument, int64_t rank) const {
  return axis(integer(argument), std::max<int64_t>(rank, 1));
}

int64_t Call::axis_of(std::string_view argument, int64_t rank, int64_t fallback) const {
  return axis(integer(argument, fallback), std::max<int64_t>(rank, 1));
}

std::vector<int64_t> Call::axes_of(std::string_view argument, int64_t rank) const {
  std::vector<int64_t> given = integers(argument);
  if (given.empty()) {
    for (int64_t a = 0; a < rank; ++a) given.push_back(a);
    return given;
  }
  given = axes(given, std::max<int64_t>(rank, 1));
  if (rank == 0) given.clear();
  return given;
}

}  // namespace weft::torch
