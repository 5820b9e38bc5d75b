// SPDX-License-Identifier: Apache-2.0
#pragma once
/// Norms over groups of channels of channels-last images on a GPU, in two launches as in row_parts.h. A pixel's channels of
/// one group are only a few bytes, so a block takes all channels of a run of pixels.

#include "row_parts.h"

namespace weft::kernel {

#ifdef WEFT_GPU
/// How a block walks over the pixels of channels-last images with `Groups` * `Channels` channels: a thread keeps to the
/// N channels from `col` on, and to each `rows`th pixel from `row` on. It loads `ahead` pixels at once.
template <class Acc, int N, int Groups, int Channels, int Threads>
struct ImageWalk {
  using V = Vec<Acc, N>;
  static constexpr int all = Groups * Channels, pieces = all / N, rows = Threads / pieces,
                       ahead = tasks::image_pixels_ahead, step = rows * ahead;
  static_assert(all % N == 0 && pieces <= Threads);
  const int row = thread_id() / pieces, col = thread_id() % pieces * N;
  i64 begin, end;  ///< the pixels of the part

  WEFT_INLINE ImageWalk(i64 pixels, i64 length, i64 part)
      : begin(least(part * length, pixels)), end(least(begin + length, pixels)) {}
  /// Returns the number of elements of each group in this part.
  WEFT_INLINE Acc count() const { return Acc((end - begin) * Channels); }
  /// Returns the number of this thread's pixels.
  WEFT_INLINE i64 own() const { return row < rows && begin + row < end ? ceil_div(end - begin - row, rows) : 0; }
  /// Loads the next pixels of this thread from pixel `at` on. Past the end it loads the last pixel again, without a
  /// branch, so that all loads are under way together.
  template <class Load>
  WEFT_INLINE void fetch(V (&to)[ahead], i64 batch, i64 at, const Load& load) const {
    WEFT_UNROLL for (int i = 0; i < ahead; i++) to[i] = load(batch, least(at + i * rows, end - 1), col, Full{});
  }
  /// Calls use(Vec, pixel) for this thread's pixels, the first of which are in `held`. The part is not empty.
  template <class Load, class Use>
  WEFT_INLINE void each(V (&held)[ahead], i64 batch, const Load& load, const Use& use) const {
    WEFT_NO_UNROLL for (i64 at = begin + row; row < rows && at < end; at += step) {
      if (at > begin + row) fetch(held, batch, at, load);
      WEFT_UNROLL for (int i = 0; i < ahead; i++) {
        if (at + i * rows < end) use(held[i], at + i * rows);
      }
    }
  }
  /// Returns for each lane the number cells[g] of its group.
  template <class Cells>
  WEFT_INLINE V of_groups(const Cells& cells) const {
    V v{};
    WEFT_UNROLL for (int l = 0; l < N; l++) set_lane(v, l, Acc(cells[(col + l) / Channels]));
    return v;
  }
  /// Calls use(lane, group) for the first channel of each group, on one thread.
  template <class Use>
  WEFT_INLINE void lead(const Use& use) const {
    WEFT_UNROLL for (int l = 0; l < N; l++) {
      if (row == 0 && (col + l) % Channels == 0) use(l, (col + l) / Channels);
    }
  }
  /// Returns for each lane the first element of its group: that of the image's first pixel.
  template <class Load>
  WEFT_INLINE V origin(i64 batch, const Load& load) const {
    WEFT_SHARED Acc cells[Groups];
    const V first = load(batch, 0, col, Full{});
    barrier();
    lead([&](int l, int group) WEFT_LAMBDA { cells[group] = lane(first, l); });
    barrier();
    return of_groups(cells);
  }
  /// Returns for each lane the sum of `v` over all threads and lanes of its group.
  WEFT_INLINE V sum(V v) const {
    WEFT_SHARED Acc cells[Threads * N];
    WEFT_SHARED Acc totals[Groups];
    WEFT_UNROLL for (int l = 0; l < N; l++) cells[thread_id() * N + l] = lane(v, l);
    barrier();
    WEFT_NO_UNROLL for (int group = thread_id() / wave_size; group < Groups; group += Threads / wave_size) {
      Acc total = Acc(0);
      WEFT_FEW for (int i = thread_id() % wave_size; i < rows * Channels; i += wave_size) {
        total += cells[i / Channels * all + group * Channels + i % Channels];
      }
      total = team_reduce<Sum, Team::wave, Threads>(total);
      if (thread_id() % wave_size == 0) totals[group] = total;
    }
    barrier();
    return of_groups(totals);
  }
};

/// The first kernel of a group norm's pair: calls store(row * parts + part, first, second) with what LayerNormParts
/// measures, where row = image * Groups + group. A part has `length` pixels, a multiple of ImageWalk::step; the last
/// may be shorter. load(image, pixel, channel, lanes) -> Vec. Blocks: batches * parts.
template <class Acc, int N, int Groups, int Channels, class L, class Load, class Store>
WEFT_INLINE void measure_image_parts(const L& launch, i64 batches, i64 pixels, i64 parts, i64 length,
                                     const LayerNormParts<Acc>&, const Load& load, const Store& store) {
  using Walk = ImageWalk<Acc, N, Groups, Channels, L::threads>;
  using V = Vec<Acc, N>;
  for_tasks(launch, batches * parts, [&](i64 task) WEFT_LAMBDA {
    const auto [batch, part] = divide_index(task, parts);
    const Walk walk(pixels, length, part);
    if (walk.begin >= walk.end) return;
    V held[Walk::ahead], sum{}, squares{};
    walk.fetch(held, batch, walk.begin + walk.row, load);
    const V first = held[0], origin = walk.origin(batch, load);
    // A thread sums relative to its own first pixel, one of the numbers that it sums. So `squares` is at most n times
    // the sum of squared deviations, and few bits are lost in the difference.
    walk.each(held, batch, load, [&](V v, i64) WEFT_LAMBDA {
      const V apart = v - first;
      sum += apart, squares += apart * apart;
    });
    const Acc own = Acc(walk.own());
    const V n = splat<Acc, N>(own), inverse = splat<Acc, N>(Acc(1) / own), none{};
    const V mean = first - origin + sum * inverse;
    const V middle = walk.sum(own > 0 ? mean * n : none) * splat<Acc, N>(Acc(1) / walk.count()), apart = mean - middle;
    const V deviations = walk.sum(own > 0 ? squares - sum * sum * inverse + n * apart * apart : none);
    walk.lead([&](int l, int group) WEFT_LAMBDA {
      store((batch * Groups + group) * parts + part, lane(middle, l), lane(deviations, l));
    });
  });
}

/// The second kernel: calls store(image, pixel, channel, Vec, lanes) for all elements; see finish_row_parts.
template <class Acc, int N, int Groups, int Channels, class L, class Load, class Given, class Store>
WEFT_INLINE void finish_image_parts(const L& launch, i64 batches, i64 pixels, i64 parts, i64 length,
                                    const LayerNormParts<Acc>& rule, const Load& load, const Given& found,
                                    const Store& store) {
  using Walk = ImageWalk<Acc, N, Groups, Channels, L::threads>;
  using V = Vec<Acc, N>;
  WEFT_SHARED Acc means[Groups], inverses[Groups];
  for_tasks(launch, batches * parts, [&](i64 task) WEFT_LAMBDA {
    const auto [batch, part] = divide_index(task, parts);
    const Walk walk(pixels, length, part);
    if (walk.begin >= walk.end) return;
    V held[Walk::ahead];
    walk.fetch(held, batch, walk.begin + walk.row, load);
    const V origin = walk.origin(batch, load);
    WEFT_NO_UNROLL for (int group = thread_id() / wave_size; group < Groups; group += L::threads / wave_size) {
      const auto found_in = [&](i64 at) WEFT_LAMBDA {
        PartFound<Acc> f = found((batch * Groups + group) * parts + at);
        f.count = Walk(pixels, length, at).count();
        return f;
      };
      const RowParts<Acc, Team::wave, L::threads, decltype(found_in)> all{parts, found_in};
      const auto merged = rule.merge(all, pixels * Channels, Acc(0));
      if (thread_id() % wave_size == 0) means[group] = merged.mean, inverses[group] = merged.inverse;
    }
    barrier();
    const V mean = walk.of_groups(means), inverse = walk.of_groups(inverses);
    walk.each(held, batch, load, [&](V v, i64 pixel) WEFT_LAMBDA {
      store(batch, pixel, walk.col, (v - origin - mean) * inverse, Full{});
    });
  });
}
#endif

}  // namespace weft::kernel
