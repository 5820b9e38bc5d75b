// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>

#include "ir/module.h"

namespace weft {

/// What a chain of reshapes and transposes does to a tensor: its axes are split into factors, the factors permuted and
/// merged into the axes of the result.
class ViewChain {
 public:
  explicit ViewChain(const Dims& source);
  /// Both give false, and change nothing, when the sizes cannot be shown to fit factors.
  bool reshape(const Dims& dims);
  void transpose(const std::vector<int64_t>& permutation);

  /// The shortest form: each part is absent when it would change nothing.
  struct Form {
    std::optional<Dims> split;
    std::optional<std::vector<int64_t>> permutation;
    std::optional<Dims> merge;

    size_t length() const { return split.has_value() + permutation.has_value() + merge.has_value(); }
    Value write(Module& module, Value x) const;
    /// True when the instructions that make `result` from `x` are just these.
    bool is_written(Value x, Value result) const;
  };
  Form form() const;

 private:
  struct Factor {
    Dim size = 1;
    std::vector<int> place;  // in the source: number of the axis, then of each split; ordered as the elements lie
  };
  using Axis = std::vector<Factor>;

  /// The form when factors that lie side by side before and after are moved as one, but not across the axes of the
  /// source, or of the result.
  Form form(bool within_source, bool within_result) const;

  Dims source_;
  std::vector<Axis> axes_;  // of the result; sizes of 1 have no factors
};

}  // namespace weft
