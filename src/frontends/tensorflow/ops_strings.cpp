// SPDX-License-Identifier: Apache-2.0
// Imports operators on strings and lookup tables. Operators that read characters call host functions (ops/host.h);
// others only move strings.
#include "frontends/common/selection.h"
#include "frontends/tensorflow/call.h"
#include "ops/host.h"

namespace weft::tensorflow {
namespace {

using namespace frontend;

Expr text(Call& c, size_t i) {
  Expr x = c.input(i);
  if (x.dtype() != DType::string) c.fail("E141", cat("needs strings as input ", i, ", has ", x.value.shape()));
  return x;
}

std::string constant_text(Call& c, size_t i) {
  text(c, i);
  auto found = c.constant_text(i);
  if (!found) c.unsupported(cat("needs one constant text as input ", i));
  return *found;
}

Shape open_vector() { return {DType::string, {placeholder(any_size)}}; }

/// Splits strings; returns the pieces as a sparse tensor.
Values split_rows(Call& c, int64_t form, bool skips_empty, int64_t most) {
  c.expect_inputs(2, 2);
  Expr x = text(c, 0);
  if (x.rank() != 1) c.fail("E151", cat("needs a vector of strings, has ", x.value.shape()));
  Shape places{DType::i64, {placeholder(any_size), 2}};
  HostOp op{.fn = HostFn::split_rows,
            .numbers = {form, skips_empty, most},
            .strings = {constant_text(c, 1)},
            .types = {Type::optional(open_vector()), Type::optional(places)}};
  Values found = host_all(c.module(), op, {x});
  Expr pieces{&c, item_of(c.module(), found[0], 0)}, indices{&c, item_of(c.module(), found[1], 0)};
  c.require_same(indices.dims()[0], pieces.dims()[0], "pieces and their places");
  Expr column = slice(indices, 1, 1, 1), none = full(c, DType::i64, {1, 1}, -1);
  Expr longest = reduce(ReduceFn::max, {&c, concat(c, {none, column}, 0)}, {0, 1}, false) + 1.0;
  return {indices, pieces, concat(c, {sizes(c, x.dims()), reshape(longest, {1})}, 0)};
}

Values string_split(Call& c) { return split_rows(c, 0, c.flag("skip_empty", true), -1); }
Values string_split_v2(Call& c) {
  int64_t most = c.integer("maxsplit", -1);
  return split_rows(c, 1, false, most > 0 ? most : -1);
}

/// Returns the n-grams within rows of tokens; `splits` [rows + 1] are the row offsets.
Values string_ngrams(Call& c) {
  c.expect_inputs(2, 2);
  Expr splits = convert(c.input(1), DType::i64);
  HostOp op{.fn = HostFn::ngrams_text,
            .numbers = {c.integer("pad_width", 0), c.flag("preserve_short_sequences")},
            .strings = {c.text("separator"), c.text("left_pad"), c.text("right_pad")},
            .types = {Type::optional(open_vector()), Shape{DType::i64, splits.dims()}}};
  for (int64_t width : c.integers("ngram_widths")) {
    if (width < 1) c.fail("E145", cat("ngram_widths must be >=1, has ", width));
    op.numbers.push_back(width);
  }
  c.ignore("Tsplits");
  Values found = host_all(c.module(), op, {text(c, 0), splits});
  return {item_of(c.module(), found[0], 0), convert(Expr{&c, found[1]}, c.input(1).dtype())};
}

Values hash_bucket(Call& c) {
  c.expect_inputs(1, 1);
  Expr x = text(c, 0);
  int64_t buckets = c.integer("num_buckets");
  if (buckets < 1) c.fail("E145", cat("num_buckets must be >=1, is ", buckets));
  HostOp op{.fn = HostFn::hash_text, .numbers = {buckets}, .types = {Shape{DType::i64, x.dims()}}};
  return {host(c.module(), op, {x})};
}

/// Concatenates strings element by element; a scalar is joined to every element.
Values string_join(Call& c) {
  if (c.input_count() == 0) c.fail("E140", "needs at least one input");
  Expr separator{&c, constant(c.module(), make_string_tensor({}, {c.text("separator")}))}, joined = text(c, 0);
  auto behind = [&](Expr x) {
    const Dims dims = joined.rank() ? joined.dims() : x.dims();
    HostOp op{.fn = HostFn::concat_text, .types = {Shape{DType::string, dims}}};
    joined = {&c, host(c.module(), op, {broadcast(joined, dims), broadcast(x, dims)})};
  };
  for (size_t i = 1; i < c.input_count(); ++i) {
    if (!c.text("separator").empty()) behind(separator);
    behind(text(c, i));
  }
  return {joined};
}

Values full_match(Call& c) {
  c.expect_inputs(1, 1);
  HostOp op{
      .fn = HostFn::match_text, .strings = {c.text("pattern")}, .types = {Shape{DType::boolean, text(c, 0).dims()}}};
  check_text_pattern(op.strings[0]);
  return {host(c.module(), op, {c.input(0)})};
}

Values string_to_number(Call& c) {
  c.expect_inputs(1, 1);
  DType type = c.output_type();
  Expr x = text(c, 0);
  HostOp op{.fn = HostFn::from_text, .numbers = {static_cast<int64_t>(type)}, .types = {Shape{type, x.dims()}}};
  return {host(c.module(), op, {x})};
}

// --- tables ----------------------------------------------------------------------------------------------------------

/// Imports a table's handle: a string with the name of the table's node.
Values table_handle(Call& c) {
  for (auto hint : {"container", "shared_name", "use_node_name_sharing"}) c.ignore(hint);
  return {constant(c.module(), make_string_tensor({}, {c.node().name}))};
}

const LookupTable& table_of(Call& c) {
  auto handle = c.constant_text(0);
  const LookupTable* table = handle ? c.graphs().find_table(*handle) : nullptr;
  if (!table) c.unsupported("needs a table whose keys and values are constants of the model");
  return *table;
}

Values find_in_table(Call& c) {
  c.expect_inputs(3, 3);
  const LookupTable& table = table_of(c);
  Expr x = c.input(1), fallback = c.input(2);
  if (x.dtype() != table.keys.dtype || fallback.dtype() != table.values.dtype)
    c.fail("E141", cat("looks ", x.value.shape(), " up in a table of ", table.keys.dtype, " and ", table.values.dtype));
  if (table.keys.elements() == 0) return {broadcast(reshape(fallback, {}), x.dims())};
  return {looked_up(x, table.keys, table.values, reshape(fallback, {}))};
}

Values table_size(Call& c) {
  c.expect_inputs(1, 1);
  return {scalar(c, table_of(c).keys.elements())};
}

constexpr Operator strings_table[] = {
#define OPERATORS_texts
#include "frontends/tensorflow/operators.def"
};

}  // namespace

std::span<const Operator> text_operators() { return strings_table; }

}  // namespace weft::tensorflow
