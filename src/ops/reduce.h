// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/op.h"

namespace weft {

enum class ReduceFn : uint8_t { sum, mean, product, min, max };
std::span<const std::string_view> names(ReduceFn);

/// Reduces `axes` (sorted, not negative; empty: none); with `keep`, the axes stay with size 1. A reduction of no
/// elements gives 0 for sum, 1 for product, NaN (integers: 0) for mean, the greatest value for min, the least for max.
struct Reduce {
  static constexpr std::string_view name = "reduce";
  ReduceFn fn = ReduceFn::sum;
  std::vector<int64_t> axes = {};
  bool keep = true;
  static auto fields() {
    return std::tuple{Field{"fn", &Reduce::fn}, Field{"axes", &Reduce::axes}, Field{"keep", &Reduce::keep}};
  }
  Types infer(Operands in) const;
  std::vector<Wide> evaluate(std::span<const Wide> in) const;
  bool operator==(const Reduce&) const = default;
};

/// The index (i64) of the largest or smallest element along `axis`; among equals the first, or with `last` the last.
struct ArgReduce {
  static constexpr std::string_view name = "arg_reduce";
  bool largest = true;
  int64_t axis = 0;
  bool keep = true;
  bool last = false;
  static auto fields() {
    return std::tuple{Field{"largest", &ArgReduce::largest}, Field{"axis", &ArgReduce::axis},
                      Field{"keep", &ArgReduce::keep}, Field{"last", &ArgReduce::last}};
  }
  Types infer(Operands in) const;
  std::vector<Wide> evaluate(std::span<const Wide> in) const;
  bool operator==(const ArgReduce&) const = default;
};

/// Running sum, product, minimum or maximum along `axis` (`reverse`: from the end; `exclusive`: without the element
/// itself).
struct Scan {
  static constexpr std::string_view name = "scan";
  ReduceFn fn = ReduceFn::sum;
  int64_t axis = 0;
  bool exclusive = false;
  bool reverse = false;
  static auto fields() {
    return std::tuple{Field{"fn", &Scan::fn}, Field{"axis", &Scan::axis}, Field{"exclusive", &Scan::exclusive},
                      Field{"reverse", &Scan::reverse}};
  }
  Types infer(Operands in) const;
  std::vector<Wide> evaluate(std::span<const Wide> in) const;
  bool operator==(const Scan&) const = default;
};

/// Softmax along `axis`: exp(x - max) / sum(exp(x - max)), or its logarithm. Rows that are all -inf give NaN.
struct Softmax {
  static constexpr std::string_view name = "softmax";
  int64_t axis = 0;
  bool logarithm = false;
  static auto fields() { return std::tuple{Field{"axis", &Softmax::axis}, Field{"log", &Softmax::logarithm}}; }
  Types infer(Operands in) const;
  std::vector<Wide> evaluate(std::span<const Wide> in) const;
  bool operator==(const Softmax&) const = default;
};

/// Normalises over the axes from `axis` on. Layer norm: (x - mean) / sqrt(variance + epsilon). If not `centred`, RMS
/// norm: x / sqrt(mean(x^2) + epsilon). Scale and bias are separate elementwise operators.
struct Normalize {
  static constexpr std::string_view name = "normalize";
  int64_t axis = 0;
  double epsilon = 1e-5;
  bool centred = true;
  static auto fields() {
    return std::tuple{Field{"axis", &Normalize::axis}, Field{"epsilon", &Normalize::epsilon},
                      Field{"centred", &Normalize::centred}};
  }
  Types infer(Operands in) const;
  std::vector<Wide> evaluate(std::span<const Wide> in) const;
  bool operator==(const Normalize&) const = default;
};

/// The k largest or smallest elements along `axis`, and their indices (i64). Among equals the lower index comes first;
/// NaN is the largest.
struct TopK {
  static constexpr std::string_view name = "top_k";
  Dim k = 0;
  int64_t axis = 0;
  bool largest = true;
  static auto fields() {
    return std::tuple{Field{"k", &TopK::k}, Field{"axis", &TopK::axis}, Field{"largest", &TopK::largest}};
  }
  Types infer(Operands in) const;
  std::vector<Wide> evaluate(std::span<const Wide> in) const;
  bool operator==(const TopK&) const = default;
};

}  // namespace weft
