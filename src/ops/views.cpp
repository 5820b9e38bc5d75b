// SPDX-License-Identifier: Apache-2.0
#include "ops/views.h"

#include <algorithm>

#include "ops/check.h"
#include "ops/wide.h"

namespace weft {

using namespace shape_rule;

std::span<const std::string_view> names(PadMode) {
  static constexpr std::string_view list[] = {"constant", "reflect", "edge", "wrap"};
  return list;
}

Types Reshape::infer(Operands in) const {
  operand_count(name, in, 1, 1);
  const Shape& x = tensor(name, in, 0);
  Shape result{x.dtype, dims};
  if (!known_equal(x.elements(), result.elements())) {
    require_equal(x.elements(), result.elements(), cat("reshape: elements of ", x, " and ", result));
  }
  return {result};
}

Types Transpose::infer(Operands in) const {
  operand_count(name, in, 1, 1);
  const Shape& x = tensor(name, in, 0);
  length_is(name, "permutation", permutation.size(), x.rank());
  std::vector<int64_t> sorted = permutation;
  std::ranges::sort(sorted);
  Shape result{x.dtype, {}};
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (sorted[i] != static_cast<int64_t>(i))
      refuse("E143", "transpose: ", permutation, " is not a permutation of ", x.rank(), " axes");
    result.dims.push_back(x.dims[permutation[i]]);
  }
  return {result};
}

Types Broadcast::infer(Operands in) const {
  operand_count(name, in, 1, 1);
  const Shape& x = tensor(name, in, 0);
  if (x.dims.size() > dims.size()) refuse("E151", "broadcast: ", x, " has more axes than ", Shape{x.dtype, dims});
  size_t added = dims.size() - x.dims.size();
  for (size_t i = 0; i < x.dims.size(); ++i) {
    if (known_equal(x.dims[i], 1)) continue;
    require_equal(x.dims[i], dims[added + i], cat("broadcast: axis ", i, " of ", x, " to ", Shape{x.dtype, dims}));
  }
  return {Shape{x.dtype, dims}};
}

Types Slice::infer(Operands in) const {
  operand_count(name, in, 1, 1);
  const Shape& x = tensor(name, in, 0);
  length_is(name, "starts", starts.size(), x.rank());
  length_is(name, "sizes", sizes.size(), x.rank());
  length_is(name, "steps", steps.size(), x.rank());
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (steps[i] == 0) refuse("E145", "slice: step of axis ", i, " must not be 0");
    if (sizes[i].upper_bound() < 0) refuse("E144", "slice: axis ", i, " would have size ", sizes[i]);
  }
  return {Shape{x.dtype, sizes}};
}

Types Pad::infer(Operands in) const {
  size_t inputs = mode == PadMode::constant ? 2 : 1;
  operand_count(name, in, inputs, inputs);
  const Shape& x = tensor(name, in, 0);
  length_is(name, "before", before.size(), x.rank());
  length_is(name, "after", after.size(), x.rank());
  if (mode == PadMode::constant) same_type(name, x, tensor(name, in, 1));
  Shape result{x.dtype, {}};
  for (size_t i = 0; i < x.dims.size(); ++i) {
    Dim size = before[i] + x.dims[i] + after[i];
    if (size.upper_bound() < 0) refuse("E144", "pad: axis ", i, " would have size ", size);
    result.dims.push_back(size);
  }
  return {result};
}

Types Concat::infer(Operands in) const {
  operand_count(name, in, 1, SIZE_MAX);
  Shape result = tensor(name, in, 0);
  axis_in_range(name, axis, result.rank());
  for (size_t i = 1; i < in.size(); ++i) {
    const Shape& x = tensor(name, in, i);
    same_type(name, result, x);
    if (x.rank() != result.rank()) refuse("E151", "concat: ranks differ: ", result, " and ", x);
    for (size_t a = 0; a < x.dims.size(); ++a) {
      if (static_cast<int64_t>(a) == axis) result.dims[a] += x.dims[a];
      else require_equal(result.dims[a], x.dims[a], cat("concat: axis ", a, " of inputs 0 and ", i));
    }
  }
  return {result};
}

std::vector<Wide> Reshape::evaluate(std::span<const Wide> in) const { return {with_dims(in[0], fixed(dims))}; }

std::vector<Wide> Transpose::evaluate(std::span<const Wide> in) const {
  std::vector<int64_t> from = row_major_steps(in[0].dims), steps, sizes;
  for (int64_t axis : permutation) {
    steps.push_back(from[axis]);
    sizes.push_back(in[0].dims[axis]);
  }
  return {read_strided(in[0], sizes, 0, steps)};
}

std::vector<Wide> Broadcast::evaluate(std::span<const Wide> in) const {
  std::vector<int64_t> sizes = fixed(dims), steps = row_major_steps(in[0].dims);
  if (product_of(sizes) == in[0].elements()) return {with_dims(in[0], sizes)};
  for (size_t a = 0; a < steps.size(); ++a) {
    if (in[0].dims[a] == 1) steps[a] = 0;
  }
  steps.insert(steps.begin(), sizes.size() - steps.size(), 0);
  return {read_strided(in[0], sizes, 0, steps)};
}

std::vector<Wide> Slice::evaluate(std::span<const Wide> in) const {
  std::vector<int64_t> from = row_major_steps(in[0].dims), walk = from, counts = fixed(sizes);
  int64_t start = 0;
  for (size_t a = 0; a < walk.size(); ++a) {
    int64_t first = starts[a].value(), last = first + (counts[a] - 1) * steps[a];
    bool inside = std::min(first, last) >= 0 && std::max(first, last) < in[0].dims[a];
    if (counts[a] > 0 && !inside && product_of(counts) > 0)
      refuse("E143", "slice: elements ", first, " to ", last, " of an axis of ", in[0].dims[a]);
    walk[a] *= steps[a];
    start += first * from[a];
  }
  return {read_strided(in[0], counts, start, walk)};
}

/// Returns the operand index that position i reads on a padded axis of `size` elements; -1: the fill value. Position 0
/// is the first element of the operand.
static int64_t padded_source(PadMode mode, int64_t i, int64_t size) {
  if (i >= 0 && i < size) return i;
  if (mode == PadMode::constant || size == 0) return -1;
  if (mode == PadMode::edge) return i < 0 ? 0 : size - 1;
  int64_t period = mode == PadMode::wrap ? size : std::max<int64_t>(2 * size - 2, 1);
  int64_t at = ((i % period) + period) % period;
  return at < size ? at : period - at;
}

std::vector<Wide> Pad::evaluate(std::span<const Wide> in) const {
  const Wide& x = in[0];
  std::vector<int64_t> from = row_major_steps(x.dims), sizes;
  for (size_t a = 0; a < x.dims.size(); ++a) sizes.push_back(before[a].value() + x.dims[a] + after[a].value());
  // Computes flat operand indices axis by axis; an element that is -1 (the fill value) along one axis stays -1.
  std::vector<int64_t> source(product_of(sizes), 0);
  for (size_t a = 0; a < sizes.size(); ++a) {
    Rows rows(sizes, static_cast<int64_t>(a));
    for (size_t i = 0; i < source.size(); ++i) {
      int64_t index = static_cast<int64_t>(i) / rows.inner % rows.size - before[a].value();
      int64_t at = padded_source(mode, index, x.dims[a]);
      source[i] = at < 0 || source[i] < 0 ? -1 : source[i] + at * from[a];
    }
  }
  return {with_elements(x, [&]<class T>(std::span<const T> values) {
    T fill = in.size() > 1 ? in[1].as<T>()[0] : T(0);
    std::vector<T> out;
    out.reserve(source.size());
    for (int64_t at : source) out.push_back(at < 0 ? fill : values[at]);
    return make_wide(x.dtype, sizes, std::move(out));
  })};
}

std::vector<Wide> Concat::evaluate(std::span<const Wide> in) const {
  std::vector<int64_t> dims = in[0].dims;
  int64_t& total = dims[axis] = 0;
  for (const Wide& part : in) total += part.dims[axis];
  Rows rows(dims, axis);
  return {with_elements(in[0], [&]<class T>(std::span<const T>) {
    std::vector<T> out;
    out.reserve(product_of(dims));
    for (int64_t outer = 0; outer < rows.outer; ++outer) {
      for (const Wide& part : in) {
        size_t length = part.dims[axis] * rows.inner;
        auto piece = part.as<T>().subspan(outer * length, length);
        out.insert(out.end(), piece.begin(), piece.end());
      }
    }
    return make_wide(in[0].dtype, dims, std::move(out));
  })};
}

}  // namespace weft
