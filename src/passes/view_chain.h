// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>

#include "ir/module.h"

namespace weft {

/// A chain of reshapes and transposes as one permutation: the source's axes are split into factors, which are permuted
/// and merged into the axes of the result.
class ViewChain {
 public:
  explicit ViewChain(const Dims& source);
  /// Appends a reshape. Returns false and changes nothing if the sizes cannot be proved to split into factors.
  bool reshape(const Dims& dims);
  void transpose(const std::vector<int64_t>& permutation);

  /// The shortest equivalent chain: a reshape that splits axes, a transpose, a reshape that merges axes, each optional.
  struct Form {
    std::optional<Dims> split;
    std::optional<std::vector<int64_t>> permutation;
    std::optional<Dims> merge;

    size_t length() const { return split.has_value() + permutation.has_value() + merge.has_value(); }
    Value write(Module& module, Value x) const;
    /// True if the instructions from `x` to `result` already have exactly this form.
    bool is_written(Value x, Value result) const;
  };
  Form form() const;

 private:
  struct Factor {
    Dim size = 1;
    std::vector<int> place;  // the axis of the source; then, for each split, 0 (outer factor) or 1 (inner factor)
  };
  using Axis = std::vector<Factor>;

  /// Returns a form in which factors that are neighbours before and after the chain are one axis; with `within_source`
  /// (`within_result`) only if they belong to one axis of the source (result).
  Form form(bool within_source, bool within_result) const;

  Dims source_;
  std::vector<Axis> axes_;  // axes of the result; axes of size 1 have no factors
};

}  // namespace weft
