// SPDX-License-Identifier: Apache-2.0
#include "quantise/range.h"

#include <algorithm>
#include <array>
#include <cfloat>
#include <cmath>

#include "base/error.h"
#include "base/numeric.h"
#include "base/text.h"

namespace weft::quantise {
namespace {

constexpr std::array<std::string_view, 4> names = {"minmax", "percentile", "entropy", "mse"};

using Bins = std::vector<Histogram::Bin>;

Range whole(const Histogram& seen) { return {std::min(seen.least(), 0.0), std::max(seen.greatest(), 0.0)}; }

/// Returns the range without the (100 - percentile) percent of values that are outliers, half at each end.
Range by_percentile(const Histogram& seen, double percentile) {
  double cut = static_cast<double>(seen.total()) * (100 - percentile) / 200;
  Bins bins = seen.bins();
  auto end_of = [cut](auto begin, auto end) {
    double passed = 0;
    for (auto bin = begin; bin != end; ++bin) {
      passed += static_cast<double>(bin->count);
      if (passed > cut) return bin->middle;
    }
    return 0.0;
  };
  Range all = whole(seen);
  double low = end_of(bins.begin(), bins.end()), high = end_of(bins.rbegin(), bins.rend());
  return {std::clamp(low - bins[0].width / 2, all.low, 0.0), std::clamp(high + bins[0].width / 2, 0.0, all.high)};
}

double error_of(const Bins& bins, const Grid& grid) {
  double sum = 0;
  for (const auto& bin : bins) {
    double error = grid.rounded(bin.middle) - bin.middle;
    sum += error * error * static_cast<double>(bin.count);
  }
  return sum;
}

/// Searches for the range of the least error: tries smaller upper ends, then smaller lower ends, in 64ths of each.
Range by_error(const Histogram& seen, DType type) {
  constexpr int parts = 64, rounds = 2;
  Bins bins = seen.bins();
  Range all = whole(seen), best = all;
  double least = error_of(bins, grid_of(all, type));
  auto try_range = [&](Range range) {
    double error = error_of(bins, grid_of(range, type));
    if (error < least) least = error, best = range;
  };
  for (int round = 0; round < rounds; ++round) {
    for (int i = 1; i < parts && all.high > 0; ++i) try_range({best.low, all.high * i / parts});
    for (int i = 1; i < parts && all.low < 0; ++i) try_range({all.low * i / parts, best.high});
  }
  return best;
}

/// Returns a histogram of magnitudes with `count` bins of equal width up to `most`.
std::vector<double> magnitudes(const Histogram& seen, double most, size_t count) {
  std::vector<double> found(count);
  for (const auto& bin : seen.bins()) {
    auto i = static_cast<size_t>(std::abs(bin.middle) / most * static_cast<double>(count));
    found[std::min(i, count - 1)] += static_cast<double>(bin.count);
  }
  return found;
}

/// Returns the Kullback-Leibler divergence between the first `kept` bins and their quantisation to `steps` levels. The
/// last of these bins also counts the `beyond` values above it.
double divergence(const std::vector<double>& bins, size_t kept, double beyond, size_t steps) {
  double total = 0, all = 0, sum = 0;
  for (size_t i = 0; i < kept; ++i) total += bins[i];
  all = total + beyond;
  if (total == 0) return DBL_MAX;
  for (size_t step = 0; step < steps; ++step) {
    size_t begin = step * kept / steps, end = (step + 1) * kept / steps, filled = 0;
    double inside = 0;
    for (size_t i = begin; i < end; ++i) inside += bins[i], filled += bins[i] > 0;
    for (size_t i = begin; i < end; ++i) {
      double p = (bins[i] + (i + 1 == kept ? beyond : 0)) / all;
      double q = bins[i] > 0 ? inside / static_cast<double>(filled) / total : 0;
      if (p > 0) sum += p * std::log(p / std::max(q, 1e-12));
    }
  }
  return sum;
}

Range by_entropy(const Histogram& seen) {
  constexpr size_t count = 2048, steps = 128, stride = 16;
  Range all = whole(seen);
  double most = std::max(-all.low, all.high);
  std::vector<double> bins = magnitudes(seen, most, count);
  double beyond = 0, least = divergence(bins, count, 0, steps);
  size_t best = count;
  for (size_t kept = count - stride; kept >= steps; kept -= stride) {
    for (size_t i = kept; i < kept + stride; ++i) beyond += bins[i];
    double now = divergence(bins, kept, beyond, steps);
    if (now < least) least = now, best = kept;
  }
  double limit = most * static_cast<double>(best) / count;
  return {std::max(all.low, -limit), std::min(all.high, limit)};
}

}  // namespace

void refuse(std::string code, std::string what, std::string hint) {
  throw Error({.kind = ErrorKind::usage, .code = std::move(code), .what = std::move(what), .hint = std::move(hint)});
}

RangeMethod parse_range_method(std::string_view text) {
  return parse_name<RangeMethod>(text, names, "way to choose a range");
}

std::string_view name(RangeMethod method) { return names[static_cast<size_t>(method)]; }

double Grid::rounded(double x) const {
  if (is_float(type)) {
    FloatFormat format = float_format(type);
    return decode_float(encode_float(x / scale, format, true), format) * scale;
  }
  double least = type == DType::u8 ? 0 : -128, most = type == DType::u8 ? 255 : 127, at = static_cast<double>(zero);
  return (std::clamp(std::nearbyint(x / scale) + at, least, most) - at) * scale;
}

double greatest_of(DType type) { return type == DType::i8 ? 127 : type == DType::f8e4m3fn ? 448 : 240; }

Grid grid_of(Range range, DType type) {
  Grid grid{.type = type};
  double most = std::max(-range.low, range.high);
  if (type == DType::u8) grid.scale = (range.high - range.low) / 255;
  else grid.scale = most / greatest_of(type);
  // The scale is rounded as the file stores it; a value that is always 0 gets a scale of 1.
  grid.scale = static_cast<float>(grid.scale);
  if (!(grid.scale >= FLT_MIN)) grid.scale = 1;
  if (type == DType::u8) grid.zero = std::clamp<int64_t>(std::llrint(-range.low / grid.scale), 0, 255);
  return grid;
}

Range choose_range(const Histogram& seen, RangeMethod method, double percentile, DType type) {
  if (seen.empty() || seen.bins().empty()) return {};
  if (method == RangeMethod::percentile) return by_percentile(seen, percentile);
  if (method == RangeMethod::entropy) return by_entropy(seen);
  return method == RangeMethod::mse ? by_error(seen, type) : whole(seen);
}

double noise_share(const Histogram& seen, const Grid& grid, double smallest) {
  Bins bins = seen.bins();
  std::ranges::sort(bins, {}, [](const auto& bin) { return std::abs(bin.middle); });
  double power = 0, count = static_cast<double>(seen.zeros()), most = smallest * static_cast<double>(seen.total());
  for (const auto& bin : bins) {
    if (count > most) break;
    power += bin.middle * bin.middle * static_cast<double>(bin.count), count += static_cast<double>(bin.count);
  }
  return power > 0 ? error_of(bins, grid) / power : 0;
}

}  // namespace weft::quantise
