// SPDX-License-Identifier: Apache-2.0
#include "ops/indexed.h"

#include "ops/check.h"
#include "ops/elementwise.h"
#include "ops/reference_math.h"
#include "ops/wide.h"

namespace weft {

using namespace shape_rule;

std::span<const std::string_view> names(ScatterFn) {
  static constexpr std::string_view list[] = {"replace", "add", "mul", "min", "max"};
  return list;
}

static const Shape& indices_of(std::string_view op, Operands in, size_t index) {
  const Shape& indices = tensor(op, in, index);
  if (indices.dtype != DType::i64 && indices.dtype != DType::i32)
    refuse("E141", op, ": indices are ", indices.dtype, ", not i32 or i64");
  return indices;
}

/// Returns the number of coordinates in the last axis of the indices of a gather_nd or scatter_nd.
static int64_t coordinates(std::string_view op, const Shape& indices, int64_t available) {
  if (indices.rank() < 1) refuse("E151", op, ": indices ", indices, " need at least one axis");
  auto count = indices.dims.back().constant();
  if (!count) refuse("E151", op, ": the last axis of indices ", indices, " must be a number");
  if (*count > available) refuse("E151", op, ": ", *count, " coordinates for ", available, " axes");
  return *count;
}

Types Gather::infer(Operands in) const {
  operand_count(name, in, 2, 2);
  const Shape &x = tensor(name, in, 0), &indices = indices_of(name, in, 1);
  axis_in_range(name, axis, x.rank());
  Shape result{x.dtype, Dims(x.dims.begin(), x.dims.begin() + axis)};
  result.dims.insert(result.dims.end(), indices.dims.begin(), indices.dims.end());
  result.dims.insert(result.dims.end(), x.dims.begin() + axis + 1, x.dims.end());
  return {result};
}

/// Throws unless indices have x's rank and, except along `axis`, at most x's sizes; symbolic sizes get guards.
static void inside_other_axes(std::string_view op, const Shape& x, const Shape& indices, int64_t axis) {
  if (x.rank() != indices.rank()) refuse("E151", op, ": ranks of ", x, " and ", indices, " differ");
  for (size_t i = 0; i < x.dims.size(); ++i) {
    if (static_cast<int64_t>(i) != axis)
      require_less_equal(indices.dims[i], x.dims[i], cat(op, ": axis ", i, " of indices ", indices, " and ", x));
  }
}

Types GatherElements::infer(Operands in) const {
  operand_count(name, in, 2, 2);
  const Shape &x = tensor(name, in, 0), &indices = indices_of(name, in, 1);
  axis_in_range(name, axis, x.rank());
  inside_other_axes(name, x, indices, axis);
  return {Shape{x.dtype, indices.dims}};
}

Types GatherNd::infer(Operands in) const {
  operand_count(name, in, 2, 2);
  const Shape &x = tensor(name, in, 0), &indices = indices_of(name, in, 1);
  if (batch < 0 || batch >= indices.rank() || batch >= x.rank())
    refuse("E143", "gather_nd: ", batch, " batch axes of ", x, " and ", indices);
  for (size_t b = batch; b-- > 0;) require_equal(x.dims[b], indices.dims[b], cat("gather_nd: batch axis ", b));
  int64_t count = coordinates(name, indices, x.rank() - batch);
  Shape result{x.dtype, Dims(indices.dims.begin(), indices.dims.end() - 1)};
  result.dims.insert(result.dims.end(), x.dims.begin() + batch + count, x.dims.end());
  return {result};
}

Types ScatterElements::infer(Operands in) const {
  operand_count(name, in, 3, 3);
  const Shape &x = tensor(name, in, 0), &indices = indices_of(name, in, 1), &updates = tensor(name, in, 2);
  axis_in_range(name, axis, x.rank());
  same_type(name, x, updates);
  same_dims(name, indices, updates);
  inside_other_axes(name, x, indices, axis);
  return {x};
}

Types ScatterNd::infer(Operands in) const {
  operand_count(name, in, 3, 3);
  const Shape &x = tensor(name, in, 0), &indices = indices_of(name, in, 1), &updates = tensor(name, in, 2);
  same_type(name, x, updates);
  int64_t count = coordinates(name, indices, x.rank());
  Shape wanted{x.dtype, Dims(indices.dims.begin(), indices.dims.end() - 1)};
  wanted.dims.insert(wanted.dims.end(), x.dims.begin() + count, x.dims.end());
  same_dims(name, wanted, updates);
  return {x};
}

Types Iota::infer(Operands in) const {
  operand_count(name, in, 0, 0);
  axis_in_range(name, axis, static_cast<int64_t>(dims.size()));
  return {Shape{type, dims}};
}

namespace {

/// A list of indices along axes; negative indices count from the end. Throws E301 for an index outside its axis.
class Places {
 public:
  Places(std::string_view op, const Wide& indices) : op_(op), indices_(indices.as<int64_t>()) {}

  int64_t at(int64_t i, int64_t size) const {
    int64_t index = indices_[i], place = index < 0 ? index + size : index;
    if (place >= 0 && place < size) return place;
    throw Error({.kind = ErrorKind::usage,
                 .code = "E301",
                 .what = cat(op_, ": index ", index, " is outside an axis of ", size, " elements")});
  }

  /// Returns the flat offset of the i-th group of `count` coordinates, which belong to the axes from `first` on.
  int64_t offset(int64_t i, int64_t count, std::span<const int64_t> dims, size_t first) const {
    int64_t total = 0;
    std::vector<int64_t> steps = row_major_steps(dims);
    for (int64_t c = 0; c < count; ++c) {
      size_t axis = first + c;
      total += at(i * count + c, dims[axis]) * steps[axis];
    }
    return total;
  }

 private:
  std::string_view op_;
  std::span<const int64_t> indices_;
};

/// Returns a flat position in x for each element of `indices`: its coordinates, but along `axis` the index it holds.
std::vector<int64_t> element_places(std::string_view op, const Wide& indices, const Wide& x, int64_t axis) {
  Places places(op, indices);
  std::vector<int64_t> steps = row_major_steps(x.dims), offsets;
  int64_t size = x.dims[axis], step = steps[axis], i = 0;
  steps[axis] = 0;
  for_each_offset(indices.dims, 0, steps,
                  [&](int64_t offset) { offsets.push_back(offset + places.at(i++, size) * step); });
  return offsets;
}

/// Returns a tensor of sizes `dims` that consists of a slice of `length` elements from each of `offsets` in x.
Wide gather_slices(const Wide& x, std::span<const int64_t> offsets, int64_t length, std::vector<int64_t> dims) {
  return with_elements(x, [&]<class T>(std::span<const T> values) {
    std::vector<T> out;
    out.reserve(offsets.size() * length);
    for (int64_t offset : offsets) {
      auto slice = values.subspan(offset, length);
      out.insert(out.end(), slice.begin(), slice.end());
    }
    return make_wide(x.dtype, dims, std::move(out));
  });
}

reference::Combine scatter_combine(ScatterFn fn) {
  using enum reference::Combine;
  constexpr reference::Combine list[] = {replace, add, multiply, minimum, maximum};
  return list[static_cast<size_t>(fn)];
}

/// Returns x with slices of `length` elements of `updates` combined into it at `offsets`, in order.
Wide scatter_slices(const Wide& x, std::span<const int64_t> offsets, int64_t length, const Wide& updates,
                    ScatterFn fn) {
  reference::Combine how = scatter_combine(fn);
  return with_elements(x, [&]<class T>(std::span<const T> values) {
    std::vector<T> out(values.begin(), values.end());
    auto from = updates.as<T>().begin();
    for (int64_t offset : offsets) {
      for (int64_t at = offset; at < offset + length; ++at)
        out[at] = reference::combine(how, x.dtype, out[at], *from++);
    }
    return make_wide(x.dtype, x.dims, std::move(out));
  });
}

}  // namespace

std::vector<Wide> Gather::evaluate(std::span<const Wide> in) const {
  const Wide &x = in[0], &indices = in[1];
  Rows rows(x.dims, axis);
  Places places(name, indices);
  std::vector<int64_t> offsets;
  for (int64_t outer = 0; outer < rows.outer; ++outer) {
    for (int64_t i = 0; i < indices.elements(); ++i)
      offsets.push_back((outer * rows.size + places.at(i, rows.size)) * rows.inner);
  }
  std::vector<int64_t> dims(x.dims.begin(), x.dims.begin() + axis);
  dims.insert(dims.end(), indices.dims.begin(), indices.dims.end());
  dims.insert(dims.end(), x.dims.begin() + axis + 1, x.dims.end());
  return {gather_slices(x, offsets, rows.inner, dims)};
}

std::vector<Wide> GatherElements::evaluate(std::span<const Wide> in) const {
  return {gather_slices(in[0], element_places(name, in[1], in[0], axis), 1, in[1].dims)};
}

std::vector<Wide> GatherNd::evaluate(std::span<const Wide> in) const {
  const Wide &x = in[0], &indices = in[1];
  Places places(name, indices);
  int64_t count = indices.dims.back();
  std::span<const int64_t> sizes(x.dims);
  int64_t length = product_of(sizes.subspan(batch + count));
  int64_t batches = product_of(sizes.first(batch)), image = product_of(sizes.subspan(batch));
  std::vector<int64_t> offsets, dims(indices.dims.begin(), indices.dims.end() - 1);
  int64_t lookups = product_of(dims);
  for (int64_t i = 0; i < lookups; ++i)
    offsets.push_back(i / (lookups / batches) * image + places.offset(i, count, sizes, batch));
  dims.insert(dims.end(), x.dims.begin() + batch + count, x.dims.end());
  return {gather_slices(x, offsets, length, dims)};
}

std::vector<Wide> ScatterElements::evaluate(std::span<const Wide> in) const {
  return {scatter_slices(in[0], element_places(name, in[1], in[0], axis), 1, in[2], fn)};
}

std::vector<Wide> ScatterNd::evaluate(std::span<const Wide> in) const {
  const Wide &x = in[0], &indices = in[1];
  Places places(name, indices);
  int64_t count = indices.dims.back();
  std::vector<int64_t> offsets;
  int64_t writes = product_of(std::span(indices.dims).first(indices.dims.size() - 1));
  for (int64_t i = 0; i < writes; ++i) offsets.push_back(places.offset(i, count, x.dims, 0));
  return {scatter_slices(x, offsets, product_of(std::span(x.dims).subspan(count)), in[2], fn)};
}

std::vector<Wide> Iota::evaluate(std::span<const Wide>) const {
  std::vector<int64_t> sizes = fixed(dims), values(product_of(sizes));
  Rows rows(sizes, axis);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int64_t>(i) / rows.inner % rows.size;
  Wide numbers = make_wide(DType::i64, sizes, std::move(values));
  return Convert{.to = type}.evaluate(std::span(&numbers, 1));
}

}  // namespace weft
