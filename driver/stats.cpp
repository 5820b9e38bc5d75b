// SPDX-License-Identifier: Apache-2.0
#include "driver/stats.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace weft::driver {
namespace {

Difference unequal(std::string reason) {
  Difference difference;
  difference.is_equal = false;
  difference.mismatches = -1;
  difference.reason = std::move(reason);
  return difference;
}

/// Sums over the pairs of finite elements of two compared tensors. `largest` is the largest |reference|.
struct Sums {
  double error = 0, value = 0, reference = 0, product = 0, largest = 0;
};

Sums sums_of(const std::vector<double>& y, const std::vector<double>& r) {
  Sums sums;
  for (size_t i = 0; i < y.size(); ++i) {
    if (!std::isfinite(y[i]) || !std::isfinite(r[i])) continue;
    sums.error += (y[i] - r[i]) * (y[i] - r[i]);
    sums.value += y[i] * y[i];
    sums.reference += r[i] * r[i];
    sums.product += y[i] * r[i];
    sums.largest = std::max(sums.largest, std::fabs(r[i]));
  }
  return sums;
}

double allowed_error(double reference, double largest, bool is_exact, const Tolerance& t) {
  if (t.rtol >= 0 || t.atol >= 0) return std::max(t.atol, 0.0) + std::max(t.rtol, 0.0) * std::fabs(reference);
  return is_exact ? 0 : t.peak * largest;
}

bool agrees(double y, double r, double allowed) {
  if (std::isnan(y) || std::isnan(r)) return std::isnan(y) && std::isnan(r);
  return y == r || std::fabs(y - r) <= allowed;
}

Difference compare_strings(const Tensor& value, const Tensor& reference) {
  Difference d;
  d.elements = value.elements();
  for (size_t i = 0; i < value.strings->size(); ++i) {
    if ((*value.strings)[i] == (*reference.strings)[i]) continue;
    if (d.mismatches++ == 0) d.first_bad = static_cast<int64_t>(i);
  }
  d.is_equal = d.mismatches == 0;
  return d;
}

/// Compares the items of two containers in pairs; returns the first difference.
Difference compare_items(const Tensor& value, const Tensor& reference, const Tolerance& tolerance) {
  if (value.kind != reference.kind || value.items->size() != reference.items->size())
    return unequal(cat("values differ: ", describe(value, 0), " and ", describe(reference, 0)));
  Difference all;
  all.is_equal = true;
  for (size_t i = 0; i < value.items->size() && all.is_equal; ++i)
    all = compare((*value.items)[i], (*reference.items)[i], tolerance);
  return all;
}

}  // namespace

Difference compare(const Tensor& value, const Tensor& reference, const Tolerance& tolerance) {
  if (!value.is_tensor() || !reference.is_tensor()) {
    if (value.is_tensor() != reference.is_tensor()) return unequal("a tensor and a container");
    return compare_items(value, reference, tolerance);
  }
  if (value.dims != reference.dims || (value.dtype == DType::string) != (reference.dtype == DType::string))
    return unequal(cat("types differ: ", to_string(value.shape()), " and ", to_string(reference.shape())));
  if (value.dtype == DType::string) return compare_strings(value, reference);
  if (is_complex(value.dtype) || is_complex(reference.dtype))
    return value == reference ? Difference{} : unequal("complex numbers differ");
  auto y = to_doubles(value), r = to_doubles(reference);
  Sums sums = sums_of(y, r);
  Difference d;
  d.elements = static_cast<int64_t>(y.size());
  d.norm = sums.reference > 0 ? std::sqrt(sums.error / sums.reference) : std::sqrt(sums.error);
  d.rms = y.empty() ? 0 : std::sqrt(sums.error / static_cast<double>(y.size()));
  d.cosine = sums.value > 0 && sums.reference > 0 ? sums.product / std::sqrt(sums.value * sums.reference) : 1;
  bool is_exact = !is_float(reference.dtype);
  for (size_t i = 0; i < y.size(); ++i) {
    double error = y[i] == r[i] ? 0 : std::fabs(y[i] - r[i]);
    if (std::isfinite(error)) {
      d.max_abs = std::max(d.max_abs, error);
      if (r[i] != 0) d.max_rel = std::max(d.max_rel, error / std::fabs(r[i]));
    }
    if (agrees(y[i], r[i], allowed_error(r[i], sums.largest, is_exact, tolerance))) continue;
    if (d.mismatches++ == 0) d.first_bad = static_cast<int64_t>(i), d.first_value = y[i], d.first_reference = r[i];
  }
  bool is_by_element = is_exact || tolerance.rtol >= 0 || tolerance.atol >= 0;
  d.is_equal = d.mismatches == 0 && (is_by_element || d.norm <= tolerance.norm);
  if (!d.is_equal && d.mismatches == 0) d.reason = cat("||y-r|| / ||r|| is above ", tolerance.norm);
  return d;
}

std::string place(int64_t index, const std::vector<int64_t>& dims) {
  std::vector<int64_t> at(dims.size());
  for (size_t i = dims.size(); i-- > 0;) {
    at[i] = index % std::max<int64_t>(dims[i], 1);
    index /= std::max<int64_t>(dims[i], 1);
  }
  return cat(at);
}

double percentile(const std::vector<double>& sorted, double fraction) {
  if (sorted.empty()) return 0;
  double at = fraction * static_cast<double>(sorted.size() - 1);
  auto low = static_cast<size_t>(at);
  double rest = at - static_cast<double>(low);
  return low + 1 < sorted.size() ? sorted[low] * (1 - rest) + sorted[low + 1] * rest : sorted[low];
}

}  // namespace weft::driver
