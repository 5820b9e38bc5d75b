// SPDX-License-Identifier: Apache-2.0
#include "frontends/common/resize.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace weft::frontend {

static Expr vector_of(const Builder& b, const std::vector<double>& numbers) {
  return {&b, constant(b.module(), make_tensor(DType::f64, {std::ssize(numbers)}, std::span<const double>(numbers)))};
}

Resizing::Resizing(Expr x) : op{.dims = x.dims(), .scales = std::vector<double>(x.dims().size(), 1.0)}, x_(x) {}

void Resizing::set_sizes(const std::vector<int64_t>& axes, const Dims& sizes) {
  for (size_t i = 0; i < axes.size(); ++i) {
    op.scales[axes[i]] = known_equal(op.dims[axes[i]], sizes[i]) ? 1 : 0;
    op.dims[axes[i]] = sizes[i];
  }
}

void Resizing::set_scales(const std::vector<int64_t>& axes, const std::vector<double>& scales) {
  for (size_t i = 0; i < axes.size(); ++i) {
    op.scales[axes[i]] = scales[i];
    op.dims[axes[i]] = scaled_size(op.dims[axes[i]], scales[i]);
  }
}

void Resizing::set_scales(const std::vector<int64_t>& axes, Expr scales) {
  scales_ = spread(scales, 0, axes, 1);
  set_computed_sizes(axes, floor(convert(sizes_along(axes) * scales, DType::f32)));
}

void Resizing::set_sizes_in_ratio(const std::vector<int64_t>& axes, const Dims& sizes, bool not_larger) {
  double chosen = 0;
  for (size_t i = 0; i < axes.size(); ++i) {
    double scale = static_cast<double>(sizes[i].value()) / static_cast<double>(op.dims[axes[i]].value());
    chosen = i == 0 ? scale : not_larger ? std::min(chosen, scale) : std::max(chosen, scale);
  }
  for (int64_t a : axes) {
    op.scales[a] = chosen;
    op.dims[a] = static_cast<int64_t>(std::floor(chosen * static_cast<double>(op.dims[a].value()) + 0.5));
  }
}

void Resizing::set_sizes_in_ratio(const std::vector<int64_t>& axes, Expr sizes, bool not_larger) {
  Expr have = sizes_along(axes);
  Expr scale = reduce(not_larger ? ReduceFn::min : ReduceFn::max, sizes / have, {0});
  scales_ = spread(broadcast(scale, have.dims()), 0, axes, 1);
  set_computed_sizes(axes, floor(scale * have + 0.5));
}

void Resizing::set_region(const std::vector<int64_t>& axes, const std::vector<double>& region) {
  size_t rank = op.dims.size();
  op.roi.assign(2 * rank, 0);
  std::fill(op.roi.begin() + static_cast<ptrdiff_t>(rank), op.roi.end(), 1);
  for (size_t i = 0; i < axes.size(); ++i) {
    op.roi[axes[i]] = region[i];
    op.roi[rank + axes[i]] = region[axes.size() + i];
  }
}

void Resizing::set_region(const std::vector<int64_t>& axes, Expr region) {
  set_region({}, std::vector<double>{});
  regions_ = concat(*x_.at, {spread(region, 0, axes, 0), spread(region, std::ssize(axes), axes, 1)}, 0);
}

Expr Resizing::result() const {
  const Builder& b = *x_.at;
  if (!scales_ && !regions_) return {&b, b.emit(op, {x_})};
  size_t rank = op.dims.size();
  Value scales = scales_ ? scales_ : vector_of(b, op.scales),
        regions = regions_ ? regions_ : vector_of(b, op.roi.empty() ? std::vector<double>(2 * rank) : op.roi);
  Expr factors = reshape(concat(b, {scales, regions}, 0), {3, static_cast<int64_t>(rank)});
  return {&b, b.emit(op, {x_, factors})};
}

Dim Resizing::scaled_size(const Dim& size, double scale) const {
  if (!(scale > 0) || !std::isfinite(scale)) x_.at->fail("E155", cat("scale must be finite and >0, is ", scale));
  if (auto known = size.constant()) {
    double exact = static_cast<double>(*known) * scale;
    double scaled = std::floor(in_f64 ? exact : static_cast<float>(*known) * static_cast<float>(scale));
    if (scaled > 0x1p40) x_.at->fail("E146", cat("size ", *known, " * ", scale, " is too large"));
    return static_cast<int64_t>(scaled);
  }
  for (int64_t denominator = 1; denominator <= 1 << 10; denominator *= 2) {
    double numerator = scale * static_cast<double>(denominator);
    if (numerator == std::floor(numerator) && numerator < 0x1p10)  // exact in f32 for sizes up to 2^14
      return floordiv(size * static_cast<int64_t>(numerator), denominator);
  }
  return run_time_size(size, scale);
}

/// Computes floor(size * scale) at run time, because a symbolic expression cannot round the product to a float.
Dim Resizing::run_time_size(const Dim& size, double scale) const {
  const Builder& b = *x_.at;
  constexpr int64_t denominator = 1 << 20;
  double numerator = std::ceil(scale * static_cast<double>(denominator)) + 1;  // an upper bound in spite of rounding
  if (numerator > 0x1p40) b.fail("E146", cat("size ", size, " * ", scale, " is too large"));
  Expr scaled = floor(convert(convert(sizes(b, {size}), DType::f64) * scale, in_f64 ? DType::f64 : DType::f32));
  Dim most = floordiv(size * static_cast<int64_t>(numerator), denominator) + 1;
  return b.sizes_or_bound(convert(scaled, DType::i64), {std::nullopt}, {most})[0];
}

/// Returns f64[rank] with values[first + i] at axis axes[i], and `rest` for the other axes.
Expr Resizing::spread(Expr values, int64_t first, const std::vector<int64_t>& axes, double rest) const {
  Values parts(op.dims.size(), full(*x_.at, DType::f64, {1}, rest));
  for (size_t i = 0; i < axes.size(); ++i) parts[axes[i]] = slice(values, 0, first + static_cast<int64_t>(i), 1);
  return concat(*x_.at, parts, 0);
}

Expr Resizing::sizes_along(const std::vector<int64_t>& axes) const {
  Dims list;
  for (int64_t a : axes) list.push_back(op.dims[a]);
  return convert(sizes(*x_.at, list), DType::f64);
}

/// Sets the result's sizes of `axes` to run-time values: `computed` holds one f64 for each axis.
void Resizing::set_computed_sizes(const std::vector<int64_t>& axes, Expr computed) {
  Dims found = x_.at->sizes_or_bound(convert(computed, DType::i64), std::vector<std::optional<Dim>>(axes.size()));
  for (size_t i = 0; i < axes.size(); ++i) op.dims[axes[i]] = found[i];
}

}  // namespace weft::frontend
