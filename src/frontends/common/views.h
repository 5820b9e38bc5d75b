// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <vector>

#include "frontends/common/expr.h"

/// Operators that move elements without computing on them. Sizes and bounds are size expressions (Dim): numbers, sizes
/// of inputs, or symbols that the run binds (Builder::sizes_or_bound, sizes_in of ops/build.h).
namespace weft::frontend {

/// x reshaped. One of `dims` may be -1, which takes the rest; with `zero_copies` a 0 at place k stands for x's own size
/// k. E151 where they do not fit.
Expr reshape_to(Expr x, Dims dims, bool zero_copies = false);
/// The sizes in `shape`, an i64 vector with run-time elements; -1 and 0 are resolved as above.
Dims sizes_by_data(Expr x, Value shape, bool zero_copies = false);

/// One axis of a slice as numpy writes it, x[start:end:step]: a negative bound counts from the end, one outside is
/// clamped, and a large number means the end. The step is not 0.
struct Cut {
  int64_t axis = 0;
  std::optional<Dim> start = 0, end = INT64_MAX;  ///< nothing for a bound that only the run knows
  int64_t step = 1;
  Value start_data = {}, end_data = {};  ///< such a bound, i64[1]
};
/// x sliced along these axes, each named once; x itself if the slice is whole.
Expr cut(Expr x, const std::vector<Cut>& cuts);
/// x with the slice `part` replaced by `value`, which is broadcast. The slice has positive steps and known places.
Expr replaced(Expr x, const Cut& part, Expr value);

/// Parts of these sizes, one after another along an axis. E151 where their sum is not that of x.
Values split(Expr x, int64_t axis, const Dims& parts);
/// x repeated `repeats[a]` times along each axis a.
Expr tile(Expr x, const Dims& repeats);
/// x with elements around it (negative: without), one entry for each axis. `fill` is a scalar of x's type, 0 if null.
Expr pad(Expr x, Dims before, Dims after, PadMode mode = PadMode::constant, Value fill = {});
/// Windows of `size` elements along an axis, `step` apart: [.., windows, .., size].
Expr unfold(Expr x, int64_t axis, int64_t size, int64_t step);

/// x[n, c * block^2, h, w] -> [n, c, h * block, w * block]. The channels are [block, block, c], or with `depth_first`
/// [c, block, block] (PyTorch's pixel shuffle).
Expr depth_to_space(Expr x, int64_t block, bool depth_first);
/// The inverse of depth_to_space: [n, c, h, w] -> [n, c * block^2, h / block, w / block].
Expr space_to_depth(Expr x, int64_t block, bool depth_first);

/// The first lengths[b] elements of each row along `time` backwards, the others as they are.
Expr reverse_rows(Expr x, Expr lengths, int64_t batch, int64_t time);

}  // namespace weft::frontend
