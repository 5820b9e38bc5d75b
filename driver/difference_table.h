// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "driver/options.h"
#include "driver/stats.h"

namespace weft::driver {

/// Adds the options --rtol, --atol and --norm.
void add_tolerance_options(CommandLine& line, Tolerance& tolerance);

/// The results of comparing pairs of tensors. As text: a table with a row for each pair, then a line for each pair that
/// differs, with its first bad element or the reason.
class DifferenceTable {
 public:
  const Difference& add(const std::string& name, const Tensor& value, const Tensor& reference,
                        const Tolerance& tolerance);
  bool is_equal() const { return is_equal_; }
  std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_{
      {"tensor", "||y-r||/||r||", "max abs", "max rel", "rms", "cosine", "bad", "of", ""}};
  std::vector<std::string> places_;
  std::vector<Difference> differences_;
  bool is_equal_ = true;
};

}  // namespace weft::driver
