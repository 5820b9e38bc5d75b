// SPDX-License-Identifier: Apache-2.0
// Imports operators that move elements: reshapes, permutations, slices, concatenations.
#include <algorithm>

#include "frontends/common/create.h"
#include "frontends/common/diagonals.h"
#include "frontends/common/indexing.h"
#include "frontends/common/selection.h"
#include "frontends/common/views.h"
#include "frontends/torch/importer.h"
#include "frontends/torch/promote.h"
#include "frontends/torch/views.h"
#include "ops/indexed.h"
#include "ops/views.h"

namespace weft::torch {

std::vector<Expr> in_one_type(Call& c, const std::vector<Expr>& tensors) {
  std::vector<Operand> operands;
  for (const Expr& x : tensors) operands.push_back({.kind = Operand::Kind::tensor, .tensor = x.value});
  if (operands.empty()) c.fail("E140", "joins no tensors");
  DType type = result_type(c, operands);
  std::vector<Expr> same;
  for (const Expr& x : tensors) same.push_back(convert(x, type));
  return same;
}

Expr rolled(Expr x, int64_t axis, const Dim& shift) {
  Dim size = x.dims()[axis];
  if (known_equal(size, 0)) return x;
  Dim first = mod(shift, size);
  return concat(*x.at, {slice(x, axis, size - first, first), slice(x, axis, 0, size - first)}, axis);
}

namespace {

using frontend::axes_from, frontend::Cut;

Values view(Call& c, std::string_view argument) {
  Expr x = c.tensor("self");
  if (c.element("dtype")) c.unsupported("as another type is not supported");
  return one(frontend::reshape_to(x, c.sizes(argument)));
}

/// Merges axes [first, last] into one.
Values flatten(Call& c) {
  Expr x = c.tensor("self");
  if (x.rank() == 0) return c.ignore({"start_dim", "end_dim"}), one(reshape(x, {1}));
  size_t first = c.axis_of("start_dim", x.rank(), 0);
  size_t last = c.axis_of("end_dim", x.rank(), -1);
  if (first > last) c.fail("E143", cat("has start_dim ", first, " behind end_dim ", last));
  Dims dims;
  for (size_t a = 0; a < x.dims().size(); ++a) {
    if (a > first && a <= last) dims.back() = dims.back() * x.dims()[a];
    else dims.push_back(x.dims()[a]);
  }
  return one(reshape(x, dims));
}

Values unflatten(Call& c) {
  Expr x = c.tensor("self");
  size_t axis = c.axis_of("dim", x.rank());
  Dims parts = c.sizes("sizes"), dims = x.dims();
  dims.erase(dims.begin() + static_cast<ptrdiff_t>(axis));
  dims.insert(dims.begin() + static_cast<ptrdiff_t>(axis), parts.begin(), parts.end());
  return one(frontend::reshape_to(x, dims));
}

Values unsqueeze(Call& c) {
  Expr x = c.tensor("self");
  Dims dims = x.dims();
  dims.insert(dims.begin() + c.axis(c.integer("dim"), x.rank() + 1), 1);
  return one(reshape(x, dims));
}

/// Drops the axes in `dim` (by default all) that have size 1. As in torch, a symbolic size must not be 1 (a guard).
Values squeeze(Call& c) {
  Expr x = c.tensor("self");
  std::vector<int64_t> axes = c.axes_of("dim", x.rank());
  bool is_given = c.has("dim");
  if (is_given && c.integers("dim").empty()) axes.clear();
  Dims dims;
  for (size_t a = 0; a < x.dims().size(); ++a) {
    bool is_named = !is_given || std::ranges::count(axes, static_cast<int64_t>(a)) > 0;
    if (!is_named || !known_equal(x.dims()[a], 1)) dims.push_back(x.dims()[a]);
    if (is_named && !known_equal(x.dims()[a], 1) && !known_different(x.dims()[a], 1)) {
      GuardCollector guards(c.module());
      require_less_equal(1, max(x.dims()[a] - 1, 1 - x.dims()[a]), "squeeze: compiled for sizes other than 1");
    }
  }
  return one(reshape(x, dims));
}

Values permute(Call& c) {
  Expr x = c.tensor("self");
  std::vector<int64_t> order = c.integers("dims");
  if (std::ssize(order) != x.rank()) c.fail("E140", cat("has ", order.size(), " axes for ", x.value.shape()));
  for (int64_t& a : order) a = c.axis(a, x.rank());
  return one(transpose(x, order));
}

Values swapped(Call& c, Expr x, int64_t a, int64_t b) {
  if (x.rank() == 0) return one(x);
  std::vector<int64_t> order = axes_from(0, x.rank());
  std::swap(order.at(c.axis(a, x.rank())), order.at(c.axis(b, x.rank())));
  return one(transpose(x, order));
}
Values transpose_two(Call& c) { return swapped(c, c.tensor("self"), c.integer("dim0"), c.integer("dim1")); }
Values transposed(Call& c) {
  Expr x = c.tensor("self");
  return x.rank() < 2 ? one(x) : swapped(c, x, 0, 1);
}
Values last_two(Call& c) { return swapped(c, c.tensor("self"), -2, -1); }

Values move_axes(Call& c) {
  Expr x = c.tensor("self");
  std::vector<int64_t> from = c.integers("source"), to = c.integers("destination"), order(x.dims().size(), -1), rest;
  if (from.size() != to.size()) c.fail("E140", cat("moves ", from.size(), " axes to ", to.size(), " places"));
  for (size_t i = 0; i < from.size(); ++i) order.at(c.axis(to[i], x.rank())) = from[i] = c.axis(from[i], x.rank());
  for (int64_t a = 0; a < x.rank(); ++a)
    if (std::ranges::count(from, a) == 0) rest.push_back(a);
  auto next = rest.begin();
  for (int64_t& a : order)
    if (a < 0) a = *next++;
  return one(transpose(x, order));
}

/// Returns the sizes `wanted`, where -1 stands for the size of x.
Dims expanded(Call& c, Expr x, Dims wanted) {
  if (std::ssize(wanted) < x.rank()) c.fail("E151", cat("expands ", x.value.shape(), " to ", wanted));
  size_t added = wanted.size() - x.dims().size();
  for (size_t a = added; a < wanted.size(); ++a)
    if (known_equal(wanted[a], -1)) wanted[a] = x.dims()[a - added];
  return wanted;
}

Values expand(Call& c) {
  Expr x = c.tensor("self");
  c.ignore({"implicit"});
  return one(broadcast(x, expanded(c, x, c.sizes("size"))));
}

Values as_other(Call& c) {
  Expr x = c.tensor("self"), other = c.tensor("other");
  bool expands = c.node().target == "aten.expand_as.default";
  return one(expands ? broadcast(x, other.dims()) : reshape(x, other.dims()));
}

Cut part_of(Call& c, Expr x) {
  if (x.rank() == 0) c.fail("E143", "takes a part of a tensor without axes");
  Cut part{c.axis_of("dim", x.rank(), 0), c.size("start", 0), c.size("end", INT64_MAX), c.integer("step", 1)};
  if (part.step < 1) c.fail("E145", cat("step must be >=1, is ", part.step));
  return part;
}

Values slice_of(Call& c) {
  Expr x = c.tensor("self");
  return one(frontend::cut(x, {part_of(c, x)}));
}
Values slice_scatter(Call& c) {
  Expr x = c.tensor("self");
  return one(frontend::replaced(x, part_of(c, x), c.tensor("src")));
}

Cut row_of(Call& c, Expr x) {
  if (x.rank() == 0) c.fail("E143", "takes a row of a tensor without axes");
  int64_t axis = c.axis_of("dim", x.rank());
  Dim index = c.size("index"), size = x.dims()[axis];
  if (index.upper_bound() < 0) index = size + index;
  else if (index.lower_bound() < 0)
    c.unsupported(cat("with an index ", index, " that may be negative is not supported"));
  GuardCollector guards(c.module());
  require_less_equal(index + 1, size, "select: index and size");
  return {axis, index, index + 1};
}

Expr without_axis(Expr x, int64_t axis) {
  Dims dims = x.dims();
  dims.erase(dims.begin() + axis);
  return reshape(x, dims);
}

Values select_row(Call& c) {
  Expr x = c.tensor("self");
  Cut row = row_of(c, x);
  return one(without_axis(slice(x, row.axis, *row.start, 1), row.axis));
}

Expr row_replaced(Call& c, Expr x, Expr value) {
  Cut row = row_of(c, x);
  Dims dims = x.dims();
  dims.erase(dims.begin() + row.axis);
  value = broadcast(value, dims);
  dims.insert(dims.begin() + row.axis, 1);
  return frontend::replaced(x, row, reshape(value, dims));
}
Values select_scatter(Call& c) { return one(row_replaced(c, c.tensor("self"), c.tensor("src"))); }

/// Imports diff: subtracts from each element the element before (for bools: exclusive or), n times, after concatenating
/// `prepend` and `append`.
Values differences(Call& c) {
  Expr x = c.tensor("self");
  int64_t axis = c.axis_of("dim", x.rank(), -1), times = c.integer("n", 1);
  Values parts = {x};
  if (auto before = c.optional("prepend")) parts.insert(parts.begin(), *before);
  if (auto after = c.optional("append")) parts.push_back(*after);
  x = frontend::concat(c, parts, axis);
  for (int64_t i = 0; i < times; ++i) {
    Dim size = x.dims()[axis], left = max(size - 1, 0);
    Expr next = slice(x, axis, min(size, 1), left), before = slice(x, axis, 0, left);
    x = x.dtype() == DType::boolean ? frontend::apply(Fn::logical_xor, next, before) : next - before;
  }
  return one(x);
}

Cut narrowed(Call& c, Expr x) {
  int64_t axis = c.axis_of("dim", x.rank());
  Dim start = c.size("start");
  if (start.upper_bound() < 0) start = x.dims()[axis] + start;
  return {axis, start, start + c.size("length")};
}
Values narrow(Call& c) {
  Expr x = c.tensor("self");
  Cut part = narrowed(c, x);
  return one(slice(x, part.axis, *part.start, c.size("length")));
}

/// Splits into parts of `size`; the last may be smaller.
Values equal_parts(Call& c, Expr x, int64_t axis, const Dim& size) {
  Dim all = x.dims()[axis];
  auto count = ceildiv(all, size).constant();
  if (!count)
    c.unsupported(cat("of ", all, " elements into parts of ", size, " is not supported: their number is open"));
  Dims sizes;
  for (int64_t i = 0; i < *count; ++i) sizes.push_back(i + 1 < *count ? size : all - size * Dim(i));
  if (sizes.empty()) sizes.push_back(all);
  return frontend::split(x, axis, sizes);
}

Values split(Call& c) {
  Expr x = c.tensor("self");
  int64_t axis = c.axis_of("dim", x.rank(), 0);
  if (!c.has("split_size")) return frontend::split(x, axis, c.sizes("split_sizes"));
  Dim size = c.size("split_size");
  return known_equal(size, 0) ? one(x) : equal_parts(c, x, axis, size);
}

Values chunk(Call& c) {
  Expr x = c.tensor("self");
  int64_t axis = c.axis_of("dim", x.rank(), 0), count = c.integer("chunks");
  if (count < 1) c.fail("E145", cat("chunks must be >=1, is ", count));
  Dim all = x.dims()[axis];
  if (!all.is_constant()) {
    auto part = exact_divide(all, count);
    if (!part) c.unsupported(cat("of ", all, " elements into ", count, " parts is not supported: the size is open"));
    return frontend::split(x, axis, Dims(count, *part));
  }
  Dim size = ceildiv(all, count);
  return known_equal(size, 0) ? frontend::split(x, axis, Dims(count, 0)) : equal_parts(c, x, axis, size);
}

Values unbind(Call& c) {
  Expr x = c.tensor("self");
  int64_t axis = c.axis_of("dim", x.rank(), 0);
  auto count = x.rank() > 0 ? x.dims()[axis].constant() : std::nullopt;
  if (!count) c.unsupported(cat("of ", x.value.shape(), ": the number of results must be known"));
  Values rows;
  for (int64_t i = 0; i < *count; ++i) rows.push_back(without_axis(slice(x, axis, i, 1), axis));
  return rows;
}

// ---- Several tensors ----

/// Imports cat, which skips tensors of sizes [0], whatever rank the others have.
Values cat_of(Call& c) {
  Values parts;
  std::vector<Expr> tensors = in_one_type(c, c.tensors("tensors"));
  auto is_nothing = [](const Expr& x) { return x.rank() == 1 && known_equal(x.dims()[0], 0); };
  for (const Expr& x : tensors)
    if (!is_nothing(x)) parts.push_back(x);
  if (parts.empty()) return c.ignore({"dim"}), one(tensors[0]);
  return one(frontend::concat(c, parts, c.axis_of("dim", parts[0].rank(), 0)));
}

Values stack(Call& c) {
  Values parts;
  int64_t axis = 0;
  for (const Expr& x : in_one_type(c, c.tensors("tensors"))) {
    axis = c.axis(c.integer("dim", 0), x.rank() + 1);
    Dims dims = x.dims();
    dims.insert(dims.begin() + axis, 1);
    parts.push_back(reshape(x, dims));
  }
  return one(frontend::concat(c, parts, axis));
}

Values repeat(Call& c, std::string_view argument) {
  Expr x = c.tensor("self");
  Dims times = c.sizes(argument);
  while (argument == "dims" && std::ssize(times) < x.rank()) times.insert(times.begin(), 1);
  if (std::ssize(times) < x.rank()) c.fail("E140", cat("repeats ", x.value.shape(), " by ", times));
  return one(frontend::tile(with_rank(x, std::ssize(times)), times));
}

/// Repeats each element `repeats` times; the copies are neighbours.
Values repeat_interleave(Call& c) {
  Expr x = c.tensor("self");
  c.ignore({"output_size"});
  if (!c.has("dim")) x = reshape(x, {x.value.shape().elements()});
  size_t axis = c.axis_of("dim", x.rank(), 0);
  Dim times = c.size("repeats");
  Dims split = x.dims(), wide, joined = x.dims();
  split.insert(split.begin() + static_cast<ptrdiff_t>(axis) + 1, 1);
  wide = split;
  wide[axis + 1] = times;
  joined[axis] = joined[axis] * times;
  return one(reshape(broadcast(reshape(x, split), wide), joined));
}

Values flip(Call& c) {
  Expr x = c.tensor("self");
  std::vector<int64_t> axes = c.integers("dims");
  for (int64_t axis : axes.empty() || x.rank() == 0 ? std::vector<int64_t>{} : c.axes(axes, x.rank()))
    x = reversed(x, axis);
  return one(x);
}

Values roll(Call& c) {
  Expr x = c.tensor("self");
  Dims shifts = c.sizes("shifts"), dims = x.dims();
  std::vector<int64_t> axes = c.integers("dims");
  if (axes.empty()) return one(reshape(rolled(reshape(x, {x.value.shape().elements()}), 0, shifts.at(0)), dims));
  if (axes.size() != shifts.size()) c.fail("E140", cat("has ", shifts.size(), " shifts for ", axes.size(), " axes"));
  for (size_t i = 0; i < axes.size() && x.rank() > 0; ++i) x = rolled(x, c.axis(axes[i], x.rank()), shifts[i]);
  return one(x);
}

Values same(Call& c) {
  c.ignore({"memory_format"});
  return one(c.tensor("self"));
}

Values converted(Call& c) {
  Expr x = c.tensor("self");
  c.ignore({"device", "layout", "pin_memory", "non_blocking", "copy", "memory_format"});
  if (c.has("other")) return one(convert(x, c.tensor("other").dtype()));
  return one(convert(x, c.element("dtype").value_or(x.dtype())));
}

Values copy(Call& c) {
  Expr x = c.tensor("self");
  c.ignore({"non_blocking"});
  return one(broadcast(convert(c.tensor("src"), x.dtype()), x.dims()));
}

// ---- Borders ----

/// Imports pads. torch lists the last axis first; each axis has its padding before and after.
Values padded(Call& c, PadMode mode, Value fill = {}) {
  Expr x = c.tensor("self");
  Dims given = c.sizes(c.has("pad") ? "pad" : "padding"), before(x.dims().size(), 0), after = before;
  if (given.size() % 2 != 0 || given.size() / 2 > x.dims().size())
    c.fail("E140", cat("has ", given.size(), " pads for ", x.value.shape()));
  for (size_t i = 0; i < given.size() / 2; ++i) {
    size_t axis = x.dims().size() - 1 - i;
    before[axis] = given[2 * i], after[axis] = given[2 * i + 1];
  }
  return one(frontend::pad(x, before, after, mode, fill));
}

Values constant_pad(Call& c) {
  Operand value = c.has("value") ? c.operand("value") : Operand{.kind = Operand::Kind::integer};
  return padded(c, PadMode::constant, value.as(c, c.tensor("self").dtype()));
}

Values pad(Call& c) {
  std::string mode = c.text("mode", "constant");
  if (mode == "constant") return constant_pad(c);
  c.require_default("value", !c.has("value") || c.number("value") == 0);
  if (mode == "reflect") return padded(c, PadMode::reflect);
  if (mode == "replicate") return padded(c, PadMode::edge);
  if (mode == "circular") return padded(c, PadMode::wrap);
  c.fail("E145", cat("mode '", printable(mode), "' is not constant, reflect, replicate or circular"));
}

Values triangle(Call& c, bool upper) {
  return one(frontend::triangle_of(c.tensor("self"), frontend::scalar(c, c.size("diagonal", 0)), upper));
}

/// Rearranges r * r channels [h, w] to one of [h * r, w * r], or with `back` computes the inverse.
Values pixel_shuffle(Call& c, bool back) {
  Expr x = c.tensor("self");
  int64_t r = c.integer(back ? "downscale_factor" : "upscale_factor");
  if (x.rank() < 3 || r < 1) c.fail("E140", cat("needs rank >=3 and a factor >=1, has ", x.value.shape(), " and ", r));
  Dims picture(x.dims().end() - 3, x.dims().end()), dims(x.dims().begin(), x.dims().end() - 3);
  picture.insert(picture.begin(), product(dims));
  x = reshape(x, picture);
  x = back ? frontend::space_to_depth(x, r, true) : frontend::depth_to_space(x, r, true);
  dims.insert(dims.end(), x.dims().begin() + 1, x.dims().end());
  return one(reshape(x, dims));
}

/// Copies windows of `size` along an axis into a new last axis. A scalar becomes a vector first.
Values unfold(Call& c) {
  Expr x = c.tensor("self");
  int64_t axis = c.axis_of("dimension", x.rank()), size = c.integer("size"), step = c.integer("step");
  bool is_scalar = x.rank() == 0;
  if (is_scalar) x = reshape(x, {1});
  if (size > 0 && step > 0) {
    Expr windows = frontend::unfold(x, axis, size, step);
    return one(is_scalar ? reshape(windows, {size}) : windows);
  }
  if (size < 0 || step < 1) c.fail("E145", cat("needs size >=0 and step >=1, has ", size, " and ", step));
  Dims dims = is_scalar ? Dims{} : x.dims();
  if (!is_scalar) dims[axis] = floordiv(x.dims()[axis], step) + 1;
  dims.push_back(0);
  return one(frontend::full(c, x.dtype(), dims, 0));
}

Values meshgrid(Call& c) {
  std::vector<Expr> vectors = c.tensors("tensors");
  std::string indexing = c.text("indexing", "ij");
  Dims dims;
  for (const Expr& x : vectors) dims.push_back(x.rank() == 0 ? Dim(1) : x.dims()[0]);
  auto rank = std::ssize(dims);
  bool swaps = indexing == "xy" && rank >= 2;
  if (swaps) std::swap(dims[0], dims[1]);
  Values grids;
  for (size_t i = 0; i < vectors.size(); ++i) {
    auto axis = static_cast<int64_t>(swaps && i < 2 ? 1 - i : i);
    grids.push_back(broadcast(along(vectors[i], axis, rank), dims));
  }
  return grids;
}

/// Returns the permutation that moves the axes of a diagonal to the end.
std::vector<int64_t> diagonal_order(Call& c, Expr x) {
  bool is_matrix = c.node().target == "aten.linalg_diagonal.default";
  int64_t a = c.axis(c.integer("dim1", is_matrix ? -2 : 0), x.rank()),
          b = c.axis(c.integer("dim2", is_matrix ? -1 : 1), x.rank());
  std::vector<int64_t> order;
  for (int64_t i = 0; i < x.rank(); ++i)
    if (i != a && i != b) order.push_back(i);
  order.insert(order.end(), {a, b});
  return order;
}

Values diagonal_view(Call& c) {
  Expr x = c.tensor(c.has("A") ? "A" : "self"), y = transpose(x, diagonal_order(c, x));
  return one(diagonal(y, y.dims()[y.dims().size() - 2], y.dims().back(), c.integer("offset", 0)));
}

/// Replaces the diagonal of x that the call's arguments select by `value`.
Expr diagonal_replaced(Call& c, Expr x, Expr value) {
  std::vector<int64_t> order = diagonal_order(c, x);
  Expr y = transpose(x, order);
  int64_t offset = c.integer("offset", 0);
  Dim rows = y.dims()[y.dims().size() - 2], columns = y.dims().back();
  Expr mask = frontend::eye(c, rows, columns, DType::boolean, offset);
  return transpose(select(mask, on_diagonal(convert(value, x.dtype()), rows, columns, offset), y),
                   frontend::inverse_of(order));
}
Values diagonal_scatter(Call& c) {
  Expr x = c.tensor("self");
  return one(diagonal_replaced(c, x, c.tensor("src")));
}

/// Imports as_strided: reads the memory of a row-major tensor with other sizes, strides and offset.
Values strided(Call& c) {
  Expr x = c.tensor("self");
  Dims dims = c.sizes("size"), steps = c.sizes("stride");
  if (!c.importer().is_row_major(c, "self")) c.unsupported("of a tensor that is not row-major is not supported");
  if (dims.size() != steps.size()) c.fail("E140", cat("has ", dims.size(), " sizes and ", steps.size(), " strides"));
  Dim own = c.importer().offset_of(c, "self"), first = c.size("storage_offset", own) - own, last = first;
  for (size_t a = 0; a < dims.size(); ++a) last = last + (dims[a] - 1) * steps[a];
  if (known_less_equal(first + 1, 0) || known_less_equal(product(x.dims()), last))
    c.unsupported("reads memory outside of its tensor");
  for (const auto& [least, most] : {std::pair{Dim(0), first}, std::pair{last + 1, product(x.dims())}})
    c.importer().require({Relation::Kind::less_equal, least, most}, "the memory of the tensor");
  Expr places = frontend::scalar(c, first);
  for (size_t a = 0; a < dims.size(); ++a) {
    auto axis = static_cast<int64_t>(a);
    places = places + along(iota(c, dims[a]) * frontend::scalar(c, steps[a]), axis, std::ssize(dims));
  }
  return one(frontend::gather(frontend::flat(x), broadcast(places, dims)));
}

constexpr Operator views_rows[] = {
    {"aten.view.default", [](Call& c) { return view(c, "size"); }},
    {"aten._unsafe_view.default", [](Call& c) { return view(c, "size"); }},
    {"aten.reshape.default", [](Call& c) { return view(c, "shape"); }},
    {"aten.flatten.using_ints", flatten},
    {"aten.unflatten.int", unflatten},
    {"aten.unsqueeze.default", unsqueeze},
    {"aten.squeeze.default", squeeze},
    {"aten.squeeze.dim", squeeze},
    {"aten.squeeze.dims", squeeze},
    {"aten.permute.default", permute},
    {"aten.transpose.int", transpose_two},
    {"aten.transpose_.default", transpose_two},
    {"aten.swapaxes.default",
     [](Call& c) { return swapped(c, c.tensor("self"), c.integer("axis0"), c.integer("axis1")); }},
    {"aten.swapdims.default", transpose_two},
    {"aten.t.default", transposed},
    {"aten.numpy_T.default", transposed},
    {"aten.mT.default", last_two},
    {"aten.movedim.int", move_axes},
    {"aten.movedim.intlist", move_axes},
    {"aten.expand.default", expand},
    {"aten.broadcast_to.default", expand},
    {"aten.expand_as.default", as_other},
    {"aten.view_as.default", as_other},
    {"aten.reshape_as.default", as_other},
    {"aten.slice.Tensor", slice_of},
    {"aten.slice_scatter.default", slice_scatter},
    {"aten.select.int", select_row},
    {"aten.select_scatter.default", select_scatter},
    {"aten.narrow.default", narrow},
    {"aten.diff.default", differences},
    {"aten.split.Tensor", split},
    {"aten.split_with_sizes.default", split},
    {"aten.chunk.default", chunk},
    {"aten.unbind.int", unbind},
    {"aten.cat.default", cat_of},
    {"aten.concat.default", cat_of},
    {"aten.stack.default", stack},
    {"aten.repeat.default", [](Call& c) { return repeat(c, "repeats"); }},
    {"aten.tile.default", [](Call& c) { return repeat(c, "dims"); }},
    {"aten.repeat_interleave.self_int", repeat_interleave},
    {"aten.flip.default", flip},
    {"aten.roll.default", roll},
    {"aten.clone.default", same},
    {"aten.contiguous.default", same},
    {"aten.detach.default", same},
    {"aten.alias.default", same},
    {"aten.lift_fresh.default", same},
    {"aten.lift_fresh_copy.default", same},
    {"aten.to.dtype", converted},
    {"aten.to.device", converted},
    {"aten.to.dtype_layout", converted},
    {"aten.to.other", converted},
    {"aten._to_copy.default", converted},
    {"aten.type_as.default", converted},
    {"prims.convert_element_type.default",
     [](Call& c) { return one(convert(c.tensor("a"), c.element("dtype").value_or(DType::f32))); }},
    {"aten.copy.default", copy},
    {"aten.constant_pad_nd.default", constant_pad},
    {"aten.pad.default", pad},
    {"aten.reflection_pad1d.default", [](Call& c) { return padded(c, PadMode::reflect); }},
    {"aten.reflection_pad2d.default", [](Call& c) { return padded(c, PadMode::reflect); }},
    {"aten.reflection_pad3d.default", [](Call& c) { return padded(c, PadMode::reflect); }},
    {"aten.replication_pad1d.default", [](Call& c) { return padded(c, PadMode::edge); }},
    {"aten.replication_pad2d.default", [](Call& c) { return padded(c, PadMode::edge); }},
    {"aten.replication_pad3d.default", [](Call& c) { return padded(c, PadMode::edge); }},
    {"aten.tril.default", [](Call& c) { return triangle(c, false); }},
    {"aten.triu.default", [](Call& c) { return triangle(c, true); }},
    {"aten.pixel_shuffle.default", [](Call& c) { return pixel_shuffle(c, false); }},
    {"aten.pixel_unshuffle.default", [](Call& c) { return pixel_shuffle(c, true); }},
    {"aten.unfold.default", unfold},
    {"aten.meshgrid.default", meshgrid},
    {"aten.meshgrid.indexing", meshgrid},
    {"aten.diagonal.default", diagonal_view},
    {"aten.linalg_diagonal.default", diagonal_view},
    {"aten.diagonal_scatter.default", diagonal_scatter},
    {"aten.as_strided.default", strided},
    {"aten.unsafe_split.Tensor", split},
    {"aten.unsafe_split_with_sizes.default", split},
    {"aten.unsafe_chunk.default", chunk},
};

/// The way in which a write to a view is applied to its base.
enum class Back : uint8_t { none, same, reshape, again, slice, row, narrow, permute, diagonal, parts, rows };
struct ViewForm {
  std::string_view name;  ///< without the overload
  Back back;
  bool by_strides = false;  ///< may copy instead, depending on the strides
};
constexpr ViewForm views[] = {
    {"detach", Back::same},
    {"alias", Back::same},
    {"lift_fresh", Back::same},
    {"dropout", Back::same},
    {"feature_dropout", Back::same},
    {"alpha_dropout", Back::same},
    {"feature_alpha_dropout", Back::same},
    {"positive", Back::same},
    {"contiguous", Back::same, true},
    {"reshape", Back::reshape, true},
    {"flatten", Back::reshape, true},
    {"reshape_as", Back::reshape, true},
    {"view", Back::reshape},
    {"view_as", Back::reshape},
    {"unflatten", Back::reshape},
    {"unsqueeze", Back::reshape},
    {"squeeze", Back::reshape},
    {"transpose", Back::again},
    {"swapaxes", Back::again},
    {"swapdims", Back::again},
    {"t", Back::again},
    {"numpy_T", Back::again},
    {"mT", Back::again},
    {"permute", Back::permute},
    {"movedim", Back::none},
    {"expand", Back::none},
    {"broadcast_to", Back::none},
    {"expand_as", Back::none},
    {"slice", Back::slice},
    {"select", Back::row},
    {"narrow", Back::narrow},
    {"split", Back::parts},
    {"split_with_sizes", Back::parts},
    {"chunk", Back::parts},
    {"unbind", Back::rows},
    {"unfold", Back::none},
    {"diagonal", Back::diagonal},
    {"linalg_diagonal", Back::none},
    {"as_strided", Back::none},
    {"tensor_split", Back::none},
    {"hsplit", Back::none},
    {"vsplit", Back::none},
    {"dsplit", Back::none},
    {"broadcast_tensors", Back::none},
    {"atleast_1d", Back::none},
    {"atleast_2d", Back::none},
    {"atleast_3d", Back::none},
    {"ravel", Back::reshape, true},
    {"mH", Back::none},
    {"matrix_H", Back::none},
    {"real", Back::same},
    {"conj", Back::same},
    {"_conj", Back::same},
    {"resolve_conj", Back::same},
    {"resolve_neg", Back::same},
};

const ViewForm* view_form(const Node& node) {
  constexpr std::string_view prefix = "aten.";
  std::string_view name = node.target;
  if (!name.starts_with(prefix)) return nullptr;
  name = name.substr(prefix.size(), name.rfind('.') - prefix.size());
  if (name.ends_with('_')) name.remove_suffix(1);  // a view in place
  auto found = std::ranges::find(views, name, &ViewForm::name);
  return found == std::end(views) ? nullptr : found;
}

/// True for conversions, which return their argument itself if its type is unchanged.
bool is_conversion(const Node& node) {
  return node.target.starts_with("aten.to.") || node.target == "aten.type_as.default";
}

}  // namespace

Sharing sharing_of(const Call& c) {
  const Node& node = c.node();
  if (c.has("memory_format") && (is_conversion(node) || view_form(node))) return Sharing::perhaps;
  if (is_conversion(node)) {
    Expr x = c.tensor("self");
    DType type = c.has("other") ? c.tensor("other").dtype() : c.element("dtype").value_or(x.dtype());
    return type == x.dtype() && !c.flag("copy") ? Sharing::view : Sharing::none;
  }
  const ViewForm* form = view_form(node);
  if (!form || drops_values(c)) return Sharing::none;
  return form->by_strides && !c.importer().is_row_major(c, "self") ? Sharing::perhaps : Sharing::view;
}

/// Returns the base after a write to one of several views: concatenates all views, with `value` as view `result`.
Expr part_replaced(Call& view, Expr base, Expr value, size_t result, bool is_row) {
  Values all = find_operator(view.node().target)->translate(view);
  all.at(result) = value.value;
  int64_t axis = view.axis_of("dim", base.rank(), 0);
  Dims row = base.dims();
  row[axis] = 1;
  if (is_row)
    for (Value& part : all) part = reshape(view.expr(part), row).value;
  return view.expr(frontend::concat(view, all, axis));
}

Expr written_through(Call& view, Expr base, Expr value, size_t result) {
  const ViewForm* form = view_form(view.node());
  Back back = form ? form->back : is_conversion(view.node()) ? Back::same : Back::none;
  if (back == Back::same) return value;
  if (back == Back::reshape) return reshape(value, base.dims());
  if (back == Back::slice) return frontend::replaced(base, part_of(view, base), value);
  if (back == Back::row) return row_replaced(view, base, value);
  if (back == Back::permute) {
    std::vector<int64_t> order = view.integers("dims");
    for (int64_t& a : order) a = view.axis(a, base.rank());
    return transpose(value, frontend::inverse_of(order));
  }
  if (back == Back::narrow) return frontend::replaced(base, narrowed(view, base), value);
  if (back == Back::diagonal) return diagonal_replaced(view, base, value);
  if (back == Back::parts || back == Back::rows) return part_replaced(view, base, value, result, back == Back::rows);
  if (back == Back::again && value.rank() < 2) return value;
  std::string_view target = view.node().target;
  if (back == Back::again &&
      (target.starts_with("aten.t.") || target.starts_with("aten.t_.") || target.ends_with("numpy_T.default")))
    return view.expr(swapped(view, value, 0, 1)[0]);
  if (back == Back::again && target.ends_with(".mT.default")) return view.expr(swapped(view, value, -2, -1)[0]);
  if (back == Back::again) {
    bool is_axes = target.starts_with("aten.swapaxes");
    return view.expr(
        swapped(view, value, view.integer(is_axes ? "axis0" : "dim0"), view.integer(is_axes ? "axis1" : "dim1"))[0]);
  }
  view.unsupported(cat("shows a tensor that is written through it (", describe(view.node()), ")"));
}

std::span<const Operator> view_operators() { return views_rows; }

}  // namespace weft::torch
