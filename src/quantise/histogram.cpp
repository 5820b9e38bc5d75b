// SPDX-License-Identifier: Apache-2.0
#include "quantise/histogram.h"

#include <algorithm>
#include <cmath>

namespace weft::quantise {
int64_t Histogram::index_of(double value) const {
  return static_cast<int64_t>(std::floor(std::ldexp(value, -exponent_)));
}

/// Merges neighbouring bins in pairs, which doubles their width.
void Histogram::halve() {
  int64_t first = first_ >> 1,
          last = (first_ + static_cast<int64_t>(counts_.size()) - 1) >> 1;  // rounds down, also below 0
  std::vector<int64_t> merged(last - first + 1);
  for (size_t i = 0; i < counts_.size(); ++i) merged[((first_ + static_cast<int64_t>(i)) >> 1) - first] += counts_[i];
  counts_ = std::move(merged);
  first_ = first;
  ++exponent_;
}

/// Makes bins for values from `low` to `high`.
void Histogram::cover(double low, double high) {
  if (counts_.empty()) {
    constexpr int first_bins_log2 = 11;  // few, which leaves room for later values
    double size = std::max({high - low, std::abs(low) * 1e-3, std::abs(high) * 1e-3, 1e-30});
    exponent_ = std::ilogb(size) + 1 - first_bins_log2;
    first_ = index_of(low);
    counts_.resize(1);
  }
  while (true) {
    int64_t first = std::min(first_, index_of(low));
    int64_t last = std::max(first_ + static_cast<int64_t>(counts_.size()) - 1, index_of(high));
    if (last - first < max_bins) {
      counts_.insert(counts_.begin(), first_ - first, 0);
      first_ = first;
      counts_.resize(last - first + 1);
      return;
    }
    halve();
  }
}

void Histogram::add(std::span<const float> values) {
  if (values.empty()) return;
  auto [low, high] = std::ranges::minmax(values);
  least_ = total_ == 0 ? low : std::min<double>(least_, low);
  greatest_ = total_ == 0 ? high : std::max<double>(greatest_, high);
  total_ += static_cast<int64_t>(values.size());
  if (low == 0 && high == 0) {
    zeros_ += static_cast<int64_t>(values.size());
    return;
  }
  cover(low, high);
  double scale = std::ldexp(1.0, -exponent_), first = static_cast<double>(first_);
  for (float x : values) {
    if (x == 0) ++zeros_;
    else ++counts_[static_cast<size_t>(std::floor(static_cast<double>(x) * scale) - first)];
  }
}

std::vector<Histogram::Bin> Histogram::bins() const {
  std::vector<Bin> found;
  double width = std::ldexp(1.0, exponent_);
  for (size_t i = 0; i < counts_.size(); ++i) {
    if (counts_[i] == 0) continue;
    double begin = static_cast<double>(first_ + static_cast<int64_t>(i)) * width;
    found.push_back({begin + width / 2, width, counts_[i]});
  }
  return found;
}

}  // namespace weft::quantise
