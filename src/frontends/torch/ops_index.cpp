// SPDX-License-Identifier: Apache-2.0
// Imports operators that read or write at indices given by tensors.
#include <algorithm>
#include <array>
#include <cmath>

#include "frontends/common/arithmetic.h"
#include "frontends/common/indexing.h"
#include "frontends/common/sampling.h"
#include "frontends/common/selection.h"
#include "frontends/torch/promote.h"
#include "ops/indexed.h"
#include "ops/views.h"

namespace weft::torch {
namespace {

Expr index_of(Call& c, std::string_view argument) {
  Expr index = c.tensor(argument);
  if (!is_integer(index.dtype())) c.unsupported(cat("with indices of ", index.dtype(), " is not supported"));
  return index.dtype() == DType::i32 ? index : convert(index, DType::i64);
}

Values index_select(Call& c) {
  Expr x = c.tensor("self"), index = index_of(c, "index");
  if (x.rank() == 0) return c.ignore({"dim"}), one(x);
  int64_t axis = c.axis_of("dim", x.rank());
  if (index.rank() == 0) index = reshape(index, {1});
  return one(frontend::gather(x, index, axis));
}

Values embedding(Call& c) {
  c.ignore({"padding_idx", "scale_grad_by_freq", "sparse"});  // used by gradients only
  return one(frontend::gather(c.tensor("weight"), index_of(c, "indices")));
}

Values gather_along(Call& c) {
  Expr x = c.tensor("self"), index = index_of(c, "index");
  c.ignore({"sparse_grad"});
  int64_t axis = c.axis_of("dim", x.rank());
  if (x.rank() == 0) x = reshape(x, {1});
  Dims dims = index.dims();
  if (known_equal(index.value.shape().elements(), 0)) return one(frontend::full(c, x.dtype(), dims, 0));
  if (index.rank() == 0) index = reshape(index, {1});
  return one(reshape(frontend::gather_elements(x, index, axis), dims));
}

/// The operands of gather and scatter along an axis. Scalars get an axis; updates are cut to the sizes of the indices.
struct Places {
  Expr x, index, updates;
  int64_t axis;
};
Places places_of(Call& c, Expr x) {
  Expr index = index_of(c, "index");
  int64_t axis = c.axis_of("dim", x.rank());
  if (x.rank() == 0) x = reshape(x, {1});
  if (index.rank() == 0) index = reshape(index, {1});
  if (c.has("value")) return {x, index, broadcast(c.operand("value").as(c, x.dtype()), index.dims()), axis};
  Expr updates = convert(c.tensor("src"), x.dtype());
  if (updates.rank() == 0) updates = reshape(updates, {1});
  for (int64_t a = 0; a < index.rank() && updates.rank() == index.rank(); ++a)
    updates = slice(updates, a, 0, index.dims()[a]);
  return {x, index, updates, axis};
}

Values scatter(Call& c, ScatterFn fn) {
  Expr x = c.tensor("self");
  Places at = places_of(c, x);
  if (known_equal(at.index.value.shape().elements(), 0)) return one(x);
  return one(reshape(frontend::scatter_elements(at.x, at.index, at.updates, at.axis, fn), x.dims()));
}

/// Returns x with each update combined into the element at its index; `index` and `updates` have the same sizes. `how`
/// is torch's name of the reduction. Without `with_own`, x's elements at the indices are first replaced: by 1 for a
/// product, by an update for a maximum or minimum, else by 0.
Expr combined_at(Call& c, Expr x, Expr index, Expr updates, int64_t axis, const std::string& how, bool with_own) {
  using frontend::scatter_elements;
  bool is_mean = how == "mean";
  ScatterFn fn = ScatterFn::add;
  if (how == "prod" || how == "multiply") fn = ScatterFn::mul;
  else if (how == "amax") fn = ScatterFn::max;
  else if (how == "amin") fn = ScatterFn::min;
  else if (how != "sum" && how != "add" && !is_mean)
    c.fail("E145", cat("reduce '", printable(how), "' is not sum, prod, mean, amax or amin"));
  bool is_extreme = fn == ScatterFn::max || fn == ScatterFn::min;
  auto all = [&](Expr of, double value) { return frontend::full(c, x.dtype(), of.dims(), value); };
  if (!with_own) x = scatter_elements(x, index, is_extreme ? updates : all(index, fn == ScatterFn::mul), axis);
  Expr y = scatter_elements(x, index, updates, axis, fn);
  if (!is_mean) return y;
  auto counts = [&](Expr of, double value) { return frontend::full(c, DType::i64, of.dims(), value); };
  Expr count = counts(x, 1);
  if (!with_own) count = scatter_elements(count, index, counts(index, 0), axis);
  count = max(scatter_elements(count, index, counts(index, 1), axis, ScatterFn::add), 1);
  return is_float(y.dtype()) ? y / convert(count, y.dtype()) : frontend::floor_divided(y, convert(count, y.dtype()));
}

Values scatter_reduce(Call& c) {
  Expr x = c.tensor("self");
  Places at = places_of(c, x);
  std::string how = c.text("reduce");
  bool with_own = c.flag("include_self", true);
  if (known_equal(at.index.value.shape().elements(), 0)) return one(x);
  return one(reshape(combined_at(c, at.x, at.index, at.updates, at.axis, how, with_own), x.dims()));
}

/// Returns the operands of index_copy, index_add and similar slice writes, expanded to single elements.
Places slices_of(Call& c, Expr x) {
  Expr index = index_of(c, "index");
  int64_t axis = c.axis_of("dim", x.rank());
  if (x.rank() == 0) x = reshape(x, {1});
  if (index.rank() == 0) index = reshape(index, {1});
  Dims wanted = x.dims();
  wanted[axis] = index.dims()[0];
  Expr source = c.has("value") ? c.operand("value").as(c, x.dtype()) : convert(c.tensor("source"), x.dtype());
  if (!c.has("value") && source.rank() == 0) source = reshape(source, {1});
  source = broadcast(source, wanted);
  if (c.has("alpha")) source = source * c.operand("alpha").as(c, x.dtype());
  return {x, broadcast(along(index, axis, x.rank()), wanted), source, axis};
}

Values write_slices(Call& c, ScatterFn fn) {
  Expr x = c.tensor("self");
  Places at = slices_of(c, x);
  return one(reshape(frontend::scatter_elements(at.x, at.index, at.updates, at.axis, fn), x.dims()));
}

Values reduce_slices(Call& c) {
  Expr x = c.tensor("self");
  Places at = slices_of(c, x);
  std::string how = c.text("reduce");
  bool with_own = c.flag("include_self", true);
  return one(reshape(combined_at(c, at.x, at.index, at.updates, at.axis, how, with_own), x.dims()));
}

// ---- Indexing by several tensors ----

/// An indexing by tensors: x with its indexed axes first, and the indices as one tensor of coordinates.
struct Coordinates {
  Expr x;                      ///< indexed axes first
  std::vector<int64_t> order;  ///< the permutation that moved x's axes
  Expr places;                 ///< coordinates, [sizes..., indexed axes]
  Dims sizes;                  ///< the sizes of the indices after broadcasting
  int64_t count = 0, at = 0;   ///< the number of indexed axes, and the position of `sizes` in a result's sizes
};

/// Returns the index tensors. Replaces a mask by the coordinates of its true elements, one tensor for each axis.
std::vector<std::optional<Expr>> indices_of(Call& c) {
  std::vector<std::optional<Expr>> indices;
  for (const auto& index : c.optional_tensors("indices")) {
    bool is_mask = index && (index->dtype() == DType::boolean || index->dtype() == DType::u8);
    if (is_mask && index->rank() > 0) {
      Expr places = frontend::nonzero(*index);
      for (int64_t a = 0; a < index->rank(); ++a)
        indices.push_back(reshape(slice(places, 0, a, 1), {places.dims()[1]}));
      continue;
    }
    if (index && (is_mask || !is_integer(index->dtype()))) c.unsupported(cat("takes no index ", index->value.shape()));
    indices.push_back(index ? std::optional(convert(*index, DType::i64)) : std::nullopt);
  }
  return indices;
}

Coordinates coordinates(Call& c, Expr x, const std::vector<std::optional<Expr>>& indices) {
  Coordinates r{.x = x, .order = {}, .places = x, .sizes = {}};
  std::vector<int64_t> indexed, rest;
  std::vector<Dims> shapes;
  for (int64_t a = 0; a < x.rank(); ++a) {
    bool is_indexed = a < std::ssize(indices) && indices[a];
    (is_indexed ? indexed : rest).push_back(a);
    if (is_indexed) shapes.push_back(indices[a]->dims());
  }
  if (indexed.empty() || std::ssize(indices) > x.rank())
    c.fail("E140", cat("has ", indices.size(), " indices for ", x.value.shape()));
  {
    GuardCollector guards(c.module());
    r.sizes = broadcast_dims(shapes, c.name());
  }
  Values parts;
  for (int64_t a : indexed) parts.push_back(with_last_axis(broadcast(*indices[a], r.sizes)));
  r.places = frontend::concat(c, parts, std::ssize(r.sizes));
  r.count = std::ssize(indexed);
  bool is_together = indexed.back() - indexed.front() + 1 == r.count;
  r.at = is_together ? indexed.front() : 0;
  r.order = indexed;
  r.order.insert(r.order.end(), rest.begin(), rest.end());
  r.x = transpose(x, r.order);
  return r;
}

/// Returns the permutation that moves the first `sizes` of `rank` axes to position `at`.
std::vector<int64_t> moved(int64_t sizes, int64_t at, int64_t rank) {
  std::vector<int64_t> order;
  for (int64_t a = 0; a < at; ++a) order.push_back(sizes + a);
  for (int64_t a = 0; a < sizes; ++a) order.push_back(a);
  for (int64_t a = sizes + at; a < rank; ++a) order.push_back(a);
  return order;
}

Values index(Call& c) {
  Expr x = c.tensor("self");
  std::vector<std::optional<Expr>> indices = indices_of(c);
  auto is_given = [](const auto& index) { return index.has_value(); };
  if (std::ranges::count_if(indices, is_given) == 1 && x.rank() > 0) {
    auto only = std::ranges::find_if(indices, is_given);
    return one(frontend::gather(x, **only, only - indices.begin()));
  }
  Coordinates at = coordinates(c, x, indices);
  Expr y = frontend::gather_nd(at.x, at.places);
  return one(transpose(y, moved(std::ssize(at.sizes), at.at, y.rank())));
}

/// Returns the elements of x at which the mask is true, in order; x and the mask are broadcast.
Values masked_select(Call& c) {
  Expr x = c.tensor("self"), mask = c.tensor("mask");
  Dims dims;
  {
    GuardCollector guards(c.module());
    dims = broadcast_dims(std::array{x.dims(), mask.dims()}, c.name());
  }
  Expr places = frontend::true_places(frontend::flat(broadcast(mask, dims)));
  return one(frontend::gather(frontend::flat(broadcast(x, dims)), places));
}

Values nonzero(Call& c) {
  Expr x = c.tensor("self");
  Expr places = frontend::nonzero(x);
  if (x.rank() == 0) return one(frontend::full(c, DType::i64, {places.dims()[1], 0}, 0));
  return one(transpose(places, {1, 0}));
}

/// Returns the coordinates of elements other than 0, one vector for each axis.
Values nonzero_vectors(Call& c) {
  Expr x = c.tensor(c.has("condition") ? "condition" : "self"), places = frontend::nonzero(x);
  Values vectors;
  for (int64_t a = 0; a < std::max<int64_t>(x.rank(), 1); ++a)
    vectors.push_back(reshape(slice(places, 0, a, 1), {places.dims()[1]}));
  return vectors;
}

Values grid_sample(Call& c) {
  using frontend::Outside;
  int64_t mode = c.integer("interpolation_mode"), outside = c.integer("padding_mode");
  if (mode < 0 || mode > 2 || outside < 0 || outside > 2) c.fail("E145", cat("has modes ", mode, " and ", outside));
  constexpr ResizeMode modes[] = {ResizeMode::linear, ResizeMode::nearest, ResizeMode::cubic};
  constexpr Outside places[] = {Outside::zeros, Outside::border, Outside::reflection};
  Expr x = c.tensor("input"), grid = c.tensor("grid");
  DType type = x.dtype(), wide = wide_of(type);
  x = convert(x, wide), grid = convert(grid, wide);
  return one(convert(frontend::grid_sample(x, grid, modes[mode], places[outside], c.flag("align_corners")), type));
}

/// Multiplies consecutive groups of rows of x by one matrix for each group; `offs` holds the end of each group.
Values grouped_product(Call& c, std::string_view first, std::string_view second) {
  Expr x = c.tensor(first), w = c.tensor(second), ends = convert(c.tensor("offs"), DType::i64);
  if (x.rank() != 2 || w.rank() != 3) c.unsupported(cat("of ", x.value.shape(), " and ", w.value.shape()));
  Dim rows = x.dims()[0], groups = w.dims()[0];
  Expr row = reshape(iota(c, rows), {rows, 1});
  Expr group = reduce(ReduceFn::sum, convert(reshape(ends, {1, groups}) <= row, DType::i64), {1}, false);
  group = min(group, frontend::scalar(c, groups - 1));  // rows after the last group are undefined
  Expr y = c.make(GroupedDot{.type = x.dtype()}, {reshape(x, {rows, 1, x.dims()[1]}), w, group});
  return one(reshape(y, {rows, w.dims()[2]}));
}

/// Reduces the rows in each bag of indices: sum (mode 0), mean (1) or maximum (2). `offsets` holds the starts of bags.
Values embedding_bag(Call& c) {
  c.ignore({"scale_grad_by_freq", "sparse"});  // used by gradients only
  Expr w = c.tensor("weight"), index = convert(c.tensor("indices"), DType::i64), starts = c.tensor("offsets");
  int64_t mode = c.integer("mode", 0), padding = c.integer("padding_idx", -1);
  auto weights = c.optional("per_sample_weights");
  Dim bags = starts.dims()[0] - Dim(c.flag("include_last_offset") ? 1 : 0), count = index.dims()[0];
  Expr place = reshape(iota(c, count), {count, 1});
  starts = convert(starts, DType::i64);
  std::optional<Expr> is_in;  // elements after the last offset are in no bag (include_last_offset)
  if (c.flag("include_last_offset")) is_in = place < reshape(slice(starts, 0, bags, 1), {1, 1});
  starts = slice(starts, 0, 0, bags);
  Expr bag = reduce(ReduceFn::sum, convert(starts <= place, DType::i64), {1}, false) - 1;
  bool is_named = c.has("padding_idx") && (padding >= 0 || c.node().target == "aten.embedding_bag.padding_idx");
  Dim padded = padding < 0 ? w.dims()[0] + Dim(padding) : Dim(padding);
  Expr counts = frontend::full(c, w.dtype(), {count, 1}, 1);
  if (is_named) counts = convert(!equal(reshape(index, {count, 1}), frontend::scalar(c, padded)), w.dtype());
  if (is_in) counts = select(*is_in, counts, 0);
  Expr rows = frontend::gather(w, index);
  if (weights) rows = rows * reshape(*weights, {count, 1});
  auto added = [&](Expr x, double start, ScatterFn fn) {
    Dims dims = {bags, x.dims()[1]};
    return frontend::scatter_elements(frontend::full(c, w.dtype(), dims, start),
                                      broadcast(reshape(bag, {count, 1}), x.dims()), x, 0, fn);
  };
  Expr number = added(counts, 0, ScatterFn::add);
  if (mode == 2) {
    Expr y = added(select(counts > 0, rows, -INFINITY), -INFINITY, ScatterFn::max);
    return one(select(number > 0, y, 0));
  }
  Expr y = added(select(counts > 0, rows, 0), 0, ScatterFn::add);
  return one(mode == 1 ? y / max(number, 1) : y);
}

/// Counts elements in bins of equal width over [min, max].
Values histogram(Call& c) {
  Expr x = c.tensor("self");
  int64_t bins = c.integer("bins", 100);
  double low = c.number("min", 0), high = c.number("max", 0);
  if (bins < 1 || !(low < high)) c.unsupported(cat("of ", bins, " bins from ", low, " to ", high, " is not supported"));
  Expr wide = convert(frontend::flat(x), is_float(x.dtype()) ? x.dtype() : DType::f32);
  Expr bin = floor((wide - low) * (static_cast<double>(bins) / (high - low)));
  bin = select(equal(wide, high), static_cast<double>(bins - 1), bin);
  bin = select((wide >= low) & (wide <= high), bin, -1);
  Expr is_in = equal(reshape(bin, {bin.dims()[0], 1}), reshape(iota(c, bins, wide.dtype()), {1, bins}));
  return one(convert(reduce(ReduceFn::sum, convert(is_in, DType::i64), {0}, false), x.dtype()));
}

/// Imports index_put with one mask over x's leading axes and a single value; returns nothing for other arguments.
std::optional<Values> masked_put(Call& c, Expr x, bool accumulate) {
  std::vector<std::optional<Expr>> indices = c.optional_tensors("indices");
  if (indices.size() != 1 || !indices[0] || indices[0]->dtype() != DType::boolean) return {};
  Expr values = convert(c.tensor("values"), x.dtype()), mask = *indices[0];
  if (!known_equal(values.value.shape().elements(), 1)) return {};
  Dims dims = mask.dims();
  dims.resize(x.dims().size(), 1);
  values = reshape(values, {});
  return one(select(reshape(mask, dims), accumulate ? x + values : values, x));
}

Values index_put(Call& c) {
  Expr x = c.tensor("self");
  bool accumulate = c.flag("accumulate");
  c.ignore({"unsafe"});
  if (auto put = masked_put(c, x, accumulate)) return *put;
  Coordinates at = coordinates(c, x, indices_of(c));
  Dims rest(at.x.dims().begin() + at.count, at.x.dims().end()), wanted = at.sizes;
  wanted.insert(wanted.end(), rest.begin(), rest.end());
  // Updates are broadcast to the sizes that indexing x would give.
  std::vector<int64_t> order = moved(std::ssize(at.sizes), at.at, std::ssize(wanted));
  Dims as_read;
  for (int64_t a : order) as_read.push_back(wanted[a]);
  Expr values = transpose(broadcast(convert(c.tensor("values"), x.dtype()), as_read), frontend::inverse_of(order));
  Expr y = frontend::scatter_nd(at.x, at.places, values, accumulate ? ScatterFn::add : ScatterFn::replace);
  return one(transpose(y, frontend::inverse_of(at.order)));
}

constexpr Operator index_rows[] = {
    {"aten.index_select.default", index_select},
    {"aten.embedding.default", embedding},
    {"aten.gather.default", gather_along},
    {"aten.scatter.src", [](Call& c) { return scatter(c, ScatterFn::replace); }},
    {"aten.scatter.value", [](Call& c) { return scatter(c, ScatterFn::replace); }},
    {"aten.scatter.reduce", scatter_reduce},
    {"aten.scatter.value_reduce", scatter_reduce},
    {"aten.scatter_add.default", [](Call& c) { return scatter(c, ScatterFn::add); }},
    {"aten.scatter_reduce.two", scatter_reduce},
    {"aten.index_add.default", [](Call& c) { return write_slices(c, ScatterFn::add); }},
    {"aten.index_copy.default", [](Call& c) { return write_slices(c, ScatterFn::replace); }},
    {"aten.index_fill.int_Scalar", [](Call& c) { return write_slices(c, ScatterFn::replace); }},
    {"aten.index_fill.int_Tensor", [](Call& c) { return write_slices(c, ScatterFn::replace); }},
    {"aten.index.Tensor", index},
    {"aten.index_put.default", index_put},
    {"aten._unsafe_index.Tensor", index},
    {"aten.masked_select.default", masked_select},
    {"aten.nonzero.default", nonzero},
    {"aten.argwhere.default", nonzero},
    {"aten.nonzero_numpy.default", nonzero_vectors},
    {"aten.where.default", nonzero_vectors},
    {"aten.index_reduce.default", reduce_slices},
    {"aten.grid_sampler_3d.default", grid_sample},
    {"aten.grid_sampler_2d.default", grid_sample},
    {"aten.grid_sampler.default", grid_sample},
    {"aten.histc.default", histogram},
    {"transformers.grouped_mm_fallback.default", [](Call& c) { return grouped_product(c, "input", "weight"); }},
    {"aten._grouped_mm.default", [](Call& c) { return grouped_product(c, "self", "mat2"); }},
    {"aten.embedding_bag.padding_idx", embedding_bag},
    {"aten._embedding_bag_forward_only.default", embedding_bag},
    {"aten._embedding_bag.default", embedding_bag},
    {"aten.embedding_bag.default", embedding_bag},
    {"aten._unsafe_index_put.default", index_put},
};

}  // namespace

std::span<const Operator> index_operators() { return index_rows; }

}  // namespace weft::torch
