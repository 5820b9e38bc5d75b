// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <vector>

#include "frontends/common/expr.h"

/// Operators that move elements without computing on them. Sizes and bounds are size expressions (Dim): numbers, sizes
/// of inputs, or symbols that the run binds (Builder::sizes_or_bound, sizes_in of ops/build.h).
namespace weft::frontend {

/// Reshapes x. One of `dims` may be -1, which is inferred; with `zero_copies` a 0 at index k means x's own size k. E151
/// if `dims` do not fit x.
Expr reshape_to(Expr x, Dims dims, bool zero_copies = false);
/// Returns the sizes in `shape`, an i64 vector with run-time elements; resolves -1 and 0 as reshape_to does.
Dims sizes_by_data(Expr x, Value shape, bool zero_copies = false);

/// One axis of a numpy slice, x[start:end:step]. Negative bounds count from the end, bounds outside are clamped.
struct Cut {
  int64_t axis = 0;
  std::optional<Dim> start = 0, end = INT64_MAX;  ///< nothing for a bound that is known only at run time
  int64_t step = 1;
  Value start_data = {}, end_data = {};  ///< bounds that are known only at run time, i64[1]
  bool clamps_start = false;  ///< ONNX: a backward slice that starts before the first element starts at the first
};
/// Slices x along the axes of `cuts`, which must be distinct; returns x itself if nothing is cut off.
Expr cut(Expr x, const std::vector<Cut>& cuts);
/// Returns x with the slice `part` (positive steps, known bounds) replaced by `value`, which is broadcast.
Expr replaced(Expr x, const Cut& part, Expr value);

/// Splits x along an axis into parts of these sizes. E151 if their sum is not x's size.
Values split(Expr x, int64_t axis, const Dims& parts);
/// Repeats x `repeats[a]` times along each axis a.
Expr tile(Expr x, const Dims& repeats);
/// Pads each axis a of x with before[a] and after[a] elements; negative numbers remove elements. `fill` is a scalar of
/// x's type; null: 0.
Expr pad(Expr x, Dims before, Dims after, PadMode mode = PadMode::constant, Value fill = {});
/// Returns windows of `size` elements along an axis, `step` apart: [.., windows, .., size].
Expr unfold(Expr x, int64_t axis, int64_t size, int64_t step);

/// Moves channels to space: x[n, c * block^2, h, w] -> [n, c, h * block, w * block]. The channels are ordered [block,
/// block, c], or with `depth_first` [c, block, block] (PyTorch's pixel shuffle).
Expr depth_to_space(Expr x, int64_t block, bool depth_first);
/// Inverts depth_to_space: [n, c, h, w] -> [n, c * block^2, h / block, w / block].
Expr space_to_depth(Expr x, int64_t block, bool depth_first);

/// Reverses the first lengths[b] elements along axis `time` of each slice b of axis `batch`; later elements stay.
Expr reverse_rows(Expr x, Expr lengths, int64_t batch, int64_t time);

}  // namespace weft::frontend
