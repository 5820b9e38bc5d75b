// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace weft::quantise {

/// A histogram in bounded memory. If a new value would need too many bins, merges bins in pairs, so that each is twice
/// as wide. Bins begin at multiples of their width, a power of two, so merging loses resolution but no counts. Counts
/// zeros separately, because every format represents them exactly.
class Histogram {
 public:
  static constexpr int64_t max_bins = 4096;

  /// Adds values, which must be finite.
  void add(std::span<const float> values);

  bool empty() const { return total() == 0; }
  double least() const { return least_; }
  double greatest() const { return greatest_; }
  int64_t zeros() const { return zeros_; }
  int64_t total() const { return total_; }  ///< number of values, zeros included

  struct Bin {
    double middle, width;
    int64_t count;
  };
  /// Returns the bins that are not empty, in ascending order.
  std::vector<Bin> bins() const;

 private:
  void cover(double low, double high);
  void halve();
  int64_t index_of(double value) const;

  int exponent_ = 0;   // width of a bin: 2^exponent_
  int64_t first_ = 0;  // number of the first bin, which begins at first_ * 2^exponent_
  std::vector<int64_t> counts_;
  int64_t zeros_ = 0, total_ = 0;
  double least_ = 0, greatest_ = 0;
};

}  // namespace weft::quantise
