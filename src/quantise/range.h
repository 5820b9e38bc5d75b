// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "base/dtype.h"
#include "base/text.h"
#include "quantise/histogram.h"

namespace weft::quantise {

/// Throws a usage error.
[[noreturn]] void refuse(std::string code, std::string what, std::string hint = "");

template <class Kind, size_t count>
Kind parse_name(std::string_view text, const std::array<std::string_view, count>& names, const char* what) {
  auto found = std::ranges::find(names, text);
  if (found != names.end()) return static_cast<Kind>(found - names.begin());
  refuse("E203", cat("'", printable(text), "' is no ", what), cat("one of ", names));
}

/// How the range of a value is chosen from its histogram.
enum class RangeMethod : uint8_t { minmax, percentile, entropy, mse };
RangeMethod parse_range_method(std::string_view name);  ///< E203 for another
std::string_view name(RangeMethod method);

struct Range {
  double low = 0, high = 0;  ///< low <= 0 <= high: 0 is always exact
};

/// A scale and a zero point: the integers (or fp8 numbers) that values are rounded to.
struct Grid {
  DType type = DType::u8;
  double scale = 1;
  int64_t zero = 0;

  /// `x` rounded to the grid.
  double rounded(double x) const;
};

/// The greatest number of i8 (symmetric), f8e4m3fn or f8e4m3fnuz.
double greatest_of(DType type);

/// The grid of `type` (u8, or one of the types above) for values of a range. All but u8 are symmetric.
Grid grid_of(Range range, DType type);

/// The range of values of this histogram. `percentile`: the share in percent that stays inside, for that method. Mean
/// squared error: of the grid of `type`. Entropy: the least divergence of the clipped distribution from that in 128
/// steps (Migacz, "8-bit inference with TensorRT", 2017).
Range choose_range(const Histogram& seen, RangeMethod method, double percentile, DType type);

/// The sum of squared rounding errors over that of the squared values, or of their `smallest` share; 0 if all are 0.
double noise_share(const Histogram& seen, const Grid& grid, double smallest = 1);

}  // namespace weft::quantise
