// SPDX-License-Identifier: Apache-2.0
#pragma once
/// Padding with elements of the operand itself: mirrored, repeated or from the other end.
#include "fused.h"
#include "pointwise.h"

namespace weft::kernel {

enum class PadMode { reflect, edge, wrap };

/// Returns the index that index i of a padded axis reads (i is relative to the operand's first element); -1 if the
/// operand is empty.
WEFT_INLINE i64 padded_source(PadMode mode, i64 i, i64 size) {
  if (i >= 0 && i < size) return i;
  if (size == 0) return -1;
  if (mode == PadMode::edge) return i < 0 ? 0 : size - 1;
  const i64 period = mode == PadMode::wrap ? size : most(2 * size - 2, 1), at = (i % period + period) % period;
  return at < size ? at : period - at;
}

/// Loads N lanes from index i on along an axis of `size` > 0 elements that are `stride` apart.
template <int N, class P, class L>
WEFT_INLINE auto load_padded(PadMode mode, P from, i64 i, i64 size, i64 stride, L lanes) {
  using T = Pointee<decltype(from)>;
  const int count = valid_lanes(lanes, N);
  if (i >= 0 && i + count <= size && stride == 1) return load<N>(from + i, lanes);
  Vec<T, N> v{};
  WEFT_NO_UNROLL for (int lane = 0; lane < count; ++lane) {
    set_lane(v, lane, from[padded_source(mode, i + lane, size) * stride]);
  }
  return v;
}

}  // namespace weft::kernel
