// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/op.h"

namespace weft {

/// Non-maximum suppression for each batch and class. Boxes are taken by falling score (the lower number first among
/// equals); a box is left out if it overlaps a box taken before by more than the limit.
///
/// Operands: boxes f32[batch, n, 4]: two opposite corners (y, x, y, x), or with `centers` the middle, width and height
/// (x, y, w, h); scores f32[batch, classes, n]; the greatest overlap (intersection over union) and the score that a box
/// must be above, both f32[]. Result: i64[batch, classes, most], the numbers of the boxes taken, then -1.
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
