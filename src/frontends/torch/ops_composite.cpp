// SPDX-License-Identifier: Apache-2.0
// Imports operators that torch builds from other operators: stacks, splits, diagonals, products, numeric integration.
#include <algorithm>
#include <cmath>

#include "frontends/common/arithmetic.h"
#include "frontends/common/create.h"
#include "frontends/common/diagonals.h"
#include "frontends/common/einsum.h"
#include "frontends/common/indexing.h"
#include "frontends/common/selection.h"
#include "frontends/common/views.h"
#include "frontends/torch/distance.h"
#include "frontends/torch/promote.h"
#include "frontends/torch/views.h"
#include "ops/reduce.h"
#include "ops/views.h"

namespace weft::torch {

std::array<Expr, 2> pairs(const frontend::Builder& b, int64_t count, int64_t apart) {
  std::vector<int64_t> first, second;
  for (int64_t i = 0; i < count; ++i)
    for (int64_t j = i + apart; j < count; ++j) first.push_back(i), second.push_back(j);
  auto vector = [&](const std::vector<int64_t>& numbers) {
    Tensor tensor = make_tensor(DType::i64, {std::ssize(numbers)}, std::span<const int64_t>(numbers));
    return Expr{&b, constant(b.module(), tensor)};
  };
  return {vector(first), vector(second)};
}

namespace {

using frontend::gather;

// ---- Stacks and splits ----

/// Adds leading axes of size 1, up to `rank`; but for rank 3, [n] becomes [1, n, 1] and [n, m] becomes [n, m, 1].
Expr at_least(Expr x, int64_t rank) {
  if (x.rank() >= rank) return x;
  if (rank < 3 || x.rank() == 0) return with_rank(x, rank);
  Dims dims = x.rank() == 1 ? Dims{1, x.dims()[0], 1} : Dims{x.dims()[0], x.dims()[1], 1};
  return reshape(x, dims);
}

Values at_least_each(Call& c, int64_t rank) {
  if (c.has("self")) return one(at_least(c.tensor("self"), rank));
  Values all;
  for (const Expr& x : c.tensors("tensors")) all.push_back(at_least(x, rank));
  return all;
}

Values stacked(Call& c, int64_t rank, int64_t axis) {
  Values parts;
  for (Expr x : in_one_type(c, c.tensors("tensors"))) parts.push_back(at_least(x, rank));
  int64_t along_axis = axis == 1 && parts[0].rank() == 1 ? 0 : axis;
  return one(frontend::concat(c, parts, along_axis));
}

Values column_stack(Call& c) {
  Values parts;
  for (Expr x : in_one_type(c, c.tensors("tensors")))
    parts.push_back(x.rank() > 1 ? x : reshape(x, {x.value.shape().elements(), 1}));
  return one(frontend::concat(c, parts, 1));
}

/// Splits at `indices`, or into `sections` parts. The first parts may have one element more than the others.
Values split_at(Call& c, Expr x, int64_t axis) {
  axis = c.axis(axis, x.rank());
  Dim size = size_at(x, axis);
  Values parts;
  if (!c.has("sections")) {
    Dims ends = c.sizes("indices");
    ends.push_back(INT64_MAX);
    Dim start = 0;
    for (const Dim& end : ends) parts.push_back(frontend::cut(x, {{axis, start, end}})), start = end;
    return parts;
  }
  int64_t sections = c.integer("sections");
  if (sections < 1) c.fail("E145", cat("sections must be >=1, is ", sections));
  auto known = size.constant();
  auto part = exact_divide(size, sections);
  if (!known && !part) c.unsupported(cat("of ", size, " elements into ", sections, " parts is not supported"));
  Dims sizes;
  for (int64_t i = 0; i < sections; ++i)
    sizes.push_back(known ? Dim(*known / sections + (i < *known % sections ? 1 : 0)) : *part);
  return frontend::split(x, axis, sizes);
}

/// Splits along axis 1, or along the only axis.
Values split_columns(Call& c) {
  Expr x = c.tensor("self");
  return split_at(c, x, x.rank() == 1 ? 0 : 1);
}

Values broadcast_all(Call& c) {
  std::vector<Expr> tensors = c.tensors("tensors");
  std::vector<Dims> shapes;
  for (const Expr& x : tensors) shapes.push_back(x.dims());
  GuardCollector guards(c.module());
  Dims dims = broadcast_dims(shapes, c.name());
  Values all;
  for (const Expr& x : tensors) all.push_back(broadcast(x, dims));
  return all;
}

Values sum_to_size(Call& c) {
  Expr x = c.tensor("self");
  Dims wanted = c.sizes("size");
  int64_t added = x.rank() - std::ssize(wanted);
  std::vector<int64_t> axes = frontend::axes_from(0, std::max<int64_t>(added, 0));
  for (int64_t a = std::max<int64_t>(added, 0); a < x.rank(); ++a)
    if (known_equal(wanted[a - added], 1) && !known_equal(x.dims()[a], 1)) axes.push_back(a);
  bool is_whole = is_integer(x.dtype()) || x.dtype() == DType::boolean;
  if (is_whole && (!axes.empty() || wanted.empty())) x = convert(x, DType::i64);
  return one(reshape(reduce(ReduceFn::sum, x, axes, true), wanted));
}

Values block_diagonal(Call& c) {
  std::vector<Expr> blocks = in_one_type(c, c.tensors("tensors"));
  Dim columns = 0, left = 0;
  for (Expr& x : blocks) x = with_rank(x, 2), columns = columns + x.dims()[1];
  Values rows;
  for (const Expr& x : blocks) {
    Dim right = columns - left - x.dims()[1];
    rows.push_back(frontend::pad(x, {0, left}, {0, right}));
    left = left + x.dims()[1];
  }
  return one(frontend::concat(c, rows, 0));
}

/// Returns the Cartesian product of vectors: every choice of one element of each, as rows.
Values cartesian_product(Call& c) {
  std::vector<Expr> vectors = c.tensors("tensors");
  if (vectors.size() == 1) return one(vectors[0]);
  Dims dims;
  for (const Expr& x : vectors) dims.push_back(x.dims().at(0));
  Values columns;
  for (size_t i = 0; i < vectors.size(); ++i) {
    Expr grid = broadcast(along(vectors[i], static_cast<int64_t>(i), std::ssize(dims)), dims);
    columns.push_back(reshape(grid, {product(dims), 1}));
  }
  return one(frontend::concat(c, columns, 1));
}

Values channel_shuffle(Call& c) {
  Expr x = c.tensor("self");
  Dim groups = c.size("groups");
  Dims split = x.dims();
  split[1] = floordiv(split[1], groups);
  split.insert(split.begin() + 1, groups);
  std::vector<int64_t> order = frontend::axes_from(0, x.rank() + 1);
  std::swap(order[1], order[2]);
  return one(reshape(transpose(reshape(x, split), order), x.dims()));
}

Values quarter_turns(Call& c) {
  Expr x = c.tensor("self");
  std::vector<int64_t> axes = c.has("dims") ? c.integers("dims") : std::vector<int64_t>{0, 1};
  if (axes.size() != 2) c.fail("E140", cat("rotates in a plane of 2 axes, has ", axes.size()));
  int64_t a = c.axis(axes[0], x.rank()), b = c.axis(axes[1], x.rank()), turns = ((c.integer("k", 1) % 4) + 4) % 4;
  std::vector<int64_t> order = frontend::axes_from(0, x.rank());
  std::swap(order[a], order[b]);
  if (turns == 0) return one(x);
  if (turns == 2) return one(reversed(reversed(x, a), b));
  return one(turns == 1 ? transpose(reversed(x, b), order) : reversed(transpose(x, order), b));
}

Values shifted_middle(Call& c, bool back) {
  Expr x = c.tensor("self");
  for (int64_t axis : c.axes_of("dim", x.rank())) {
    Dim half = floordiv(size_at(x, axis), 2);
    x = rolled(x, axis, back ? size_at(x, axis) - half : half);
  }
  return one(x);
}

Values flipped(Call& c, int64_t axis) { return one(reversed(c.tensor("self"), axis)); }

// ---- Diagonals ----

Values diag_embed(Call& c) {
  Expr x = c.tensor("self");
  int64_t rank = x.rank() + 1;
  int64_t a = c.axis(c.integer("dim1", -2), rank), b = c.axis(c.integer("dim2", -1), rank);
  int64_t offset = c.integer("offset", 0);
  if (a > b) std::swap(a, b), offset = -offset;
  return one(last_moved(diagonal_matrix(x, offset), a, b));
}

Values diag(Call& c) {
  Expr x = c.tensor("self");
  int64_t offset = c.integer("diagonal", 0);
  return one(x.rank() == 1 ? diagonal_matrix(x, offset) : diagonal_of(x, offset));
}

Values diag_of_all(Call& c) { return one(diagonal_matrix(frontend::flat(c.tensor("self")), c.integer("offset", 0))); }

Values trace(Call& c) {
  Expr x = c.tensor("self");
  if (!is_float(x.dtype())) x = convert(x, DType::i64);
  return one(reduce(ReduceFn::sum, diagonal_of(x, 0), {0}, false));
}

// ---- Products ----

Values add_batches(Call& c) {
  Expr x = c.tensor("self");
  DType type = x.dtype(), wide = is_float(type) ? wide_of(type) : type;
  Expr product = matmul(convert(c.tensor("batch1"), wide), convert(c.tensor("batch2"), wide));
  return one(convert(combined_with(c, convert(x, wide), reduce(ReduceFn::sum, product, {0}, false)), type));
}
Values add_outer(Call& c) {
  Expr a = c.tensor("vec1"), b = c.tensor("vec2");
  return one(combined_with(c, c.tensor("self"), reshape(a, {a.dims()[0], 1}) * reshape(b, {1, b.dims()[0]})));
}

Values tensor_product(Call& c) {
  Expr a = c.tensor("self"), b = c.tensor("other");
  std::vector<int64_t> of_a = c.integers("dims_self"), of_b = c.integers("dims_other");
  if (of_a.size() != of_b.size()) c.fail("E140", cat("pairs ", of_a.size(), " axes with ", of_b.size()));
  for (int64_t& axis : of_a) axis = c.axis(axis, a.rank());
  for (int64_t& axis : of_b) axis = c.axis(axis, b.rank());
  for (size_t i = 0; i < of_a.size(); ++i) {  // an axis of size 1 is broadcast
    if (known_equal(size_at(a, of_a[i]), 1)) b = reduce(ReduceFn::sum, b, {of_b[i]});
    if (known_equal(size_at(b, of_b[i]), 1)) a = reduce(ReduceFn::sum, a, {of_a[i]});
  }
  return one(contracted(a, b, of_a, of_b));
}

Values inner(Call& c) {
  Expr a = c.tensor("self"), b = c.tensor("other");
  if (a.rank() == 0 || b.rank() == 0) return one(a * b);
  return one(contracted(a, b, {a.rank() - 1}, {b.rank() - 1}));
}

Values kronecker(Call& c) {
  auto [a, b] = in_common_type(c, "self", "other");
  int64_t rank = std::max(a.rank(), b.rank());
  a = with_rank(a, rank), b = with_rank(b, rank);
  Dims of_a, of_b, joined;
  for (int64_t i = 0; i < rank; ++i) {
    of_a.insert(of_a.end(), {size_at(a, i), 1}), of_b.insert(of_b.end(), {1, size_at(b, i)});
    joined.push_back(size_at(a, i) * size_at(b, i));
  }
  return one(reshape(reshape(a, of_a) * reshape(b, of_b), joined));
}

Values cross(Call& c) {
  auto [a, b] = in_common_type(c, "self", "other");
  Dims dims = (a * b).dims();
  a = broadcast(a, dims), b = broadcast(b, dims);
  int64_t axis = -1;
  if (c.has("dim")) axis = c.axis_of("dim", a.rank());
  else if (c.node().target == "aten.linalg_cross.default") axis = a.rank() - 1;
  for (int64_t i = 0; i < a.rank() && axis < 0; ++i)
    if (known_equal(size_at(a, i), 3)) axis = i;
  if (axis < 0 || !known_equal(size_at(a, axis), 3)) c.fail("E151", cat("needs an axis of 3, has ", a.value.shape()));
  auto shifted = [&](Expr x, int64_t by) { return rolled(x, axis, by); };
  return one(shifted(a, 2) * shifted(b, 1) - shifted(a, 1) * shifted(b, 2));
}

Values products_of_rows(Call& c) {
  auto [x, y] = in_common_type(c, "x", "y");
  Expr all = x * y;
  return one(reduce(ReduceFn::sum, all, {c.axis_of("dim", all.rank(), -1)}, false));
}

Values matrix_power(Call& c) {
  Expr x = c.tensor("self");
  int64_t n = c.integer("n");
  if (n < 0 || n > 4096) c.unsupported(cat("with n = ", n, " is not supported: 0 to 4096 is"));
  if (n == 0) return one(broadcast(frontend::eye(c, x.dims().back(), x.dims().back(), x.dtype()), x.dims()));
  std::optional<Expr> result;
  for (Expr square = x; n > 0; n >>= 1, square = n > 0 ? matmul(square, square) : square)
    if (n & 1) result = result ? matmul(*result, square) : square;
  return one(*result);
}

Values chain_of_products(Call& c) {
  std::vector<Expr> tensors = c.tensors("tensors");
  if (tensors.size() < 2) c.fail("E140", "needs two tensors or more");
  bool is_row = tensors.front().rank() == 1, is_column = tensors.back().rank() == 1;
  if (is_row) tensors.front() = with_rank(tensors.front(), 2);
  if (is_column) tensors.back() = reshape(tensors.back(), {tensors.back().dims()[0], 1});
  Expr y = tensors[0];
  for (size_t i = 1; i < tensors.size(); ++i) y = matmul(y, tensors[i]);
  Dims dims;
  if (!is_row) dims.push_back(y.dims()[0]);
  if (!is_column) dims.push_back(y.dims()[1]);
  return one(reshape(y, dims));
}

Values bilinear(Call& c) {
  Expr a = c.tensor("input1"), b = c.tensor("input2"), w = c.tensor("weight");
  Dims dims(a.dims().begin(), a.dims().end() - 1);
  Dim rows = product(dims);
  a = reshape(a, {rows, a.dims().back()}), b = reshape(b, {rows, b.dims().back()});
  Expr y = frontend::einsum(c, "bi,oij,bj->bo", {a, w, b});
  if (auto bias = c.optional("bias")) y = y + *bias;
  dims.push_back(w.dims()[0]);
  return one(reshape(y, dims));
}

/// Returns the areas of trapezoids between neighbours along an axis, and the axis. Argument `x` gives the positions of
/// samples; without `x`, `dx` is their distance.
std::pair<Expr, int64_t> areas(Call& c) {
  Expr y = c.tensor("y");
  int64_t axis = c.axis_of("dim", y.rank(), -1);
  Dim left = max(size_at(y, axis) - 1, 0);
  auto neighbours = [&](Expr v, int64_t a) {
    return std::pair{slice(v, a, 0, left), slice(v, a, min(size_at(v, a), 1), left)};
  };
  auto [low, high] = neighbours(y, axis);
  if (!c.has("x")) {
    Operand step = c.has("dx") ? c.operand("dx") : Operand{.kind = Operand::Kind::integer, .integer = 1};
    DType type = is_float(y.dtype()) ? y.dtype() : DType::f32;
    return {(convert(low, type) + convert(high, type)) * 0.5 * step.as(c, type), axis};
  }
  Expr x = c.tensor("x");
  if (x.rank() == 1 && y.rank() != 1) x = along(x, axis, y.rank());
  if (x.rank() < y.rank()) x = with_rank(x, y.rank());
  auto [from, to] = neighbours(x, axis);
  DType type = promoted(c, x.dtype(), y.dtype());
  Expr twice = convert(to - from, type) * convert(low + high, type);  // integers wrap as in torch
  return {convert(is_float(type) ? twice : convert(twice, DType::i64), float_of(type)) * 0.5, axis};
}
Values trapezoid(Call& c) {
  auto [parts, axis] = areas(c);
  return one(reduce(ReduceFn::sum, parts, {axis}, false));
}
Values cumulative_trapezoid(Call& c) {
  auto [parts, axis] = areas(c);
  return one(frontend::running(ReduceFn::sum, parts, axis));
}

Values is_close(Call& c) {
  auto [x, y] = in_common_type(c, "self", "other");
  Expr same = equal(x, y);
  if (!is_float(x.dtype())) x = convert(x, DType::f64), y = convert(y, DType::f64);
  Expr allowed = abs(y) * c.number("rtol", 1e-5) + c.number("atol", 1e-8);
  Expr close = same | ((abs(y) < INFINITY) & (abs(x) < INFINITY) & (abs(x - y) <= allowed));
  return one(c.flag("equal_nan") ? close | (is_nan(x) & is_nan(y)) : close);
}

Expr shortened(Expr x, Expr norm, Expr is_long, double most) {
  return x * convert(select(is_long, most / (norm + 1e-7), frontend::like(norm, 1)), x.dtype());
}

Values renormalized(Call& c) {
  Expr x = c.tensor("self");
  int64_t axis = c.axis_of("dim", x.rank());
  std::vector<int64_t> others = frontend::axes_from(0, x.rank());
  std::erase(others, axis);
  double most = c.number("maxnorm");
  Expr norm = norm_of(convert(x, wide_of(x.dtype())), c.number("p"), others, true);
  return one(shortened(x, norm, norm > most, most));
}

/// Scales the rows in `indices` down to norm max_norm if their norm is greater.
Values renormalized_rows(Call& c) {
  Expr x = c.tensor("self"), index = frontend::flat(convert(c.tensor("indices"), DType::i64));
  double most = c.number("max_norm");
  Expr norm = norm_of(convert(x, wide_of(x.dtype())), c.number("norm_type"), {1}, true);
  auto all = [&](Dims dims, double value) { return frontend::full(c, DType::i64, std::move(dims), value); };
  Dims rows = {x.dims()[0]};
  Expr is_named = frontend::scatter_elements(all(rows, 0), index, all(index.dims(), 1), 0) > 0;
  return one(shortened(x, norm, (norm > most) & reshape(is_named, norm.dims()), most));
}

Values softmax_gradient(Call& c) {
  Expr gradient = c.tensor("grad_output"), y = c.tensor("output");
  int64_t axis = c.axis_of("dim", y.rank());
  DType type = c.element("input_dtype").value_or(y.dtype());
  Expr part = gradient * y;
  std::vector<int64_t> axes;
  if (y.rank() > 0) axes = {axis};
  return one(convert(part - y * reduce(ReduceFn::sum, part, axes, true), type));
}

/// Computes a softmax that is 0, not NaN, where all elements along the axis are -inf.
Values safe_softmax(Call& c) {
  Expr x = c.tensor("self");
  if (auto type = c.element("dtype")) x = convert(x, *type);
  int64_t axis = c.axis_of("dim", x.rank());
  Expr is_empty = equal(reduce(ReduceFn::max, x, {axis}, true), -INFINITY);
  return one(select(is_empty, 0, c.make(Softmax{.axis = axis}, {x})));
}

/// Copies the windows of a picture into columns: [batch, channels * elements of a window, windows].
Values image_to_columns(Call& c) {
  Expr x = c.tensor("self");
  auto two = [&](std::string_view name, int64_t fallback) {
    std::vector<int64_t> numbers = c.integers(name);
    if (numbers.size() < 2) numbers.assign(2, numbers.empty() ? fallback : numbers[0]);
    return numbers;
  };
  auto kernel = two("kernel_size", 1), dilation = two("dilation", 1), padding = two("padding", 0),
       step = two("stride", 1);
  bool is_single = x.rank() == 3;
  if (is_single) x = with_rank(x, 4);
  x = frontend::pad(x, {0, 0, padding[0], padding[1]}, {0, 0, padding[0], padding[1]});
  Dim windows = 1;
  for (int64_t a : {1, 0}) {
    Dim count = floordiv(size_at(x, a + 2) - Dim(dilation[a] * (kernel[a] - 1) + 1), step[a]) + 1;
    Expr offsets = along(iota(c, kernel[a]), 0, 2) * static_cast<double>(dilation[a]);
    x = gather(x, offsets + along(iota(c, count), 1, 2) * static_cast<double>(step[a]), a + 2);
    windows = windows * count;
  }
  // [batch, channels, kernel rows, rows, kernel columns, columns]
  Dims dims = {x.dims()[0], x.dims()[1] * Dim(kernel[0] * kernel[1]), windows};
  x = reshape(transpose(x, {0, 1, 2, 4, 3, 5}), dims);
  return one(is_single ? reshape(x, {dims[1], dims[2]}) : x);
}

Values same_of_real(Call& c) {
  Expr x = c.tensor("self");
  if (is_complex(x.dtype())) c.unsupported(cat("of ", x.dtype(), " is not supported"));
  return one(x);
}
Values last_two_swapped(Call& c) { return one(swap_last(c.tensor(c.has("A") ? "A" : "self"))); }

constexpr Operator composite_rows[] = {
    {"aten.atleast_1d.default", [](Call& c) { return at_least_each(c, 1); }},
    {"aten.atleast_2d.default", [](Call& c) { return at_least_each(c, 2); }},
    {"aten.atleast_3d.default", [](Call& c) { return at_least_each(c, 3); }},
    {"aten.atleast_1d.Sequence", [](Call& c) { return at_least_each(c, 1); }},
    {"aten.atleast_2d.Sequence", [](Call& c) { return at_least_each(c, 2); }},
    {"aten.atleast_3d.Sequence", [](Call& c) { return at_least_each(c, 3); }},
    {"aten.hstack.default", [](Call& c) { return stacked(c, 1, 1); }},
    {"aten.vstack.default", [](Call& c) { return stacked(c, 2, 0); }},
    {"aten.row_stack.default", [](Call& c) { return stacked(c, 2, 0); }},
    {"aten.dstack.default", [](Call& c) { return stacked(c, 3, 2); }},
    {"aten.column_stack.default", column_stack},
    {"aten.tensor_split.sections", [](Call& c) { return split_at(c, c.tensor("self"), c.integer("dim", 0)); }},
    {"aten.tensor_split.indices", [](Call& c) { return split_at(c, c.tensor("self"), c.integer("dim", 0)); }},
    {"aten.hsplit.int", split_columns},
    {"aten.hsplit.array", split_columns},
    {"aten.vsplit.int", [](Call& c) { return split_at(c, c.tensor("self"), 0); }},
    {"aten.vsplit.array", [](Call& c) { return split_at(c, c.tensor("self"), 0); }},
    {"aten.dsplit.int", [](Call& c) { return split_at(c, c.tensor("self"), 2); }},
    {"aten.dsplit.array", [](Call& c) { return split_at(c, c.tensor("self"), 2); }},
    {"aten.broadcast_tensors.default", broadcast_all},
    {"aten.sum_to_size.default", sum_to_size},
    {"aten.block_diag.default", block_diagonal},
    {"aten.cartesian_prod.default", cartesian_product},
    {"aten.channel_shuffle.default", channel_shuffle},
    {"aten.native_channel_shuffle.default", channel_shuffle},
    {"aten.rot90.default", quarter_turns},
    {"aten.fft_fftshift.default", [](Call& c) { return shifted_middle(c, false); }},
    {"aten.fft_ifftshift.default", [](Call& c) { return shifted_middle(c, true); }},
    {"aten.fliplr.default", [](Call& c) { return flipped(c, 1); }},
    {"aten.flipud.default", [](Call& c) { return flipped(c, 0); }},
    {"aten.ravel.default", [](Call& c) { return one(frontend::flat(c.tensor("self"))); }},
    {"aten.diag_embed.default", diag_embed},
    {"aten.diag.default", diag},
    {"aten.diagflat.default", diag_of_all},
    {"aten.trace.default", trace},
    {"aten.addbmm.default", add_batches},
    {"aten.addr.default", add_outer},
    {"aten.tensordot.default", tensor_product},
    {"aten.inner.default", inner},
    {"aten.kron.default", kronecker},
    {"aten.cross.default", cross},
    {"aten.linalg_cross.default", cross},
    {"aten.linalg_vecdot.default", products_of_rows},
    {"aten.linalg_matrix_power.default", matrix_power},
    {"aten.linalg_multi_dot.default", chain_of_products},
    {"aten.bilinear.default", bilinear},
    {"aten.trapezoid.x", trapezoid},
    {"aten.trapezoid.dx", trapezoid},
    {"aten.trapz.x", trapezoid},
    {"aten.trapz.dx", trapezoid},
    {"aten.cumulative_trapezoid.x", cumulative_trapezoid},
    {"aten.cumulative_trapezoid.dx", cumulative_trapezoid},
    {"aten.isclose.default", is_close},
    {"aten.renorm.default", renormalized},
    {"aten.embedding_renorm.default", renormalized_rows},
    {"aten._softmax_backward_data.default", softmax_gradient},
    {"aten._safe_softmax.default", safe_softmax},
    {"aten.im2col.default", image_to_columns},
    {"aten.mH.default", last_two_swapped},
    {"aten.matrix_H.default", last_two_swapped},
    {"aten.adjoint.default", last_two_swapped},
    // Forms for real numbers: all but isreal return their argument.
    {"aten.real.default", same_of_real},
    {"aten.conj.default", same_of_real},
    {"aten._conj.default", same_of_real},
    {"aten.conj_physical.default", same_of_real},
    {"aten._conj_physical.default", same_of_real},
    {"aten.resolve_conj.default", same_of_real},
    {"aten.resolve_neg.default", same_of_real},
    {"aten.isreal.default", [](Call& c) { return one(frontend::full(c, DType::boolean, c.tensor("self").dims(), 1)); }},
};

}  // namespace

std::span<const Operator> composite_operators() { return composite_rows; }

}  // namespace weft::torch
