// SPDX-License-Identifier: Apache-2.0
// Operators that read or write where data say.
#include <algorithm>
#include <array>

#include "frontends/common/sampling.h"
#include "frontends/common/selection.h"
#include "frontends/torch/promote.h"
#include "ops/indexed.h"
#include "ops/views.h"

namespace weft::torch {
namespace {

Values one(Value value) { return {value}; }

Expr index_of(Call& c, std::string_view argument) {
  Expr index = c.tensor(argument);
  if (index.dtype() != DType::i64 && index.dtype() != DType::i32) c.unsupported(cat("with indices of ", index.dtype()));
  return index;
}

Values index_select(Call& c) {
  Expr x = c.tensor("self"), index = index_of(c, "index");
  if (x.rank() == 0) return c.ignore({"dim"}), one(x);
  int64_t axis = c.axis_of("dim", x.rank());
  if (index.rank() == 0) index = reshape(index, {1});
  return one(c.make(Gather{.axis = axis}, {x, index}));
}

Values embedding(Call& c) {
  c.ignore({"padding_idx", "scale_grad_by_freq", "sparse"});  // of the gradient
  return one(c.make(Gather{.axis = 0}, {c.tensor("weight"), index_of(c, "indices")}));
}

Values gather(Call& c) {
  Expr x = c.tensor("self"), index = index_of(c, "index");
  c.ignore({"sparse_grad"});
  int64_t axis = c.axis_of("dim", x.rank());
  if (x.rank() == 0) x = reshape(x, {1});
  Dims dims = index.dims();
  if (index.rank() == 0) index = reshape(index, {1});
  return one(reshape(c.make(GatherElements{.axis = axis}, {x, index}), dims));
}

/// `x` with updates at indices along an axis; updates may be larger than the indices.
Values scatter(Call& c, ScatterFn fn) {
  Expr x = c.tensor("self"), index = index_of(c, "index");
  int64_t axis = c.axis_of("dim", x.rank());
  Dims dims = x.dims();
  if (x.rank() == 0) x = reshape(x, {1});
  if (index.rank() == 0) index = reshape(index, {1});
  Expr updates = index;
  if (c.has("value")) {
    updates = broadcast(c.operand("value").as(c, x.dtype()), index.dims());
  } else {
    updates = c.tensor("src");
    if (updates.rank() == 0) updates = reshape(updates, {1});
    for (int64_t a = 0; a < index.rank() && updates.rank() == index.rank(); ++a)
      updates = slice(updates, a, 0, index.dims()[static_cast<size_t>(a)]);
  }
  if (known_equal(index.value.shape().elements(), 0)) return one(reshape(x, dims));
  return one(reshape(c.make(ScatterElements{.axis = axis, .fn = fn}, {x, index, convert(updates, x.dtype())}), dims));
}

Values scatter_reduce(Call& c) {
  c.require_default("include_self", c.flag("include_self", true));
  std::string how = c.text("reduce");
  if (how == "sum" || how == "add") return scatter(c, ScatterFn::add);
  if (how == "prod" || how == "multiply") return scatter(c, ScatterFn::mul);
  if (how == "amax") return scatter(c, ScatterFn::max);
  if (how == "amin") return scatter(c, ScatterFn::min);
  c.unsupported(cat("with reduce '", printable(how), "' is not supported"));
}

/// Whole slices of `source` along an axis of x.
Values write_slices(Call& c, ScatterFn fn) {
  Expr x = c.tensor("self"), index = index_of(c, "index");
  int64_t axis = c.axis_of("dim", x.rank());
  Dims dims = x.dims();
  if (x.rank() == 0) x = reshape(x, {1});
  if (index.rank() == 0) index = reshape(index, {1});
  Dims wanted = x.dims();
  wanted[static_cast<size_t>(axis)] = index.dims()[0];
  Expr source = c.has("value") ? c.operand("value").as(c, x.dtype()) : convert(c.tensor("source"), x.dtype());
  if (!c.has("value") && source.rank() == 0) source = reshape(source, {1});
  source = broadcast(source, wanted);
  if (c.has("alpha")) source = source * c.operand("alpha").as(c, x.dtype());
  Expr places = broadcast(along(index, axis, x.rank()), wanted);
  return one(reshape(c.make(ScatterElements{.axis = axis, .fn = fn}, {x, places, source}), dims));
}

// ---- Indexing by several tensors ----

/// x with the axes that tensors index in front, and the indices as one tensor of coordinates.
struct Coordinates {
  Expr x;                      ///< indexed axes first
  std::vector<int64_t> order;  ///< of x's axes
  Expr places;                 ///< [sizes of the indices..., axes]
  Dims sizes;                  ///< of the indices
  int64_t count = 0, at = 0;   ///< how many axes are indexed, and where the sizes of the indices go in a result
};

/// A mask stands for the coordinates where it holds, one tensor for each of its axes.
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
    if (index && (is_mask || !is_integer(index->dtype()))) c.unsupported(cat("with an index ", index->value.shape()));
    indices.push_back(index ? std::optional(convert(*index, DType::i64)) : std::nullopt);
  }
  return indices;
}

Coordinates coordinates(Call& c, Expr x, const std::vector<std::optional<Expr>>& indices) {
  Coordinates r{.x = x, .order = {}, .places = x, .sizes = {}};
  std::vector<int64_t> indexed, rest;
  std::vector<Dims> shapes;
  for (int64_t a = 0; a < x.rank(); ++a) {
    bool is_indexed = a < std::ssize(indices) && indices[static_cast<size_t>(a)];
    (is_indexed ? indexed : rest).push_back(a);
    if (is_indexed) shapes.push_back(indices[static_cast<size_t>(a)]->dims());
  }
  if (indexed.empty() || std::ssize(indices) > x.rank())
    c.fail("E140", cat("has ", indices.size(), " indices for ", x.value.shape()));
  {
    GuardCollector guards(c.module());
    r.sizes = broadcast_dims(shapes, c.name());
  }
  Values parts;
  Dims dims = r.sizes;
  dims.push_back(1);
  for (int64_t a : indexed) parts.push_back(reshape(broadcast(*indices[static_cast<size_t>(a)], r.sizes), dims));
  r.places = frontend::concat(c, parts, std::ssize(dims) - 1);
  r.count = std::ssize(indexed);
  bool is_together = indexed.back() - indexed.front() + 1 == r.count;
  r.at = is_together ? indexed.front() : 0;
  r.order = indexed;
  r.order.insert(r.order.end(), rest.begin(), rest.end());
  r.x = transpose(x, r.order);
  return r;
}

/// The permutation that moves the first `sizes` of `rank` axes to stand at `at`.
std::vector<int64_t> moved(int64_t sizes, int64_t at, int64_t rank) {
  std::vector<int64_t> order;
  for (int64_t a = 0; a < at; ++a) order.push_back(sizes + a);
  for (int64_t a = 0; a < sizes; ++a) order.push_back(a);
  for (int64_t a = sizes + at; a < rank; ++a) order.push_back(a);
  return order;
}

std::vector<int64_t> inverse(const std::vector<int64_t>& order) {
  std::vector<int64_t> back(order.size());
  for (size_t i = 0; i < order.size(); ++i) back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  return back;
}

Values index(Call& c) {
  Expr x = c.tensor("self");
  std::vector<std::optional<Expr>> indices = indices_of(c);
  auto is_given = [](const auto& index) { return index.has_value(); };
  if (std::ranges::count_if(indices, is_given) == 1 && x.rank() > 0) {
    auto only = std::ranges::find_if(indices, is_given);
    return one(c.make(Gather{.axis = only - indices.begin()}, {x, **only}));
  }
  Coordinates at = coordinates(c, x, indices);
  Expr y = c.make(GatherNd{}, {at.x, at.places});
  return one(transpose(y, moved(std::ssize(at.sizes), at.at, y.rank())));
}

/// The elements where a mask of x's sizes holds, in order.
Values masked_select(Call& c) {
  Expr x = c.tensor("self"), mask = c.tensor("mask");
  Dims dims;
  {
    GuardCollector guards(c.module());
    dims = broadcast_dims(std::array{x.dims(), mask.dims()}, c.name());
  }
  Expr places = frontend::true_places(frontend::flat(broadcast(mask, dims)));
  return one(c.make(Gather{.axis = 0}, {frontend::flat(broadcast(x, dims)), places}));
}

Values nonzero(Call& c) {
  Expr x = c.tensor("self");
  if (x.rank() == 0) c.unsupported("of a tensor without axes is not supported");
  return one(transpose(frontend::nonzero(x), {1, 0}));
}

Values grid_sample(Call& c) {
  using frontend::Outside;
  int64_t mode = c.integer("interpolation_mode"), outside = c.integer("padding_mode");
  if (mode < 0 || mode > 2 || outside < 0 || outside > 2) c.fail("E145", cat("has modes ", mode, " and ", outside));
  constexpr ResizeMode modes[] = {ResizeMode::linear, ResizeMode::nearest, ResizeMode::cubic};
  constexpr Outside places[] = {Outside::zeros, Outside::border, Outside::reflection};
  Expr x = c.tensor("input"), grid = c.tensor("grid");
  return one(frontend::grid_sample(x, grid, modes[mode], places[outside], c.flag("align_corners")));
}

/// Rows of x in groups that follow each other, each by the matrix of its group; `offs` has where each group ends.
Values grouped_product(Call& c) {
  Expr x = c.tensor("input"), w = c.tensor("weight"), ends = convert(c.tensor("offs"), DType::i64);
  if (x.rank() != 2 || w.rank() != 3) c.unsupported(cat("of ", x.value.shape(), " and ", w.value.shape()));
  Dim rows = x.dims()[0], groups = w.dims()[0];
  Expr row = reshape(iota(c, rows), {rows, 1});
  Expr group = reduce(ReduceFn::sum, convert(reshape(ends, {1, groups}) <= row, DType::i64), {1}, false);
  group = min(group, frontend::scalar(c, groups - 1));  // rows behind the last group may hold anything
  Expr y = c.make(GroupedDot{.type = x.dtype()}, {reshape(x, {rows, 1, x.dims()[1]}), w, group});
  return one(reshape(y, {rows, w.dims()[2]}));
}

/// How many elements lie in each of equal parts of [min, max].
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

/// A mask of x's own leading axes chooses where values of one element go.
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
  // Values have the sizes that reading there would give.
  std::vector<int64_t> order = moved(std::ssize(at.sizes), at.at, std::ssize(wanted));
  Dims as_read;
  for (int64_t a : order) as_read.push_back(wanted[static_cast<size_t>(a)]);
  Expr values = transpose(broadcast(convert(c.tensor("values"), x.dtype()), as_read), inverse(order));
  Expr y = c.make(ScatterNd{.fn = accumulate ? ScatterFn::add : ScatterFn::replace}, {at.x, at.places, values});
  return one(transpose(y, inverse(at.order)));
}

constexpr Operator rows[] = {
    {"aten.index_select.default", index_select},
    {"aten.embedding.default", embedding},
    {"aten.gather.default", gather},
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
    {"aten.grid_sampler_2d.default", grid_sample},
    {"aten.grid_sampler.default", grid_sample},
    {"aten.histc.default", histogram},
    {"transformers.grouped_mm_fallback.default", grouped_product},
    {"aten._unsafe_index_put.default", index_put},
};

}  // namespace

std::span<const Operator> index_operators() { return rows; }

}  // namespace weft::torch
