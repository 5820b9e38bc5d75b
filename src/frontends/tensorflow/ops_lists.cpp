// SPDX-License-Identifier: Apache-2.0
// Imports lists of tensors: TensorLists of TensorFlow 2 and TensorArrays of TensorFlow 1.
#include "frontends/common/indexing.h"
#include "frontends/common/views.h"
#include "frontends/tensorflow/flow.h"
#include "ops/build.h"

namespace weft::tensorflow {
namespace {

using namespace frontend;

/// The list in input `at`: a TensorList's handle or a TensorArray's flow. Its elements are rows of one tensor.
struct List {
  Call& c;
  size_t at;

  /// Returns the list as a tensor. If its element sizes are not known yet, they become `element`.
  Expr tensor(const Dims& element) const {
    if (const OpenList* open = reserved(c, c.input(at))) return filled(c, *open, element);
    return whole();
  }
  Expr tensor() const {
    if (reserved(c, c.input(at))) c.unsupported("reads a list that nothing has written to");
    return whole();
  }
  Expr whole() const {
    if (c.input(at).rank() < 1) c.fail("E151", "needs a list, has a scalar");
    return c.input(at);
  }
  Expr count() const {
    const OpenList* open = reserved(c, c.input(at));
    return scalar(c, open ? open->count : whole().dims()[0], DType::i32);
  }
};

/// Returns the sizes of elements in input `i`; nothing if the rank or a size is unknown (-1).
std::optional<Dims> element_sizes(Call& c, size_t i) {
  Expr shape = c.input(i);
  if (shape.rank() != 1) return std::nullopt;  // a scalar -1: unknown rank
  auto known = known_contents(convert(shape, DType::i64));
  if (!known) return std::nullopt;
  for (const Dim& dim : *known) {
    if (dim.lower_bound() < 0) return std::nullopt;
  }
  return known;
}

Value new_list(Call& c, DType type, const Dim& count, const std::optional<Dims>& element) {
  OpenList list{.type = type, .count = count};
  return element ? filled(c, list, *element).value
                 : constant(c.module(), make_string_tensor({}, {c.graphs().add_list(std::move(list))}));
}

DType element_type(Call& c, std::string_view name = "element_dtype") {
  auto type = c.type(name);
  if (!type) c.fail("E149", "holds elements of a type that Weft does not know");
  return *type;
}

Dim count_in(Call& c, size_t i) {
  Dims counts = c.sizes(i);
  if (counts.size() != 1) c.fail("E140", cat("needs one count in input ", i, ", has ", counts.size()));
  return counts[0];
}

Values list_reserve(Call& c) {
  c.expect_inputs(2, 2);
  return {new_list(c, element_type(c), count_in(c, 1), element_sizes(c, 0))};
}

Values list_empty(Call& c) {
  c.expect_inputs(2, 2);  // the second, an upper bound of the number of elements, is not needed
  return {new_list(c, element_type(c), 0, element_sizes(c, 0))};
}

Values list_from_tensor(Call& c) {
  c.expect_inputs(1, 2);
  return {c.input(0)};
}

Values list_push(Call& c) {
  c.expect_inputs(2, 2);
  Expr item = c.input(1), list = List{c, 0}.tensor(item.dims());
  Dims one = item.dims();
  one.insert(one.begin(), 1);
  return {concat(c, {list, reshape(item, one)}, 0)};
}

Values list_pop(Call& c) {
  Expr list = List{c, 0}.tensor();
  Dim rest = list.dims()[0] - 1;
  return {slice(list, 0, 0, rest), row_at(list, 0, rest)};
}

/// Returns the list after list[index] = item; with `resizes` the list grows if the index is beyond its end.
Expr written(Call& c, size_t list_at, Expr index, Expr item, bool resizes) {
  Expr list = List{c, list_at}.tensor(item.dims());
  Expr at = reshape(convert(index, DType::i64), {1, 1});
  if (resizes) {
    auto place = c.sizes_or_bound(reshape(at, {1}), {std::nullopt});
    Dims more = list.dims();
    more[0] = max(place[0] + 1 - more[0], 0);
    list = {&c, concat(c, {list, zeros(c, list.dtype(), more)}, 0)};
  }
  Dims one = item.dims();
  one.insert(one.begin(), 1);
  return scatter_nd(list, at, reshape(item, one));
}

Values list_set(Call& c) {
  c.expect_inputs(3, 3);
  return {written(c, 0, c.input(1), c.input(2), c.flag("resize_if_index_out_of_bounds"))};
}

Expr read_at(Expr list, Expr index) { return gather(list, reshape(convert(index, DType::i64), {})); }
Values list_get(Call& c) {
  c.expect_inputs(3, 3);
  return {read_at(List{c, 0}.tensor(), c.input(1))};
}

Values list_stack(Call& c) {
  c.expect_inputs(2, 2);
  Expr list = List{c, 0}.tensor();
  int64_t count = c.integer("num_elements", -1);
  if (count >= 0) c.require_same(list.dims()[0], count, "elements of the list and num_elements");
  return {list};
}

Values list_gather(Call& c) {
  c.expect_inputs(3, 3);
  return {gather(List{c, 0}.tensor(), c.input(1))};
}

Values list_length(Call& c) { return {List{c, 0}.count()}; }

Values list_resize(Call& c) {
  c.expect_inputs(2, 2);
  Dim size = count_in(c, 1);
  if (const OpenList* open = reserved(c, c.input(0))) return {new_list(c, open->type, size, std::nullopt)};
  Expr list = List{c, 0}.tensor();
  Dims more = list.dims();
  Dim kept = min(more[0], size);
  more[0] = size - kept;
  return {concat(c, {slice(list, 0, 0, kept), zeros(c, list.dtype(), more)}, 0)};
}

Values list_element_shape(Call& c) {
  Dims dims = List{c, 0}.tensor().dims();
  dims.erase(dims.begin());
  return {convert(sizes(c, dims), c.type("shape_type").value_or(DType::i32))};
}

/// Concatenates the elements along their first axis; also returns their lengths.
Values list_concat(Call& c) {
  Expr list = List{c, 0}.tensor();
  if (list.rank() < 2) c.fail("E151", cat("needs elements of rank 1 or more, has rank ", list.rank() - 1));
  Dims dims = list.dims();
  Expr lengths = broadcast(scalar(c, dims[1]), {dims[0]});
  dims[0] = dims[0] * dims[1];
  dims.erase(dims.begin() + 1);
  return {reshape(list, dims), lengths};
}

Expr scattered(Call& c, size_t list_at, Expr items, Expr indices) {
  if (items.rank() < 1 || indices.rank() != 1)
    c.fail("E151", "needs a vector of indices, and items along the first axis");
  Dims element = items.dims();
  element.erase(element.begin());
  Expr list = List{c, list_at}.tensor(element), at = convert(indices, DType::i64);
  return scatter_nd(list, reshape(at, {at.dims()[0], 1}), items);
}

Values list_scatter_into(Call& c) {
  c.expect_inputs(3, 3);
  return {scattered(c, 0, c.input(1), c.input(2))};
}

// The handle of a TensorArray identifies it, and its flow holds the elements.

Values array_new(Call& c) {
  c.expect_inputs(1, 1);
  for (auto hint :
       {"clear_after_read", "dynamic_size", "identical_element_shapes", "tensor_array_name", "element_shape"})
    c.ignore(hint);
  Value flow = new_list(c, element_type(c, "dtype"), count_in(c, 0), std::nullopt);
  return {constant(c.module(), make_string_tensor({}, {cat("array ", c.node().name)})), flow};
}
Values array_write(Call& c) {
  c.expect_inputs(4, 4);
  const OpenList* open = reserved(c, c.input(3));
  bool grows = open && open->count == Dim(0);
  return {written(c, 3, c.input(1), c.input(2), grows)};
}
Values array_read(Call& c) {
  c.expect_inputs(3, 3);
  return {read_at(List{c, 2}.tensor(), c.input(1))};
}
Values array_gather(Call& c) {
  c.expect_inputs(3, 3);
  c.ignore("element_shape");
  return {gather(List{c, 2}.tensor(), c.input(1))};
}
Values array_scatter(Call& c) {
  c.expect_inputs(4, 4);
  return {scattered(c, 3, c.input(2), c.input(1))};
}
Values array_size(Call& c) {
  c.expect_inputs(2, 2);
  return {List{c, 1}.count()};
}

constexpr Operator lists_table[] = {
#define OPERATORS_lists
#include "frontends/tensorflow/operators.def"
};

}  // namespace

std::span<const Operator> list_operators() { return lists_table; }

}  // namespace weft::tensorflow
