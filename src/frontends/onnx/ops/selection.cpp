// SPDX-License-Identifier: Apache-2.0
// Operators with result sizes that depend on data.
#include <limits>

#include "frontends/common/indexing.h"
#include "frontends/common/selection.h"
#include "frontends/onnx/import/expr.h"

namespace weft::onnx {

/// Returns the slices where the condition holds; without an axis, flattens x first. Leaves out elements beyond the end
/// of a shorter condition.
static Values compress(Call& c) {
  Expr x = arg(c, 0);
  int64_t axis = c.has("axis") ? c.axis(c.integer("axis"), x.rank()) : 0;
  if (!c.has("axis")) x = flat(x);
  return {gather(x, true_places(convert(arg(c, 1), DType::boolean)), axis)};
}

static Values unique(Call& c) {
  std::optional<int64_t> axis;
  if (c.has("axis")) axis = c.axis(c.integer("axis"), c.input(0).rank());
  auto [values, first, inverse, counts] = unique(arg(c, 0), axis, c.flag("sorted", true));
  return {values, first, inverse, counts};
}

/// Imports com.microsoft's Unique: values in order of first appearance, then the inverse indices and the counts.
static Values unique_as_they_come(Call& c) {
  auto [values, first, inverse, counts] = unique(arg(c, 0), {}, false);
  return {values, inverse, counts};
}

/// Returns the batch, class and box index of each box that is kept, [selected, 3].
static Values non_max_suppression(Call& c) {
  c.expect_ranks({{0, 3}, {1, 3}});
  Expr scores = arg(c, 1);
  auto limit = [&](size_t i, double fallback) {
    return c.has_input(i) ? reshape(arg(c, i), {}) : number(c, DType::f32, fallback);
  };
  Dim most = c.has_input(2) ? min(max(c.size(2, INT64_MIN), 0), scores.dims().at(2)) : Dim(0);
  int64_t form = c.integer("center_point_box", 0);
  if (form != 0 && form != 1) c.fail("E145", cat("center_point_box must be 0 or 1, is ", form));
  Expr overlap = limit(3, 0), least = limit(4, -std::numeric_limits<double>::infinity());
  return {non_max_suppression(arg(c, 0), scores, most, overlap, least, form == 1)};
}

constexpr Operator selection_table[] = {
    {"", "Compress", compress},
    {"", "NonMaxSuppression", non_max_suppression},
    {"", "NonZero", [](Call& c) { return Values{nonzero(arg(c, 0))}; }},
    {"", "Unique", unique},
    {"com.microsoft", "Unique", unique_as_they_come},
};

std::span<const Operator> selection_operators() { return selection_table; }

}  // namespace weft::onnx
