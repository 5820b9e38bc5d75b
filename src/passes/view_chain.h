// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>

#include "ir/module.h"

namespace weft {

/// The effect of a chain of reshapes and transposes: axes are split into factors, and the factors permuted and merged
/// into the axes of the result.
class ViewChain {
 public:
  explicit ViewChain(const Dims& source);
  /// Both return false and change nothing if the sizes cannot be shown to fit factors.
  bool reshape(const Dims& dims);
  void transpose(const std::vector<int64_t>& permutation);

  /// The shortest form; a part that would change nothing is absent.
  struct Form {
    std::optional<Dims> split;
    std::optional<std::vector<int64_t>> permutation;
    std::optional<Dims> merge;

    size_t length() const { return split.has_value() + permutation.has_value() + merge.has_value(); }
    Value write(Module& module, Value x) const;
    /// True if the instructions from `x` to `result` are exactly this form.
    bool is_written(Value x, Value result) const;
  };
  Form form() const;

 private:
  struct Factor {
    Dim size = 1;
    std::vector<int> place;  // position in the source: the axis, then the factor within it; in memory order
  };
  using Axis = std::vector<Factor>;

  /// The shortest form: factors that are neighbours before and after the chain move as one. With `within_source`
  /// (`within_result`) only factors of the same axis of the source (of the result) are joined.
  Form form(bool within_source, bool within_result) const;

  Dims source_;
  std::vector<Axis> axes_;  // of the result; sizes of 1 have no factors
};

}  // namespace weft
