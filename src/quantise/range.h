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
  refuse("E203", cat("'", printable(text), "' is not a ", what), cat("one of ", names));
}

/// The methods that choose the range of a value from its histogram.
enum class RangeMethod : uint8_t { minmax, percentile, entropy, mse };
RangeMethod parse_range_method(std::string_view name);  ///< E203 for an unknown name
std::string_view name(RangeMethod method);

struct Range {
  double low = 0, high = 0;  ///< low <= 0 <= high: 0 is always exact
};

/// The numbers to which values are rounded: integers or fp8 numbers with a scale and a zero point.
struct Grid {
  DType type = DType::u8;
  double scale = 1;
  int64_t zero = 0;

  /// Rounds x to the nearest number of the grid.
  double rounded(double x) const;
};

/// Returns the greatest number of i8 (symmetric), f8e4m3fn or f8e4m3fnuz.
double greatest_of(DType type);

/// Returns the grid of `type` (u8, or a type of greatest_of) for a range of values. All but u8 are symmetric.
Grid grid_of(Range range, DType type);

/// Chooses the range of values from a histogram. For the method percentile, `percentile` is the percentage of values in
/// the range. `mse` minimises the squared error on the grid of `type`. `entropy` minimises the divergence between the
/// clipped distribution and its quantisation to 128 levels (Migacz, "8-bit inference with TensorRT", 2017).
Range choose_range(const Histogram& seen, RangeMethod method, double percentile, DType type);

/// Returns the sum of squared rounding errors of all values, divided by the sum of squares of the `smallest` share of
/// the values (by magnitude); 0 if these are 0.
double noise_share(const Histogram& seen, const Grid& grid, double smallest = 1);

}  // namespace weft::quantise
