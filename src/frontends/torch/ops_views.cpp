// SPDX-License-Identifier: Apache-2.0
// Operators that move elements: other sizes, other orders, parts of a tensor, several tensors in one.
#include <algorithm>
#include <numeric>

#include "frontends/torch/importer.h"
#include "frontends/torch/promote.h"
#include "ops/indexed.h"
#include "ops/views.h"

namespace weft::torch {
namespace {

Values one(Value value) { return {value}; }

/// `wanted` for `count` elements, where one size may be -1.
Dims with_inferred(Call& c, Dims wanted, const Dim& count) {
  auto open = std::ranges::find_if(wanted, [](const Dim& size) { return known_equal(size, -1); });
  if (open == wanted.end()) return wanted;
  Dim others = 1;
  for (auto size = wanted.begin(); size != wanted.end(); ++size)
    if (size != open) others = others * *size;
  if (known_equal(others, 0)) c.fail("E151", cat("cannot tell the size of -1 among ", wanted));
  auto exact = exact_divide(count, others);
  *open = exact ? *exact : floordiv(count, others);
  return wanted;
}

Values view(Call& c, std::string_view argument) {
  Expr x = c.tensor("self");
  if (c.element("dtype")) c.unsupported("as another type is not supported");
  return one(reshape(x, with_inferred(c, c.sizes(argument), x.value.shape().elements())));
}

/// Axes [first, last] as one.
Values flatten(Call& c) {
  Expr x = c.tensor("self");
  if (x.rank() == 0) return c.ignore({"start_dim", "end_dim"}), one(reshape(x, {1}));
  auto first = static_cast<size_t>(c.axis_of("start_dim", x.rank(), 0));
  auto last = static_cast<size_t>(c.axis_of("end_dim", x.rank(), -1));
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
  auto axis = static_cast<size_t>(c.axis_of("dim", x.rank()));
  Dims parts = with_inferred(c, c.sizes("sizes"), x.dims()[axis]), dims = x.dims();
  dims.erase(dims.begin() + static_cast<ptrdiff_t>(axis));
  dims.insert(dims.begin() + static_cast<ptrdiff_t>(axis), parts.begin(), parts.end());
  return one(reshape(x, dims));
}

Values unsqueeze(Call& c) {
  Expr x = c.tensor("self");
  Dims dims = x.dims();
  dims.insert(dims.begin() + c.axis(c.integer("dim"), x.rank() + 1), 1);
  return one(reshape(x, dims));
}

/// Without those of `axes` that have size 1. One that only the run tells is taken to be another, as torch does.
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

std::vector<int64_t> axes_up_to(int64_t rank) {
  std::vector<int64_t> axes(static_cast<size_t>(rank));
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

Values swapped(Call& c, Expr x, int64_t a, int64_t b) {
  if (x.rank() == 0) return one(x);
  std::vector<int64_t> order = axes_up_to(x.rank());
  std::swap(order.at(static_cast<size_t>(c.axis(a, x.rank()))), order.at(static_cast<size_t>(c.axis(b, x.rank()))));
  return one(transpose(x, order));
}
Values transpose_two(Call& c) { return swapped(c, c.tensor("self"), c.integer("dim0"), c.integer("dim1")); }
Values turned(Call& c) {
  Expr x = c.tensor("self");
  return x.rank() < 2 ? one(x) : swapped(c, x, 0, 1);
}
Values last_two(Call& c) { return swapped(c, c.tensor("self"), -2, -1); }

Values move_axes(Call& c) {
  Expr x = c.tensor("self");
  std::vector<int64_t> from = c.integers("source"), to = c.integers("destination"), order(x.dims().size(), -1), rest;
  if (from.size() != to.size()) c.fail("E140", cat("moves ", from.size(), " axes to ", to.size(), " places"));
  for (size_t i = 0; i < from.size(); ++i)
    order.at(static_cast<size_t>(c.axis(to[i], x.rank()))) = from[i] = c.axis(from[i], x.rank());
  for (int64_t a = 0; a < x.rank(); ++a)
    if (std::ranges::count(from, a) == 0) rest.push_back(a);
  auto next = rest.begin();
  for (int64_t& a : order)
    if (a < 0) a = *next++;
  return one(transpose(x, order));
}

/// `wanted`, where -1 keeps the size of x.
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

// ---- Parts ----

/// A place in an axis, counted from the end where it is negative, within it.
Dim place_in(Call& c, const Dim& place, const Dim& size) {
  if (place.constant() == INT64_MAX) return size;
  if (place.upper_bound() < 0) return max(size + place, 0);
  if (place.lower_bound() < 0) c.unsupported(cat("with a place ", place, " that may be negative is not supported"));
  return known_less_equal(place, size) ? place : min(place, size);
}

struct Part {
  int64_t axis;
  Dim start, size;
  int64_t step;
};

Part part_of(Call& c, Expr x) {
  Part p{c.axis_of("dim", x.rank(), 0), 0, 0, c.integer("step", 1)};
  if (p.step < 1) c.fail("E145", cat("step must be >=1, is ", p.step));
  if (x.rank() == 0) c.fail("E143", "takes a part of a tensor without axes");
  Dim size = x.dims()[static_cast<size_t>(p.axis)];
  p.start = place_in(c, c.size("start", 0), size);
  Dim end = place_in(c, c.size("end", INT64_MAX), size);
  Dim length = known_less_equal(p.start, end) ? end - p.start : max(end - p.start, 0);
  p.size = ceildiv(length, p.step);
  return p;
}

Expr taken(Call& c, Expr x, const Part& p) {
  Slice op{.starts = Dims(x.dims().size(), 0), .sizes = x.dims(), .steps = std::vector<int64_t>(x.dims().size(), 1)};
  auto at = static_cast<size_t>(p.axis);
  op.starts[at] = p.start, op.sizes[at] = p.size, op.steps[at] = p.step;
  bool is_all = p.step == 1 && op.sizes == x.dims() && known_equal(p.start, 0);
  return is_all ? x : c.make(op, {x});
}

/// x with `value` in the place of a part.
Expr replaced(Call& c, Expr x, const Part& p, Expr value) {
  value = broadcast(convert(value, x.dtype()), taken(c, x, p).dims());
  Dim size = x.dims()[static_cast<size_t>(p.axis)];
  if (p.step == 1) {
    Values parts = {slice(x, p.axis, 0, p.start), value, slice(x, p.axis, p.start + p.size, size - p.start - p.size)};
    std::erase_if(parts, [&](Value part) { return known_equal(part.dims()[static_cast<size_t>(p.axis)], 0); });
    return parts.empty() ? x : frontend::concat(c, parts, p.axis);
  }
  Expr places = iota(c, p.size) * static_cast<double>(p.step) + frontend::scalar(c, p.start);
  places = broadcast(along(places, p.axis, x.rank()), value.dims());
  return c.make(ScatterElements{.axis = p.axis}, {x, places, value});
}

Values slice_of(Call& c) {
  Expr x = c.tensor("self");
  return one(taken(c, x, part_of(c, x)));
}
Values slice_scatter(Call& c) {
  Expr x = c.tensor("self");
  return one(replaced(c, x, part_of(c, x), c.tensor("src")));
}

Part row_of(Call& c, Expr x) {
  if (x.rank() == 0) c.fail("E143", "takes a row of a tensor without axes");
  int64_t axis = c.axis_of("dim", x.rank());
  Dim index = c.size("index"), size = x.dims()[static_cast<size_t>(axis)];
  if (index.upper_bound() < 0) index = size + index;
  else if (index.lower_bound() < 0)
    c.unsupported(cat("with an index ", index, " that may be negative is not supported"));
  GuardCollector guards(c.module());
  require_less_equal(index + 1, size, "select: index and size");
  return {axis, index, 1, 1};
}

Expr without_axis(Expr x, int64_t axis) {
  Dims dims = x.dims();
  dims.erase(dims.begin() + axis);
  return reshape(x, dims);
}

Values select_row(Call& c) {
  Expr x = c.tensor("self");
  Part row = row_of(c, x);
  return one(without_axis(taken(c, x, row), row.axis));
}

Expr row_replaced(Call& c, Expr x, Expr value) {
  Part row = row_of(c, x);
  Dims dims = x.dims();
  dims.erase(dims.begin() + row.axis);
  value = broadcast(value, dims);
  dims.insert(dims.begin() + row.axis, 1);
  return replaced(c, x, row, reshape(value, dims));
}
Values select_scatter(Call& c) { return one(row_replaced(c, c.tensor("self"), c.tensor("src"))); }

/// What follows less what stands before it, n times; `prepend` and `append` are joined on first.
Values differences(Call& c) {
  Expr x = c.tensor("self");
  int64_t axis = c.axis_of("dim", x.rank(), -1), times = c.integer("n", 1);
  Values parts = {x};
  if (auto before = c.optional("prepend")) parts.insert(parts.begin(), *before);
  if (auto after = c.optional("append")) parts.push_back(*after);
  x = frontend::concat(c, parts, axis);
  for (int64_t i = 0; i < times; ++i) {
    Dim size = x.dims()[static_cast<size_t>(axis)], left = max(size - 1, 0);
    Expr next = slice(x, axis, min(size, 1), left), before = slice(x, axis, 0, left);
    x = x.dtype() == DType::boolean ? frontend::apply(Fn::logical_xor, next, before) : next - before;
  }
  return one(x);
}

Values narrow(Call& c) {
  Expr x = c.tensor("self");
  int64_t axis = c.axis_of("dim", x.rank());
  Dim start = c.size("start");
  if (start.upper_bound() < 0) start = x.dims()[static_cast<size_t>(axis)] + start;
  return one(slice(x, axis, start, c.size("length")));
}

Values parts_of(Expr x, int64_t axis, const Dims& sizes) {
  Values parts;
  Dim start = 0;
  for (const Dim& size : sizes) {
    parts.push_back(slice(x, axis, start, size));
    start = start + size;
  }
  return parts;
}

/// Parts of `size` each, the last of what is left.
Values equal_parts(Call& c, Expr x, int64_t axis, const Dim& size) {
  Dim all = x.dims()[static_cast<size_t>(axis)];
  auto count = ceildiv(all, size).constant();
  if (!count) c.unsupported(cat("of ", all, " elements into parts of ", size, ": only the run tells how many"));
  Dims sizes;
  for (int64_t i = 0; i < *count; ++i) sizes.push_back(i + 1 < *count ? size : all - size * Dim(i));
  if (sizes.empty()) sizes.push_back(all);
  return parts_of(x, axis, sizes);
}

Values split(Call& c) {
  Expr x = c.tensor("self");
  int64_t axis = c.axis_of("dim", x.rank(), 0);
  if (!c.has("split_size")) return parts_of(x, axis, c.sizes("split_sizes"));
  Dim size = c.size("split_size");
  return known_equal(size, 0) ? one(x) : equal_parts(c, x, axis, size);
}

Values chunk(Call& c) {
  Expr x = c.tensor("self");
  int64_t axis = c.axis_of("dim", x.rank(), 0), count = c.integer("chunks");
  if (count < 1) c.fail("E145", cat("chunks must be >=1, is ", count));
  Dim all = x.dims()[static_cast<size_t>(axis)];
  if (!all.is_constant()) {
    auto part = exact_divide(all, count);
    if (!part)
      c.unsupported(cat("of ", all, " elements into ", count, " parts: only the run tells how many there are"));
    return parts_of(x, axis, Dims(static_cast<size_t>(count), *part));
  }
  Dim size = ceildiv(all, count);
  return known_equal(size, 0) ? parts_of(x, axis, Dims(static_cast<size_t>(count), 0)) : equal_parts(c, x, axis, size);
}

Values unbind(Call& c) {
  Expr x = c.tensor("self");
  int64_t axis = c.axis_of("dim", x.rank(), 0);
  auto count = x.rank() > 0 ? x.dims()[static_cast<size_t>(axis)].constant() : std::nullopt;
  if (!count) c.unsupported(cat("of ", x.value.shape(), ": the number of results must be known"));
  Values rows;
  for (int64_t i = 0; i < *count; ++i) rows.push_back(without_axis(slice(x, axis, i, 1), axis));
  return rows;
}

// ---- Several tensors ----

std::vector<Expr> in_one_type(Call& c, const std::vector<Expr>& tensors) {
  std::vector<Operand> operands;
  for (const Expr& x : tensors) operands.push_back({.kind = Operand::Kind::tensor, .tensor = x.value});
  if (operands.empty()) c.fail("E140", "joins no tensors");
  DType type = result_type(c, operands);
  std::vector<Expr> same;
  for (const Expr& x : tensors) same.push_back(convert(x, type));
  return same;
}

/// torch leaves out tensors of sizes [0], whatever rank the others have.
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
  x = with_rank(x, std::ssize(times));
  Dims split, wide, joined;
  for (size_t a = 0; a < times.size(); ++a) {
    split.insert(split.end(), {1, x.dims()[a]});
    wide.insert(wide.end(), {times[a], x.dims()[a]});
    joined.push_back(times[a] * x.dims()[a]);
  }
  return one(reshape(broadcast(reshape(x, split), wide), joined));
}

/// Each element `repeats` times, one behind the other.
Values repeat_interleave(Call& c) {
  Expr x = c.tensor("self");
  c.ignore({"output_size"});
  if (!c.has("dim")) x = reshape(x, {x.value.shape().elements()});
  auto axis = static_cast<size_t>(c.axis_of("dim", x.rank(), 0));
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

Expr rolled(Expr x, int64_t axis, const Dim& shift) {
  Dim size = x.dims()[static_cast<size_t>(axis)];
  if (known_equal(size, 0)) return x;
  Dim first = mod(shift, size);
  return concat(*x.at, {slice(x, axis, size - first, first), slice(x, axis, 0, size - first)}, axis);
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

// ---- The same elements ----

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

/// Outside of training nothing is dropped.
Values dropout(Call& c) {
  Expr x = c.tensor(c.node().inputs.empty() ? "input" : c.node().inputs[0].name);
  c.ignore({"p"});
  c.require_default("train", !c.flag("train") && !c.flag("training"));
  return one(x);
}

// ---- Borders ----

/// torch lists the last axis first, each with what comes before and behind.
Pad pad_of(Call& c, Expr x, PadMode mode) {
  Dims given = c.sizes(c.has("pad") ? "pad" : "padding");
  Pad pad{.before = Dims(x.dims().size(), 0), .after = Dims(x.dims().size(), 0), .mode = mode};
  if (given.size() % 2 != 0 || given.size() / 2 > x.dims().size())
    c.fail("E140", cat("has ", given.size(), " pads for ", x.value.shape()));
  for (size_t i = 0; i < given.size() / 2; ++i) {
    size_t axis = x.dims().size() - 1 - i;
    pad.before[axis] = given[2 * i], pad.after[axis] = given[2 * i + 1];
  }
  return pad;
}

Values constant_pad(Call& c) {
  Expr x = c.tensor("self");
  Operand value = c.has("value") ? c.operand("value") : Operand{.kind = Operand::Kind::integer};
  return one(c.make(pad_of(c, x, PadMode::constant), {x, value.as(c, x.dtype())}));
}

Values bordered(Call& c, PadMode mode) {
  Expr x = c.tensor("self");
  return one(c.make(pad_of(c, x, mode), {x}));
}

Values pad(Call& c) {
  std::string mode = c.text("mode", "constant");
  if (mode == "constant") return constant_pad(c);
  c.require_default("value", !c.has("value") || c.number("value") == 0);
  if (mode == "reflect") return bordered(c, PadMode::reflect);
  if (mode == "replicate") return bordered(c, PadMode::edge);
  if (mode == "circular") return bordered(c, PadMode::wrap);
  c.fail("E145", cat("mode '", printable(mode), "' is not constant, reflect, replicate or circular"));
}

Values triangle(Call& c, bool upper) {
  Expr x = c.tensor("self");
  if (x.rank() < 2) c.fail("E140", cat("needs a matrix, has ", x.value.shape()));
  Dim rows = x.dims()[x.dims().size() - 2], columns = x.dims().back();
  Expr row = reshape(iota(c, rows), {rows, 1}) + frontend::scalar(c, c.size("diagonal", 0)),
       column = reshape(iota(c, columns), {1, columns});
  Expr keeps = broadcast(upper ? column >= row : column <= row, x.dims());
  return one(select(keeps, x, frontend::full(c, x.dtype(), x.dims(), 0)));
}

/// Channels [r * r, h, w] as one of [h * r, w * r], or the other way round.
Values pixel_shuffle(Call& c, bool back) {
  Expr x = c.tensor("self");
  int64_t r = c.integer(back ? "downscale_factor" : "upscale_factor");
  if (x.rank() < 3 || r < 1) c.fail("E140", cat("of ", x.value.shape(), " by ", r));
  Dims dims = x.dims(), batch(dims.begin(), dims.end() - 3);
  int64_t n = std::ssize(batch);
  Dim channels = dims[dims.size() - 3], h = dims[dims.size() - 2], w = dims.back();
  Dims split = batch, joined = batch;
  std::vector<int64_t> order = axes_up_to(n);
  if (back) {
    split.insert(split.end(), {channels, floordiv(h, r), r, floordiv(w, r), r});
    joined.insert(joined.end(), {channels * Dim(r * r), floordiv(h, r), floordiv(w, r)});
    order.insert(order.end(), {n, n + 2, n + 4, n + 1, n + 3});
  } else {
    split.insert(split.end(), {floordiv(channels, r * r), r, r, h, w});
    joined.insert(joined.end(), {floordiv(channels, r * r), h * Dim(r), w * Dim(r)});
    order.insert(order.end(), {n, n + 3, n + 1, n + 4, n + 2});
  }
  return one(reshape(transpose(reshape(x, split), order), joined));
}

/// Windows of `size` along an axis, which become a new last axis.
Values unfold(Call& c) {
  Expr x = c.tensor("self");
  int64_t axis = c.axis_of("dimension", x.rank()), size = c.integer("size"), step = c.integer("step");
  if (size < 0 || step < 1) c.fail("E145", cat("takes windows of ", size, " in steps of ", step));
  if (x.rank() == 0) c.unsupported("of a tensor without axes is not supported");
  Dim count = floordiv(x.dims()[static_cast<size_t>(axis)] - size, step) + 1;
  Expr first = reshape(iota(c, count) * static_cast<double>(step), {count, 1});
  Expr windows = c.make(Gather{.axis = axis}, {x, first + reshape(iota(c, size), {1, size})});
  std::vector<int64_t> order = axes_up_to(x.rank() + 1);
  std::rotate(order.begin() + axis + 1, order.begin() + axis + 2, order.end());
  return one(transpose(windows, order));
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

Values diagonal(Call& c) {
  Expr x = c.tensor("self");
  int64_t a = c.axis(c.integer("dim1", 0), x.rank()), b = c.axis(c.integer("dim2", 1), x.rank()),
          offset = c.integer("offset", 0);
  std::vector<int64_t> order;
  for (int64_t i = 0; i < x.rank(); ++i)
    if (i != a && i != b) order.push_back(i);
  order.insert(order.end(), {a, b});
  Expr y = transpose(x, order);
  Dim rows = y.dims()[y.dims().size() - 2], columns = y.dims().back();
  Dim down = std::max<int64_t>(-offset, 0), right = std::max<int64_t>(offset, 0);
  Dim count = max(min(rows - down, columns - right), 0);
  Dims flat(y.dims().begin(), y.dims().end() - 2);
  flat.push_back(rows * columns);
  Expr places = (iota(c, count) + frontend::scalar(c, down)) * frontend::scalar(c, columns) + iota(c, count) +
                frontend::scalar(c, right);
  return one(c.make(Gather{.axis = y.rank() - 2}, {reshape(y, flat), places}));
}

constexpr Operator rows[] = {
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
    {"aten.swapaxes.default",
     [](Call& c) { return swapped(c, c.tensor("self"), c.integer("axis0"), c.integer("axis1")); }},
    {"aten.swapdims.default", transpose_two},
    {"aten.t.default", turned},
    {"aten.numpy_T.default", turned},
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
    {"aten.detach_.default", same},
    {"aten.alias.default", same},
    {"aten.lift_fresh.default", same},
    {"aten.lift_fresh_copy.default", same},
    {"aten.to.dtype", converted},
    {"aten.to.device", converted},
    {"aten.to.dtype_layout", converted},
    {"aten.to.other", converted},
    {"aten._to_copy.default", converted},
    {"aten.type_as.default", converted},
    {"aten.copy.default", copy},
    {"aten.dropout.default", dropout},
    {"aten.feature_dropout.default", dropout},
    {"aten.alpha_dropout.default", dropout},
    {"aten.constant_pad_nd.default", constant_pad},
    {"aten.pad.default", pad},
    {"aten.reflection_pad1d.default", [](Call& c) { return bordered(c, PadMode::reflect); }},
    {"aten.reflection_pad2d.default", [](Call& c) { return bordered(c, PadMode::reflect); }},
    {"aten.reflection_pad3d.default", [](Call& c) { return bordered(c, PadMode::reflect); }},
    {"aten.replication_pad1d.default", [](Call& c) { return bordered(c, PadMode::edge); }},
    {"aten.replication_pad2d.default", [](Call& c) { return bordered(c, PadMode::edge); }},
    {"aten.replication_pad3d.default", [](Call& c) { return bordered(c, PadMode::edge); }},
    {"aten.tril.default", [](Call& c) { return triangle(c, false); }},
    {"aten.triu.default", [](Call& c) { return triangle(c, true); }},
    {"aten.pixel_shuffle.default", [](Call& c) { return pixel_shuffle(c, false); }},
    {"aten.pixel_unshuffle.default", [](Call& c) { return pixel_shuffle(c, true); }},
    {"aten.unfold.default", unfold},
    {"aten.meshgrid.default", meshgrid},
    {"aten.meshgrid.indexing", meshgrid},
    {"aten.diagonal.default", diagonal},
};

/// How views write back to their base.
enum class Back : uint8_t { none, same, reshape, again, slice, row, narrow, permute };
struct ViewForm {
  std::string_view name;  ///< without the overload
  Back back;
  bool by_strides = false;  ///< a copy for some strides
};
constexpr ViewForm views[] = {
    {"detach", Back::same},
    {"alias", Back::same},
    {"lift_fresh", Back::same},
    {"dropout", Back::same},
    {"feature_dropout", Back::same},
    {"alpha_dropout", Back::same},
    {"detach_", Back::same},
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
    {"split", Back::none},
    {"split_with_sizes", Back::none},
    {"chunk", Back::none},
    {"unbind", Back::none},
    {"unfold", Back::none},
    {"diagonal", Back::none},
};

const ViewForm* view_form(const Node& node) {
  constexpr std::string_view prefix = "aten.";
  std::string_view name = node.target;
  if (!name.starts_with(prefix)) return nullptr;
  name = name.substr(prefix.size());
  auto found = std::ranges::find(views, name.substr(0, name.rfind('.')), &ViewForm::name);
  return found == std::end(views) ? nullptr : found;
}

/// `to` gives its argument itself where nothing changes.
bool is_conversion(const Node& node) {
  return node.target.starts_with("aten.to.") || node.target == "aten.type_as.default";
}

std::vector<int64_t> inverse(const std::vector<int64_t>& order) {
  std::vector<int64_t> back(order.size());
  for (size_t i = 0; i < order.size(); ++i) back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  return back;
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
  if (!form) return Sharing::none;
  return form->by_strides && !c.importer().is_row_major(c, "self") ? Sharing::perhaps : Sharing::view;
}

Expr written_through(Call& view, Expr base, Expr value) {
  const ViewForm* form = view_form(view.node());
  Back back = form ? form->back : is_conversion(view.node()) ? Back::same : Back::none;
  if (back == Back::same) return value;
  if (back == Back::reshape) return reshape(value, base.dims());
  if (back == Back::slice) return replaced(view, base, part_of(view, base), value);
  if (back == Back::row) return row_replaced(view, base, value);
  if (back == Back::permute) {
    std::vector<int64_t> order = view.integers("dims");
    for (int64_t& a : order) a = view.axis(a, base.rank());
    return transpose(value, inverse(order));
  }
  if (back == Back::narrow) {
    int64_t axis = view.axis_of("dim", base.rank());
    Dim start = view.size("start");
    if (start.upper_bound() < 0) start = base.dims()[static_cast<size_t>(axis)] + start;
    return replaced(view, base, {axis, start, view.size("length"), 1}, value);
  }
  if (back == Back::again && value.rank() < 2) return value;
  std::string_view target = view.node().target;
  if (back == Back::again && (target.ends_with(".t.default") || target.ends_with("numpy_T.default")))
    return view.expr(swapped(view, value, 0, 1)[0]);
  if (back == Back::again && target.ends_with(".mT.default")) return view.expr(swapped(view, value, -2, -1)[0]);
  if (back == Back::again) {
    bool is_axes = target.starts_with("aten.swapaxes");
    return view.expr(
        swapped(view, value, view.integer(is_axes ? "axis0" : "dim0"), view.integer(is_axes ? "axis1" : "dim1"))[0]);
  }
  view.unsupported(cat("shows a tensor that is written through it (", describe(view.node()), ")"));
}

std::span<const Operator> view_operators() { return rows; }

}  // namespace weft::torch
