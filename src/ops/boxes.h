// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/op.h"

namespace weft {

/// Non-maximum suppression for each batch and class. Visits boxes by descending score (among equals, the lower index
/// first) and selects each box that overlaps no selected box by more than the maximum.
///
/// Operands: boxes f32[batch, n, 4], two opposite corners (y, x, y, x), or with `centers` the centre and size (x, y, w,
/// h); scores f32[batch, classes, n]; maximum overlap (intersection over union) f32[]; the score that a box must
/// exceed, f32[]. Result: indices of selected boxes i64[batch, classes, most], padded with -1.
struct NonMaxSuppression {
  static constexpr std::string_view name = "non_max_suppression";
  Dim most = 0;
  bool centers = false;
  static auto fields() {
    return std::tuple{Field{"most", &NonMaxSuppression::most}, Field{"centers", &NonMaxSuppression::centers}};
  }
  Types infer(Operands in) const;
  std::vector<Wide> evaluate(std::span<const Wide> in) const;
  bool operator==(const NonMaxSuppression&) const = default;
};

}  // namespace weft
