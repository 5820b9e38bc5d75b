// SPDX-License-Identifier: Apache-2.0
#include "ops/reduce.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "ops/check.h"
#include "ops/reference_math.h"
#include "ops/wide.h"

namespace weft {

using namespace shape_rule;

std::span<const std::string_view> names(ReduceFn) {
  static constexpr std::string_view list[] = {"sum", "mean", "product", "min", "max"};
  return list;
}

Types Reduce::infer(Operands in) const {
  operand_count(name, in, 1, 1);
  const Shape& x = numbers(name, in, 0);
  Shape result{x.dtype, {}};
  for (int64_t axis : axes) axis_in_range(name, axis, x.rank());
  if (!std::ranges::is_sorted(axes, std::less_equal{}))
    refuse("E143", "reduce: axes ", axes, " are not sorted and distinct");
  for (size_t i = 0; i < x.dims.size(); ++i) {
    bool reduced = std::ranges::binary_search(axes, static_cast<int64_t>(i));
    if (!reduced) result.dims.push_back(x.dims[i]);
    else if (keep) result.dims.push_back(1);
  }
  return {result};
}

Types ArgReduce::infer(Operands in) const {
  operand_count(name, in, 1, 1);
  const Shape& x = numbers(name, in, 0);
  axis_in_range(name, axis, x.rank());
  Shape result{DType::i64, x.dims};
  if (keep) result.dims[axis] = 1;
  else result.dims.erase(result.dims.begin() + axis);
  return {result};
}

static Shape same_along_axis(std::string_view op, Operands in, int64_t axis) {
  operand_count(op, in, 1, 1);
  const Shape& x = numbers(op, in, 0);
  axis_in_range(op, axis, x.rank());
  return x;
}

static void floats_only(std::string_view op, const Shape& x) {
  if (!is_float(x.dtype)) refuse("E141", op, " is not defined for ", x.dtype);
}

Types Scan::infer(Operands in) const { return {same_along_axis(name, in, axis)}; }

Types Softmax::infer(Operands in) const {
  Shape x = same_along_axis(name, in, axis);
  floats_only(name, x);
  return {x};
}

Types Normalize::infer(Operands in) const {
  Shape x = same_along_axis(name, in, axis);
  floats_only(name, x);
  return {x};
}

Types TopK::infer(Operands in) const {
  Shape values = same_along_axis(name, in, axis);
  Dim& size = values.dims[axis];
  require_less_equal(k, size, cat("top_k: k and axis ", axis, " of ", values));
  size = k;
  return {values, Shape{DType::i64, values.dims}};
}

namespace {

using reference::Combine;

Combine reduce_combine(ReduceFn fn) {
  switch (fn) {
    case ReduceFn::sum:
    case ReduceFn::mean: return Combine::add;
    case ReduceFn::product: return Combine::multiply;
    case ReduceFn::min: return Combine::minimum;
    case ReduceFn::max: return Combine::maximum;
  }
  return Combine::add;
}

void identity(Combine how, DType, double& out) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  out = how == Combine::multiply ? 1 : how == Combine::minimum ? infinity : how == Combine::maximum ? -infinity : 0;
}
void identity(Combine how, DType type, int64_t& out) {
  out = how == Combine::multiply  ? 1
        : how == Combine::minimum ? highest_integer(type)
        : how == Combine::maximum ? lowest_integer(type)
                                  : 0;
}

double mean(DType, double sum, int64_t count) { return sum / static_cast<double>(count); }
int64_t mean(DType type, int64_t sum, int64_t count) {
  if (count == 0) return 0;  // as in reference::divide: integer division by zero gives 0
  if (type == DType::u64) return static_cast<int64_t>(static_cast<uint64_t>(sum) / static_cast<uint64_t>(count));
  return sum / count;
}

/// The sizes and strides of the kept axes and of the reduced axes, and the sizes of the result.
struct Split {
  std::vector<int64_t> kept, kept_steps, taken, taken_steps, result;

  Split(std::span<const int64_t> dims, const Reduce& reduce) {
    std::vector<int64_t> steps = row_major_steps(dims);
    for (size_t a = 0; a < dims.size(); ++a) {
      bool is_taken = std::ranges::binary_search(reduce.axes, static_cast<int64_t>(a));
      (is_taken ? taken : kept).push_back(dims[a]);
      (is_taken ? taken_steps : kept_steps).push_back(steps[a]);
      if (!is_taken || reduce.keep) result.push_back(is_taken ? 1 : dims[a]);
    }
  }
};

/// Calls `f(values, result)` for the values of each row along `axis`; returns the results as a tensor of x's sizes.
template <class T, class F>
Wide map_rows(const Wide& x, int64_t axis, F f) {
  Rows rows(x.dims, axis);
  std::span<const T> in = x.as<T>();
  std::vector<T> out(in.size());
  parallel_parts(rows.count(), rows.size * 16, [&](int64_t begin, int64_t end) {
    std::vector<T> row(rows.size), result(row.size());
    for (int64_t r = begin; r < end; ++r) {
      auto at = [&](size_t i) { return rows.start(r) + i * rows.inner; };
      for (size_t i = 0; i < row.size(); ++i) row[i] = in[at(i)];
      f(std::span<const T>(row), std::span<T>(result));
      for (size_t i = 0; i < row.size(); ++i) out[at(i)] = result[i];
    }
  });
  return make_wide(x.dtype, x.dims, std::move(out));
}

}  // namespace

std::vector<Wide> Reduce::evaluate(std::span<const Wide> in) const {
  const Wide& x = in[0];
  Split split(x.dims, *this);
  Combine how = reduce_combine(fn);
  return {with_elements(x, [&]<class T>(std::span<const T> values) {
    std::vector<int64_t> starts;
    for_each_offset(split.kept, 0, split.kept_steps, [&](int64_t offset) { starts.push_back(offset); });
    std::vector<T> out(starts.size());
    int64_t count = product_of(split.taken);
    parallel_parts(static_cast<int64_t>(out.size()), count * 4, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        T total{};
        identity(how, x.dtype, total);
        for_each_offset(split.taken, starts[i], split.taken_steps,
                        [&](int64_t offset) { total = reference::combine(how, x.dtype, total, values[offset]); });
        out[i] = fn == ReduceFn::mean ? mean(x.dtype, total, count) : total;
      }
    });
    return make_wide(x.dtype, split.result, std::move(out));
  })};
}

std::vector<Wide> ArgReduce::evaluate(std::span<const Wide> in) const {
  const Wide& x = in[0];
  Rows rows(x.dims, axis);
  std::vector<int64_t> out, dims = x.dims;
  with_elements(x, [&]<class T>(std::span<const T> values) {
    for (int64_t r = 0; r < rows.count(); ++r) {
      check_watch();
      auto value = [&](int64_t i) { return values[rows.start(r) + i * rows.inner]; };
      int64_t best = 0;
      for (int64_t i = 1; i < rows.size; ++i) {
        T a = value(best), b = value(i);
        bool is_level = a == b || (a != a && b != b), has_nan = a != a || b != b;  // NaN is best
        bool better = largest ? reference::less(x.dtype, a, b) : reference::less(x.dtype, b, a);
        if (is_level ? last : has_nan ? a == a : better) best = i;
      }
      out.push_back(best);
    }
  });
  if (keep) dims[axis] = 1;
  else dims.erase(dims.begin() + axis);
  return {make_wide(DType::i64, dims, std::move(out))};
}

std::vector<Wide> Scan::evaluate(std::span<const Wide> in) const {
  const Wide& x = in[0];
  Combine how = reduce_combine(fn);
  return {with_elements(x, [&]<class T>(std::span<const T>) {
    return map_rows<T>(x, axis, [&](std::span<const T> row, std::span<T> out) {
      T total{};
      identity(how, x.dtype, total);
      for (size_t n = 0; n < row.size(); ++n) {
        size_t i = reverse ? row.size() - 1 - n : n;
        T next = reference::combine(how, x.dtype, total, row[i]);
        out[i] = exclusive ? total : next;
        total = next;
      }
    });
  })};
}

std::vector<Wide> Softmax::evaluate(std::span<const Wide> in) const {
  return {map_rows<double>(in[0], axis, [&](std::span<const double> row, std::span<double> out) {
    double highest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (double v : row) highest = reference::maximum(highest, v);
    for (double v : row) sum += std::exp(v - highest);
    for (size_t i = 0; i < row.size(); ++i)
      out[i] = logarithm ? row[i] - highest - std::log(sum) : std::exp(row[i] - highest) / sum;
  })};
}

std::vector<Wide> Normalize::evaluate(std::span<const Wide> in) const {
  // Merges the axes from `axis` on into one.
  std::vector<int64_t> dims(in[0].dims.begin(), in[0].dims.begin() + axis);
  dims.push_back(product_of(std::span(in[0].dims).subspan(axis)));
  Wide flat = with_dims(in[0], dims);
  Wide result = map_rows<double>(flat, axis, [&](std::span<const double> row, std::span<double> out) {
    auto count = static_cast<double>(row.size());
    double centre = centred ? std::accumulate(row.begin(), row.end(), 0.0) / count : 0, squares = 0;
    for (double v : row) squares += (v - centre) * (v - centre);
    double factor = 1 / std::sqrt(squares / count + epsilon);
    for (size_t i = 0; i < row.size(); ++i) out[i] = (row[i] - centre) * factor;
  });
  return {with_dims(result, in[0].dims)};
}

std::vector<Wide> TopK::evaluate(std::span<const Wide> in) const {
  const Wide& x = in[0];
  Rows rows(x.dims, axis);
  std::vector<int64_t> dims = x.dims, order(rows.size);
  dims[axis] = k.value();
  Rows to(dims, axis);
  std::vector<int64_t> indices(product_of(dims));
  Wide values = with_elements(x, [&]<class T>(std::span<const T> from) {
    std::vector<T> out(indices.size());
    for (int64_t r = 0; r < rows.count(); ++r) {
      check_watch();
      auto value = [&](int64_t i) { return from[rows.start(r) + i * rows.inner]; };
      std::iota(order.begin(), order.end(), 0);
      std::ranges::sort(order, [&](int64_t a, int64_t b) {
        T first = value(largest ? b : a), second = value(largest ? a : b);
        bool is_less = reference::less(x.dtype, first, second);
        return is_less || (a < b && !reference::less(x.dtype, second, first));
      });
      for (int64_t i = 0; i < to.size; ++i) {
        size_t at = to.start(r) + i * to.inner;
        indices[at] = order[i];
        out[at] = value(indices[at]);
      }
    }
    return make_wide(x.dtype, dims, std::move(out));
  });
  return {values, make_wide(DType::i64, dims, std::move(indices))};
}

}  // namespace weft
