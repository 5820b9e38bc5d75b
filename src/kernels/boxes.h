// SPDX-License-Identifier: Apache-2.0
#pragma once
/// Non-maximum suppression. A task (on a GPU a block) computes one class of one image.
#include "device.h"

namespace weft::kernel {

struct BoxCorners {
  f32 y1, x1, y2, x2;
};

template <bool Centers, class P>
WEFT_INLINE BoxCorners corners_of(P box) {
  const f32 a = box[0], b = box[1], c = box[2], d = box[3];
  if constexpr (Centers) return {b - d / 2, a - c / 2, b + d / 2, a + c / 2};
  return {a < c ? a : c, b < d ? b : d, a < c ? c : a, b < d ? d : b};
}

/// Returns the intersection over union; 0 for boxes whose areas do not overlap.
WEFT_INLINE f32 overlap(const BoxCorners& a, const BoxCorners& b) {
  const f32 y1 = a.y1 > b.y1 ? a.y1 : b.y1, x1 = a.x1 > b.x1 ? a.x1 : b.x1;
  const f32 y2 = a.y2 < b.y2 ? a.y2 : b.y2, x2 = a.x2 < b.x2 ? a.x2 : b.x2;
  if (y2 <= y1 || x2 <= x1) return 0;
  const f32 shared = (y2 - y1) * (x2 - x1);
  return shared / ((a.y2 - a.y1) * (a.x2 - a.x1) + (b.y2 - b.y1) * (b.x2 - b.x1) - shared);
}

struct ScoredBox {
  f32 score;
  i64 index;
};
WEFT_INLINE bool is_better(const ScoredBox& a, const ScoredBox& b) {
  return a.score > b.score || (a.score == b.score && a.index < b.index);
}

#ifdef WEFT_CPU
/// Moves the box at `at` down the heap until neither of its children is better.
WEFT_INLINE void sift_box(ScoredBox* heap, i64 at, i64 count) {
  const ScoredBox moved = heap[at];
  WEFT_NO_UNROLL for (i64 child = 2 * at + 1; child < count; child = 2 * at + 1) {
    if (child + 1 < count && is_better(heap[child + 1], heap[child])) ++child;
    if (!is_better(heap[child], moved)) break;
    heap[at] = heap[child];
    at = child;
  }
  heap[at] = moved;
}

/// Does non-maximum suppression. A row is a class of an image: boxes [rows / classes, n, 4], scores [rows, n]. Writes
/// the indices of the kept boxes to out [rows, most], and -1 after them. Drops boxes with a score of at most `least`,
/// and boxes that overlap a kept box by more than `greatest`. Tasks: rows; scratch: 16 * n bytes.
template <bool Centers, class L>
WEFT_INLINE void non_max_suppression(const L& launch, i64 classes, i64 n, i64 most, const f32* boxes, const f32* scores,
                                     f32 greatest, f32 least, i64* out) {
  auto* heap = static_cast<ScoredBox*>(launch.args->scratch);
  WEFT_NO_UNROLL for (i64 row = launch.begin; row < launch.end; ++row) {
    const f32 *own = scores + row * n, *box = boxes + row / classes * n * 4;
    i64 left = 0, taken = 0, *to = out + row * most;
    WEFT_NO_UNROLL for (i64 i = 0; i < n; ++i) {
      if (own[i] > least) heap[left++] = {own[i], i};
    }
    WEFT_NO_UNROLL for (i64 i = left / 2; i-- > 0;) sift_box(heap, i, left);
    WEFT_NO_UNROLL for (; left > 0 && taken < most; sift_box(heap, 0, left)) {
      const i64 best = heap[0].index;
      const BoxCorners candidate = corners_of<Centers>(box + best * 4);
      bool stays = true;
      WEFT_NO_UNROLL for (i64 i = 0; i < taken && stays; ++i) stays =
          !(overlap(candidate, corners_of<Centers>(box + to[i] * 4)) > greatest);
      if (stays) to[taken++] = best;
      heap[0] = heap[--left];
    }
    WEFT_NO_UNROLL for (; taken < most; ++taken) to[taken] = -1;
  }
}

#else
/// Does non-maximum suppression on a GPU; a block computes a row. `left` [rows, n] holds the scores of the boxes that
/// may still be kept, and -infinity for other boxes. Each pass drops the boxes that overlap the last kept box, and
/// finds the best remaining box.
template <bool Centers, class L, class P, class To>
WEFT_INLINE void non_max_suppression(const L& launch, i64 rows, i64 classes, i64 n, i64 most, P boxes, P scores,
                                     f32 greatest, f32 least, WEFT_GLOBAL f32* left, To out) {
  constexpr int threads = L::threads;
  constexpr f32 none = -__builtin_inff();
  WEFT_SHARED f32 values[threads];
  WEFT_SHARED i64 indices[threads];
  const int me = thread_id();
  for_tasks(launch, rows, [&](i64 row) WEFT_LAMBDA {
    const auto own = scores + row * n, box = boxes + row / classes * n * 4;
    const auto rest = left + row * n;
    const auto to = out + row * most;
    WEFT_NO_UNROLL for (i64 i = me; i < n; i += threads) rest[i] = own[i] > least ? own[i] : none;
    i64 taken = 0, last = -1;
    WEFT_NO_UNROLL for (; taken < most; ++taken) {
      const BoxCorners newest = corners_of<Centers>(box + (last < 0 ? 0 : last) * 4);
      ScoredBox best{none, -1};
      WEFT_NO_UNROLL for (i64 i = me; i < n; i += threads) {
        const ScoredBox next{rest[i], i};
        if (next.score == none) continue;
        if (last >= 0 && (i == last || overlap(corners_of<Centers>(box + i * 4), newest) > greatest)) rest[i] = none;
        else if (best.index < 0 || is_better(next, best)) best = next;
      }
      values[me] = best.score, indices[me] = best.index;
      WEFT_NO_UNROLL for (int half = threads / 2; half > 0; half /= 2) {
        barrier();
        if (me >= half) continue;
        const ScoredBox other{values[me + half], indices[me + half]};
        if (other.index >= 0 && (best.index < 0 || is_better(other, best))) best = other;
        values[me] = best.score, indices[me] = best.index;
      }
      barrier();
      last = indices[0];
      barrier();
      if (last < 0) break;
      if (me == 0) to[taken] = last;
    }
    WEFT_NO_UNROLL for (i64 i = taken + me; i < most; i += threads) to[i] = -1;
  });
}
#endif

}  // namespace weft::kernel
