// SPDX-License-Identifier: Apache-2.0
#pragma once
/// Non-maximum suppression. A row is a class of an image.
#include "top_k.h"

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

/// Returns the intersection over union; 0 for boxes whose areas do not overlap. Equal bits on all targets: no FMA.
WEFT_INLINE f32 overlap(const BoxCorners& a, const BoxCorners& b) {
#pragma clang fp contract(off)
  const f32 y1 = a.y1 > b.y1 ? a.y1 : b.y1, x1 = a.x1 > b.x1 ? a.x1 : b.x1;
  const f32 y2 = a.y2 < b.y2 ? a.y2 : b.y2, x2 = a.x2 < b.x2 ? a.x2 : b.x2;
  if (y2 <= y1 || x2 <= x1) return 0;
  const f32 shared = (y2 - y1) * (x2 - x1);
  return shared / ((a.y2 - a.y1) * (a.x2 - a.x1) + (b.y2 - b.y1) * (b.x2 - b.x1) - shared);
}

#ifdef WEFT_CPU
struct ScoredBox {
  f32 score;
  i64 index;
};
WEFT_INLINE bool is_better(const ScoredBox& a, const ScoredBox& b) {
  return a.score > b.score || (a.score == b.score && a.index < b.index);
}

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

/// Does non-maximum suppression: boxes [rows / classes, n, 4], scores [rows, n]. Writes the indices of the kept boxes to
/// out [rows, most], and -1 after them. Drops boxes with a score of at most `least`, and boxes that overlap a kept box
/// by more than `greatest`. Tasks: rows; scratch: 16 * n bytes.
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
/// On GPUs, three launches find the candidates (boxes above the score), order them, and keep or drop them in tiles of
/// 63. Each tile has a word of 64 bits: a bit for each box, set if it is kept, and the highest bit, set once the word is
/// complete. So a block passes its result to others by one relaxed store.
using tasks::tile_boxes;
inline constexpr u64 is_complete = u64(1) << 63;

/// The memory that the launches share: the number of the next tile, the number of candidates of each row, and the words
/// of each row's tiles. The keys and the order of the candidates, [rows, n] each, are in buffers of their own.
struct BoxState {
  WEFT_GLOBAL u64* state;
  i64 rows, n;
  WEFT_INLINE i64 tiles() const { return ceil_div(n, tile_boxes); }
  WEFT_INLINE WEFT_GLOBAL u64& count(i64 row) const { return state[1 + row]; }
  WEFT_INLINE WEFT_GLOBAL u64* words(i64 row) const { return state + 1 + rows + row * tiles(); }
};

/// Returns a number that is greater for a better box: a higher score, or an equal score (-0 and 0 too) and a lower
/// index. The score is not NaN.
WEFT_INLINE u64 key_of(f32 score, i64 index) {
  const u32 bits = __builtin_bit_cast(u32, score + 0.0f);
  return u64(bits >> 31 ? ~bits : bits | 0x80000000u) << 32 | u32(~u32(index));
}

/// Lists the keys of boxes with a score above `least`, in any order, and prepares the memory and `out` for the next
/// launches. A block does this for a row.
template <class L, class P, class Keys, class To>
WEFT_INLINE void collect_boxes(const L& launch, const BoxState& memory, i64 most, P scores, f32 least, Keys keys,
                               To out) {
  WEFT_SHARED i32 found;
  const int me = thread_id();
  for_tasks(launch, memory.rows, [&](i64 row) WEFT_LAMBDA {
    const i64 n = memory.n;
    if (me == 0) found = 0;
    barrier();
    WEFT_NO_UNROLL for (i64 i = me; i < n; i += L::threads) {
      const f32 score = scores[row * n + i];
      if (score > least) keys[row * n + __atomic_fetch_add(&found, 1, __ATOMIC_RELAXED)] = key_of(score, i);
    }
    WEFT_NO_UNROLL for (i64 i = me; i < memory.tiles(); i += L::threads) memory.words(row)[i] = 0;
    WEFT_NO_UNROLL for (i64 i = me; i < most; i += L::threads) out[row * most + i] = -1;
    barrier();
    if (me == 0) memory.count(row) = u64(found);
    if (me == 0 && row == 0) memory.state[0] = 0;
    barrier();
  });
}

/// Writes the indices of each row's candidates to `order`, the best first.
template <class L, class Keys, class Order>
WEFT_INLINE void order_boxes(const L& launch, const BoxState& memory, Keys keys, Order order) {
  place_by_rank(
      launch, memory.rows, memory.n, [&](i64 row) WEFT_LAMBDA { return i64(memory.count(row)); },
      [&](i64 row, i64 at) WEFT_LAMBDA { return u64(keys[row * memory.n + at]); },
      [](u64 a, u64 b) WEFT_LAMBDA { return a > b; },
      [&](i64 row, i64 rank, u64 key) WEFT_LAMBDA { order[row * memory.n + rank] = i32(~u32(key)); });
}

/// The corners of a tile's boxes in shared memory.
using TileCorners = const WEFT_SHARED_SPACE Vec<f32, 4>*;

/// Returns which of the boxes of `mask` overlap `own`: bit i stands for box first + i of `count` boxes.
WEFT_INLINE u32 overlapping(TileCorners corners, const BoxCorners& own, u64 mask, int first, int count, f32 greatest) {
  u32 found = 0;
  WEFT_NO_UNROLL for (int i = 0; i < count; i++) {
    if (!(mask >> (first + i) & 1)) continue;
    const Vec<f32, 4> c = corners[first + i];
    if (overlap(own, {c[0], c[1], c[2], c[3]}) > greatest) found |= 1u << i;
  }
  return found;
}

/// Waits until the word of a tile is complete; returns the bits of the kept boxes.
WEFT_INLINE u64 kept_boxes(const WEFT_GLOBAL u64* word) {
  u64 kept = 0;
  while (!(kept & is_complete)) kept = __atomic_load_n(word, __ATOMIC_RELAXED);
  return kept ^ is_complete;
}

/// Selects boxes of a tile, in their order: those whose `hits` (a bit for each box that excludes it) meet no selected
/// box. Returns the complete word.
WEFT_INLINE u64 select_boxes(const WEFT_SHARED_SPACE u64* hits, i64 count, i64 room) {
  u64 kept = is_complete;
  WEFT_NO_UNROLL for (i64 i = 0; i < count && room > 0; i++) {
    if (!(hits[i] & kept)) kept |= u64(1) << i, --room;
  }
  return kept;
}

/// Keeps or drops the boxes of one tile. Waits for the tiles before it, one after the other. `corners_at(i)` returns
/// the corners of candidate i of the row, `write(place, i)` receives those that are kept. Each candidate of the tile has
/// Threads / 64 threads, which compare it with `each` boxes of a tile.
template <int Threads, class CornersAt, class Write>
WEFT_INLINE void keep_boxes(WEFT_GLOBAL u64* words, i64 tile, i64 candidates, i64 most, f32 greatest,
                            const CornersAt& corners_at, const Write& write) {
  constexpr int each = 64 * 64 / Threads;
  WEFT_SHARED Vec<f32, 4> corners[64];
  WEFT_SHARED u64 hits[64], word;
  WEFT_SHARED u32 parts[Threads];
  const int me = thread_id(), mine = me % 64, first = me / 64 * each;
  const i64 start = tile * tile_boxes, count = least(candidates - start, tile_boxes);
  const auto load_tile = [&](i64 of) WEFT_LAMBDA {
    const BoxCorners c = corners_at(least(of * tile_boxes + mine, candidates - 1));
    if (me < 64) corners[me] = Vec<f32, 4>{c.y1, c.x1, c.y2, c.x2};
    return c;
  };
  barrier();
  const BoxCorners own = load_tile(tile);
  barrier();
  u32 found = overlapping(corners, own, (u64(1) << mine) - 1, first, each, greatest);
  i64 before = 0;
  WEFT_NO_UNROLL for (i64 t = 0; t < tile && before < most; t++) {
    barrier();
    load_tile(t);
    if (me == 0) word = kept_boxes(words + t);
    barrier();
    before += __builtin_popcountll(word);
    if (overlapping(corners, own, word, first, each, greatest)) found |= 1u << each;
  }
  parts[me] = found;
  barrier();
  if (me < 64) {
    u64 all = 0;
    WEFT_UNROLL for (int p = 0; p < Threads / 64; p++) {
      const u32 part = parts[p * 64 + me];
      all |= u64(part & ((1u << each) - 1)) << (p * each) | (part >> each ? is_complete : 0);
    }
    hits[me] = all;
  }
  barrier();
  if (me == 0) {
    word = select_boxes(hits, count, most - before);
    __atomic_store_n(words + tile, u64(word), __ATOMIC_RELAXED);
  }
  barrier();
  const u64 kept = word ^ is_complete;
  if (me < 64 && kept >> me & 1) write(before + __builtin_popcountll(kept & ((u64(1) << me) - 1)), start + me);
}

/// Does the last launch. A block takes the number of a tile from a counter, the first tiles of all rows first; so the
/// tiles for which it waits have been taken by blocks that run. `boxes` [rows / classes, n, 4], out [rows, most].
template <bool Centers, class L, class P, class Order, class To>
WEFT_INLINE void suppress_boxes(const L& launch, const BoxState& memory, i64 classes, i64 most, P boxes, f32 greatest,
                                Order orders, To out) {
  WEFT_SHARED u64 number;
  WEFT_NO_UNROLL for (;;) {
    barrier();
    if (thread_id() == 0) number = __atomic_fetch_add(memory.state, u64(1), __ATOMIC_RELAXED);
    barrier();
    if (i64(number) >= memory.rows * memory.tiles()) return;
    const auto [tile, row] = divide_index(i64(number), memory.rows);
    const i64 candidates = i64(memory.count(row)), image = row / classes * memory.n;
    if (tile * tile_boxes >= candidates) continue;
    const auto order = orders + row * memory.n;
    keep_boxes<L::threads>(
        memory.words(row), tile, candidates, most, greatest,
        [&](i64 i) WEFT_LAMBDA { return corners_of<Centers>(boxes + (image + order[i]) * 4); },
        [&](i64 place, i64 i) WEFT_LAMBDA { out[row * most + place] = order[i]; });
  }
}
#endif

}  // namespace weft::kernel
