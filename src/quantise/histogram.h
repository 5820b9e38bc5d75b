// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace weft::quantise {

/// How often values of each size occur, in bounded memory: when values lie outside, bins are merged by twos, so that
/// each is twice as wide. Bins begin at multiples of their width, a power of two, so that nothing is lost by merging
/// but detail. Zeros are counted apart, because every format holds them exactly.
class Histogram {
 public:
  static constexpr int64_t most_bins = 4096;

  /// Finite values.
  void add(std::span<const float> values);

  bool empty() const { return total() == 0; }
  double least() const { return least_; }
  double greatest() const { return greatest_; }
  int64_t zeros() const { return zeros_; }
  int64_t total() const { return total_; }  ///< zeros included

  struct Bin {
    double middle, width;
    int64_t count;
  };
  /// Those that hold something, ascending.
  std::vector<Bin> bins() const;

 private:
  void cover(double low, double high);
  void halve();
  int64_t index_of(double value) const;

  int exponent_ = 0;   // a bin is 2^exponent_ wide
  int64_t first_ = 0;  // number of the first bin: it begins at first_ * 2^exponent_
  std::vector<int64_t> counts_;
  int64_t zeros_ = 0, total_ = 0;
  double least_ = 0, greatest_ = 0;
};

}  // namespace weft::quantise
