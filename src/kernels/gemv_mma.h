// SPDX-License-Identifier: Apache-2.0
#pragma once
/// GEMV on NVIDIA's matrix unit: products of a few rows of 16-bit floats, up to eight at a time. Reading the weights
/// takes nearly all of the time, so each wave prefetches them through a ring in shared memory, across tasks and before
/// the previous launch ends. The rows stay in shared memory.
///
/// Each block has an equal share of the columns. A task is 16 of them; the waves divide k. In a step, a wave multiplies
/// 128 bytes of each column. Weights are of a type W such as `DenseColumns` below or `BlockColumns` of block_dot_gpu.h.

#include "gemm_gpu.h"
#include "gemv_gpu.h"

#ifdef WEFT_MMA
namespace weft::kernel {

using tasks::ring_columns;
/// Bytes of a column of weights in a step, and their pieces of 16 bytes.
inline constexpr int ring_row = tasks::ring_row_bytes, ring_pieces = ring_row / 16;

/// Returns the offset in a slot that this lane passes to load_matrices for pieces 0 and 1 of 16 columns: the matrices
/// are columns 0 to 7 and 8 to 15 of piece 0, then of piece 1. XOR with 16 * p gives the offset for pieces p and p + 1,
/// p even.
WEFT_INLINE u32 ring_read_at() {
  const int lane = lane_id(), column = lane % 8 + lane / 8 % 2 * 8;
  return u32(column * ring_row + ((lane / 16) ^ (column % 8)) * 16);
}

/// Columns of 16-bit weights, of one matrix or of up to four (twins). A task has equally many columns of each matrix.
template <class T, class B>
struct DenseColumns {
  static constexpr int span = ring_row / int(sizeof(T)), unit = 8, slot_bytes = ring_columns * ring_row;
  static constexpr int matrices = matrices_of<B>, outputs = tasks::ring_outputs(matrices);
  struct Factors {};
  struct Lane {};
  const B& b;
  i64 k;

  WEFT_INLINE const WEFT_GLOBAL u8* column(int matrix, i64 column) const {
    return (const WEFT_GLOBAL u8*)row_of(b, matrix, 0, column);
  }
  WEFT_INLINE i64 row_bytes() const { return k * i64(sizeof(T)); }
  WEFT_INLINE Lane lane(i64, int) const { return {}; }
  template <int Waves>
  WEFT_INLINE void copy_factors(u32, const Lane&, int, int) const {}
  WEFT_INLINE Factors load_factors(i64, int, int) const { return {}; }
  WEFT_INLINE void read_factors(Factors&, u32) const {}
  WEFT_INLINE static Vec<u32, 4> in_order(Vec<u32, 4> x) { return x; }
  /// Returns the index of unit `unit` of row `row` among the units of all rows in one step.
  template <int Rows>
  WEFT_INLINE static int place(int unit, int row) {
    return unit * Rows + row;
  }
  /// Adds the products of a step to `total`. `rows`: the rows in this step, as [piece][row] of 16 bytes.
  template <class Float, int Rows>
  WEFT_INLINE void multiply(f32 (&total)[4], u32 slot, u32 rows, int last_row, const Factors&) const {
    const int lane = lane_id();
    const u32 mine = rows + u32((lane / 8 * Rows + int(least(lane % 8, last_row))) * 16),
              read_at = slot + ring_read_at();
    WEFT_UNROLL for (int p = 0; p < ring_pieces; p += 4) {
      u32 x[4], w[2][4];
      load_matrices(x, mine + p * Rows * 16);
      WEFT_UNROLL for (int i = 0; i < 2; i++) load_matrices(w[i], read_at ^ u32((p + 2 * i) * 16));
      WEFT_UNROLL for (int i = 0; i < 2; i++) multiply_pairs<Float>(total, w[i], x[2 * i], x[2 * i + 1]);
    }
  }
};

/// The ring in shared memory through which a wave reads its steps of a block's columns, 16 at a time. A lane copies 16
/// bytes of every fourth column.
template <class W, int Stages, int Steps, int Waves>
struct WeightRing {
  static constexpr int bytes = Stages * W::slot_bytes, outputs = tasks::ring_outputs(W::matrices);
  const W& weights;
  int column, end, step = 0;  // the next step to copy is `step` of the columns from `column` on; the last is end - 1
  int wave = thread_id() / wave_size, row = lane_id() / 8, first = wave * ring_row + lane_id() % 8 * 16;
  u32 shared = shared_address((WEFT_SHARED_SPACE char*)weft_dynamic_shared) + u32(wave * bytes),
      to = u32(row * ring_row + ((lane_id() % 8) ^ row) * 16);  // swizzled: eight columns use different banks
  const WEFT_GLOBAL u8* from[W::matrices];                      // this lane's bytes in step 0
  i64 apart[W::matrices];                                       // bytes from a column to the next
  typename W::Lane factors;

  WEFT_INLINE WeightRing(const W& weights, int column, int end) : weights(weights), column(column), end(end) { find(); }
  WEFT_INLINE void find() {
    WEFT_UNROLL for (int m = 0; m < W::matrices; m++) {
      from[m] = weights.column(m, column + row) + first;
      apart[m] = weights.column(m, 1) - weights.column(m, 0);
    }
    factors = weights.lane(column, wave);
  }
  /// Returns the number of this wave's step among the steps of a column.
  WEFT_INLINE int position(int step) const { return step * Waves + wave; }
  /// Starts to copy the next step to a slot.
  WEFT_INLINE void start(int slot) {
    if (column < end) {
      const u32 slot_at = shared + u32(slot * W::slot_bytes);
      const int at = step * (Waves * ring_row), count = end - column < outputs ? end - column : outputs;
      const bool is_inside = first + at < int(weights.row_bytes());
      WEFT_UNROLL for (int c = 0; c < ring_columns; c += 4) {
        const bool is_used = c < W::matrices * outputs;  // three matrices have 12 columns
        const int m = is_used ? c / outputs : 0, of_matrix = c % outputs;
        copy_async_to(slot_at + (c % 8 == 0 ? to : to ^ 64) + c * ring_row, from[m] + at + of_matrix * apart[m],
                      is_used && is_inside && row + of_matrix < count ? 16 : 0);
      }
      weights.template copy_factors<Waves>(slot_at, factors, count, step);
      if (++step == Steps) {
        step = 0, column += outputs;
        if (column < end) find();
      }
    }
    end_async_group();
  }
};

/// Returns 1 / sqrt(mean(x^2) + epsilon) of the row to which this lane's elements belong. `squares`: the sum of their
/// squares. Lane l has elements of row l / 8 % Rows. All threads of the block call it.
template <int Rows, class L>
WEFT_INLINE f32 inverse_norm(const L&, f32 squares, i64 k, f32 epsilon, Shared<f32> sums) {
  const int row = lane_id() / 8 % Rows;
  WEFT_UNROLL for (int mask = 1; mask < wave_size; mask *= 2) {
    if (mask < 8 || mask >= 8 * Rows) squares += shuffle_xor(squares, mask);
  }
  if (lane_id() == row * 8) sums[thread_id() / wave_size * Rows + row] = squares;
  barrier();
  f32 sum = 0;
  WEFT_UNROLL for (int w = 0; w < L::threads / wave_size; w++) sum += sums[w * Rows + row];
  return rsqrt(sum / f32(k) + epsilon);
}

/// Copies this wave's part of rows [row0, row0 + count) to shared memory, in units of `W::unit` elements at W::place.
/// Normed rows stay in registers until their norms are known.
template <class T, int Rows, int Steps, class L, class W, class Ring, class A>
WEFT_INLINE void copy_rows(const L& launch, WEFT_SHARED_SPACE char* to, const Ring& ring, const A& a, i64 row0,
                           int count, i64 k_end, Shared<f32> sums) {
  constexpr int unit = W::unit, units = W::span / unit, all = Steps * Rows * units;
  constexpr bool normed = is_normed<A>;
  constexpr int turns = int(ceil_div(all, wave_size)), at_once = normed || turns <= 8 ? turns : 8;
  constexpr bool early_gain = normed && at_once <= 4;  // only if registers suffice
  static_assert(!normed || (units == 8 && Rows <= 4));
  WEFT_NO_UNROLL for (int first = 0; first < all; first += at_once * wave_size) {
    Vec<T, unit> x[at_once] = {};
    Vec<f32, unit> gain[early_gain ? at_once : 1] = {};
    f32 squares = 0;
    const auto k_of = [&](int i) WEFT_LAMBDA {
      const int at = first + lane_id() + i * wave_size;
      return ring.position(at / units / Rows) * W::span + at % units * unit;
    };
    WEFT_UNROLL for (int i = 0; i < at_once; i++) {
      const int at = first + lane_id() + i * wave_size, r = at / units % Rows;
      const i64 k = k_of(i);
      if (at >= all || k >= k_end || r >= count) continue;
      x[i] = convert<T>(load_whole<unit>(a.row(0, row0 + r) + k, Full{}));
      if constexpr (early_gain) gain[i] = convert<f32>(load_whole<unit>(a.gain + k, Full{}));
    }
    if constexpr (normed) {
      WEFT_UNROLL for (int i = 0; i < at_once; i++) {
        const auto wide = convert<f32>(x[i]);
        WEFT_UNROLL for (int j = 0; j < unit; j++) squares += wide[j] * wide[j];
      }
      const f32 by = inverse_norm<Rows>(launch, squares, k_end, a.epsilon, sums);
      WEFT_UNROLL for (int i = 0; i < at_once; i++) {
        if constexpr (!early_gain) {
          const i64 k = k_of(i);
          gain[0] = k < k_end ? convert<f32>(load_whole<unit>(a.gain + k, Full{})) : Vec<f32, unit>{};
        }
        x[i] = convert<T>(convert<f32>(x[i]) * by * gain[early_gain ? i : 0]);
      }
    }
    WEFT_UNROLL for (int i = 0; i < at_once; i++) {
      const int at = first + lane_id() + i * wave_size, step = at / units / Rows;
      if (at >= all) continue;
      const auto place = to + (step * units * Rows + W::template place<Rows>(at % units, at / units % Rows)) * unit * 2;
      *(WEFT_SHARED_SPACE Vec<u32, unit / 2>*)place = W::in_order(__builtin_bit_cast(Vec<u32, unit / 2>, x[i]));
    }
  }
}

/// Multiplies s.m rows of T (f16 or bf16), `Rows` at a time; `Rows` is 1, 2, 4 or 8. `Steps`: tasks::ring_steps.
/// `Ahead`: the weights are constants, which are copied before wait_for_inputs(). Rows are Direct or normed; k is a
/// multiple of 8. Shared memory: tasks::ring_shared. Thread blocks: at least ceil_div(m, Rows); more blocks than can
/// run at once are of no use.
template <class T, int Rows, int Stages, int Steps, bool Ahead, class L, class A, class W, class Store>
WEFT_INLINE void gemv_ring(const L& launch, const GpuGemmSizes& s, const A& a, const W& weights, const Store& store) {
  constexpr int waves = L::threads / wave_size, outputs = tasks::ring_outputs(W::matrices);
  const int lane = lane_id(), quarter = lane % 4, eighth = lane / 4;
  const i64 groups = ceil_div(s.m, Rows);  // groups of rows; a thread block multiplies one of them
  const auto [first, group] = groups == 1 ? Division{launch.block(), 0} : divide_index(launch.block(), groups);
  const i64 next = groups == 1 ? launch.blocks() : divide_index(launch.blocks() - 1 - group, groups).quotient + 1;
  const i64 row0 = group * Rows;
  const int rows = int(least(s.m - row0, Rows));

  // Each block has an equal share of the columns, in pairs.
  const u32 pairs = u32(s.n + 1) / 2, share = pairs / u32(next), more = pairs % u32(next), at = u32(first);
  const int begin = int(at * share + (at < more ? at : more)) * 2,
            end = int(least(begin + int(share + (at < more)) * 2, s.n));
  WeightRing<W, Stages, Steps, waves> ring(weights, begin, end);
  const Shared<f32> sums = (Shared<f32>)(weft_dynamic_shared + waves * ring.bytes);
  WEFT_SHARED_SPACE char* const my_rows =
      (WEFT_SHARED_SPACE char*)(sums + 2 * waves * ring_columns * Rows) + ring.wave * (Steps * Rows * W::span * 2);
  WEFT_UNROLL for (int i = 0; i + 1 < Stages; i++) ring.start(i);
  if constexpr (Ahead) wait_for_inputs();
  const auto copy = [&]() WEFT_LAMBDA {
    copy_rows<T, Rows, Steps, L, W>(launch, my_rows, ring, a, row0, rows, s.k, sums + waves * ring_columns * Rows);
  };
  if constexpr (W::matrices == 1) copy();
  // With several matrices, the epilogue's loads begin before those of the rows: a cell reads its last state.
  constexpr int lanes = tasks::ring_lanes(W::matrices), across = outputs / lanes;
  const auto start_epilogue = [&](int first_column) WEFT_LAMBDA {
    const i64 row = thread_id() / across, column = first_column + thread_id() % across;
    if constexpr (W::matrices == 1) return 0;
    else return begin_epilogue(store, i64(0), row0 + least(row, rows - 1), least(column, s.n - 1), Full{});
  };

  int slot = 0, side = 0;
  for (int column = begin; column < end; column += outputs) {
    const int count = end - column < outputs ? end - column : outputs;
    [[maybe_unused]] const auto finish = start_epilogue(column);
    if constexpr (W::matrices > 1) {
      if (column == begin) copy();
    }
    f32 total[4] = {};  // lane l: columns l / 4 and l / 4 + 8 of rows 2 (l % 4) and 2 (l % 4) + 1
    WEFT_NO_UNROLL for (int step = 0; step < Steps; step++) {
      auto factors = weights.load_factors(column, count, ring.position(step));
      wait_async_groups<Stages - 2>();
      sync_wave();
      ring.start(slot == 0 ? Stages - 1 : slot - 1);
      const u32 from = ring.shared + u32(slot * W::slot_bytes);
      weights.read_factors(factors, from);
      weights.template multiply<T, Rows>(total, from, shared_address(my_rows) + u32(step * Rows * W::span * 2),
                                         rows - 1, factors);
      slot = slot + 1 == Stages ? 0 : slot + 1;
    }
    // Adds the sums of the waves. The next task writes to the other half, so one barrier is enough.
    const Shared<f32> all = sums + side * (waves * ring_columns * Rows);
    WEFT_UNROLL for (int i = 0; i < 4; i++) {
      const int row = 2 * quarter + i % 2;
      if (row < Rows) all[(ring.wave * ring_columns + eighth + i / 2 * 8) * Rows + row] = total[i];
    }
    side ^= 1;
    barrier();
    const int row = thread_id() / across, at = thread_id() % across * lanes;
    if (row >= rows || at >= count) continue;
    constexpr int parts = lanes * W::matrices;
    f32 sum[parts] = {};
    WEFT_UNROLL for (int i = 0; i < parts * waves; i++) {
      const int apart = i % parts * (W::matrices == 1 ? 1 : outputs);
      sum[i % parts] += all[(i / parts * ring_columns + at + apart) * Rows + row];
    }
    if constexpr (W::matrices > 1) {
      Sums<Vec<f32, 1>, parts> each;
      WEFT_UNROLL for (int i = 0; i < parts; i++) each.of[i] = Vec<f32, 1>{sum[i]};
      finish(each);
    } else if (at + 1 < count) {
      store(i64(0), row0 + row, i64(column + at), Vec<f32, 2>{sum[0], sum[1]}, Full{});
    } else {
      store(i64(0), row0 + row, i64(column + at), Vec<f32, 2>{sum[0], sum[1]}, Part{1});
    }
  }
  wait_async_groups<0>();
}
/// Multiplies rows as gemv_ring does, by Direct weights or by up to four such matrices (twins).
template <class T, int Rows, int Stages, int Steps, bool Ahead, class L, class A, class B, class Store>
WEFT_INLINE void gemv_mma(const L& launch, const GpuGemmSizes& s, const A& a, const B& b, const Store& store) {
  gemv_ring<T, Rows, Stages, Steps, Ahead>(launch, s, a, DenseColumns<T, B>{b, s.k}, store);
}

}  // namespace weft::kernel
#endif
