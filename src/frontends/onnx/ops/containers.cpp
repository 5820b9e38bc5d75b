// SPDX-License-Identifier: Apache-2.0
// Sequences and optionals. A container with items known at compile time is just a list of values, and operators read
// its items from the list. A container is built only if an operator cannot know the items (ops/host.h).
#include "frontends/onnx/import/expr.h"
#include "frontends/onnx/import/importer.h"
#include "ops/host.h"

namespace weft::onnx {
namespace {

constexpr int64_t max_parts = 1024;  // a split into more parts is not unrolled

Value container(Call& c, size_t i, Type::Kind kind) {
  Value value = c.input(i);
  if (value.type().kind != kind)
    c.fail("E141", cat("needs input ", i, " to be ", kind == Type::Kind::sequence ? "a sequence" : "an optional",
                       ", is ", value.type()));
  return value;
}
Value sequence(Call& c, size_t i = 0) { return container(c, i, Type::Kind::sequence); }

/// Returns the integer in an input of one element.
Value whole_number(Call& c, size_t i) {
  Expr x = arg(c, i);
  if (!is_integer(x.dtype()) || (x.rank() > 0 && !known_equal(x.value.shape().elements(), 1)))
    c.fail("E141", cat("needs one whole number as input ", i, ", has ", x.value.type()));
  return reshape(convert(x, DType::i64), {});
}
std::optional<Value> optional_number(Call& c, size_t i) {
  return c.has_input(i) ? std::optional(whole_number(c, i)) : std::nullopt;
}

Values sequence_construct(Call& c) {
  if (c.input_count() == 0) c.fail("E140", "needs an item");
  auto element = std::optional(as_element(c.input(0).type()));
  for (const Value& item : c.inputs(1)) {
    element = common_element(*element, item.type());
    if (!element) c.fail("E141", cat("has items of two types: ", c.input(0).type(), " and ", item.type()));
  }
  return {collect(c.module(), Type::sequence(*element), c.inputs())};
}

Values sequence_empty(Call& c) {
  Type element = Shape{c.element("dtype", DType::f32), {placeholder(no_element)}};
  return {collect(c.module(), Type::sequence(element), {})};
}

Values sequence_at(Call& c) { return {item_of(c.module(), sequence(c), whole_number(c, 1))}; }

Values sequence_length(Call& c) { return {length_of(c.module(), sequence(c))}; }

Values sequence_insert(Call& c) { return {insert_item(c.module(), sequence(c), c.input(1), optional_number(c, 2))}; }

Values sequence_erase(Call& c) {
  Value all = sequence(c);
  auto at = optional_number(c, 1);
  auto items = known_items(all);
  auto known = at ? known_contents(*at) : std::optional(Dims{-1});
  if (!items || !known || !(*known)[0].is_constant()) {
    weft::Values inputs = {all};
    if (at) inputs.push_back(*at);
    return {host(c.module(), {.fn = HostFn::erase, .types = {all.type()}}, std::move(inputs))};
  }
  items->erase(items->begin() + c.axis((*known)[0].value(), std::ssize(*items)));
  return {collect(c.module(), all.type(), std::move(*items))};
}

/// Returns the lengths of the parts; nothing if they are unknown, or if there are more than max_parts equal parts.
std::optional<std::vector<int64_t>> known_lengths(Call& c, const Dim& size) {
  auto total = size.constant();
  if (!c.has_input(1))
    return total && *total <= max_parts ? std::optional(std::vector<int64_t>(*total, 1)) : std::nullopt;
  auto contents = known_contents(c.input(1));
  if (!contents || !all_constant(*contents)) return std::nullopt;
  std::vector<int64_t> lengths;
  for (const Dim& dim : *contents) lengths.push_back(dim.value());
  if (c.input(1).rank() == 1) return lengths;
  if (lengths.size() != 1 || lengths[0] < 1) c.fail("E145", cat("needs one length >=1, has ", lengths));
  if (!total || *total > max_parts * lengths[0]) return std::nullopt;
  std::vector<int64_t> parts((*total + lengths[0] - 1) / lengths[0], lengths[0]);
  if (*total % lengths[0]) parts.back() = *total % lengths[0];
  return parts;
}

Values split_to_sequence(Call& c) {
  Expr x = arg(c, 0);
  int64_t axis = c.axis(c.integer("axis", 0), x.rank());
  bool keeps_axis = c.flag("keepdims", true) || c.has_input(1);
  Dims less = x.dims();
  less.erase(less.begin() + axis);
  auto lengths = known_lengths(c, x.dims()[axis]);
  Type element = as_element(x.value.type());
  if (!lengths) {
    element.shape.dims[axis] = placeholder(any_size);
    if (!keeps_axis) element.shape.dims.erase(element.shape.dims.begin() + axis);
    weft::Values inputs = {x};
    if (c.has_input(1)) inputs.push_back(convert(arg(c, 1), DType::i64));
    return {host(c.module(), {.fn = HostFn::split, .numbers = {axis, keeps_axis}, .types = {Type::sequence(element)}},
                 std::move(inputs))};
  }
  Values parts;
  int64_t begin = 0;
  std::optional<Type> common;
  for (int64_t length : *lengths) {
    Expr part = slice(x, axis, begin, length);
    parts.push_back(keeps_axis ? part : reshape(part, less));
    common = common ? common_element(*common, parts.back().type()) : as_element(parts.back().type());
    begin += length;
  }
  GuardCollector guards(c.module());
  require_equal(begin, x.dims()[axis], "SplitToSequence: the parts make up the axis");
  if (!common) common = Shape{x.dtype(), {placeholder(no_element)}};
  return {collect(c.module(), Type::sequence(*common), std::move(parts))};
}

Values concat_from_sequence(Call& c) {
  Value all = sequence(c);
  bool is_new_axis = c.flag("new_axis");
  int64_t axis = c.integer("axis");
  auto items = known_items(all);
  if (!items || items->empty()) {
    Type element = *all.type().element;
    Dims& dims = element.shape.dims;
    if (is_placeholder(dims, any_rank) || is_placeholder(dims, no_element))
      c.unsupported(cat("of ", all.type(), ", whose items have no known rank, is not supported"));
    int64_t place = c.axis(axis, std::ssize(dims) + is_new_axis);
    if (is_new_axis) dims.insert(dims.begin() + place, placeholder(any_size));
    else dims[place] = placeholder(any_size);
    Value joined = host(
        c.module(), {.fn = HostFn::join, .numbers = {place, is_new_axis}, .types = {Type::optional(element)}}, {all});
    return {item_of(c.module(), joined, 0)};
  }
  int64_t place = c.axis(axis, items->at(0).rank() + is_new_axis);
  for (Value& item : *items) {
    if (!is_new_axis) continue;
    Dims dims = item.dims();
    dims.insert(dims.begin() + place, 1);
    item = reshape(Expr{&c, item}, dims);
  }
  return {concat(c, *items, place)};
}

// --- optionals -------------------------------------------------------------------------------------------------------

Values optional(Call& c) {
  if (c.has_input(0)) {
    c.ignore("type");
    return {collect(c.module(), Type::optional(as_element(c.input(0).type())), {c.input(0)})};
  }
  return {collect(c.module(), Type::optional(Importer::declared_element(c.type("type"))), {})};
}

bool is_optional(Value value) { return value.type().kind == Type::Kind::optional; }

Values optional_has_element(Call& c) {
  bool is_given = c.has_input(0);
  auto answer = [&](bool has) -> Values { return {constant(c.module(), DType::boolean, has)}; };
  if (!is_given || !is_optional(c.input(0))) return answer(is_given);
  if (auto items = known_items(c.input(0))) return answer(!items->empty());
  return {Expr{&c, length_of(c.module(), c.input(0))} > 0};
}

Values optional_get_element(Call& c) {
  if (!is_optional(c.input(0))) return {c.input(0)};
  return {item_of(c.module(), c.input(0), 0)};
}

constexpr Operator containers_table[] = {
#include "frontends/onnx/ops/containers.def"
};

}  // namespace

std::span<const Operator> container_operators() { return containers_table; }

}  // namespace weft::onnx
