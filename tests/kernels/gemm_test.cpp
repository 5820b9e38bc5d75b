// SPDX-License-Identifier: Apache-2.0
/// The CPU matrix product and its packing, compared with plain loops in wide types, for sizes just below and above each
/// block size.
#if defined(__AVX512BF16__) && !defined(__AMX_TILE__)
#include "software_amx.h"
#endif
#include "kernels/gemm.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "kernels/pack.h"
#include "todays.h"

using namespace weft::kernel;
namespace tasks = weft::tasks;
using weft::i16, weft::i32, weft::i64, weft::i8, weft::u8;

namespace {

constexpr GemmTile tile64 = tasks::half_lanes(native_tile);

template <class Mac>
constexpr GemmTile tile_of = Mac::header > 0                  ? tasks::quad_tile
                             : sizeof(typename Mac::Acc) == 8 ? tile64
                                                              : native_tile;

template <class T>
std::vector<T> random_values(i64 count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<T> v(static_cast<size_t>(count));
  for (T& x : v) {
    const int draw = static_cast<int>(random() % 255);
    if constexpr (sizeof(T) == 1) x = static_cast<T>(draw - (T(-1) < T(0) ? 127 : 0));
    else if constexpr (is_same<T, i16>) x = static_cast<T>(2 * draw - 255);
    else x = convert<T>(static_cast<f32>(draw - 127) / 64);
  }
  return v;
}

template <class T>
double wide(T x) {
  if constexpr (is_packed<T>) return convert<f32>(x);
  else return static_cast<double>(x);
}

struct Run {
  GemmSizes s;
  bool fill, transpose_a, transpose_b;
};

/// Packs B, runs gemm in two halves of the task range, and returns the largest error against plain sums.
template <class Mac, class A, class B, GemmTile tile = tile_of<Mac>>
double worst_error(const Run& r) {
  const GemmSizes& s = r.s;
  const auto a = random_values<A>(s.batch * s.m * s.k, 1);
  const auto b = random_values<B>(s.batch * s.k * s.n, 2);
  const auto bias = random_values<f32>(s.n, 3);
  const i64 sm = r.transpose_a ? 1 : s.k, sk = r.transpose_a ? s.m : 1;
  const PackB pack{.batch = s.batch,
                   .n = s.n,
                   .k = s.k,
                   .stride_batch = s.k * s.n,
                   .stride_k = r.transpose_b ? 1 : s.n,
                   .stride_n = r.transpose_b ? s.k : 1};
  const i64 packed_size = tasks::packed_b_elements(tile, Mac::group, s.n, s.k, Mac::header);
  std::vector<typename Mac::B> packed(static_cast<size_t>(s.batch * packed_size + 1));
  pack_b<Mac, tile>(Launch<>{nullptr, 0, pack_b_tasks<tile>(pack)}, pack, b.data(), packed.data());

  const i64 units = tasks::gemm_units(s.k, Mac::group);
  const i64 bytes = tasks::gemm_scratch(tile, s.batch, s.m, s.n, units, true,
                                        std::max(sizeof(typename Mac::Acc), sizeof(typename Mac::Unit)));
  std::vector<char> scratch(static_cast<size_t>(bytes) + 64);
  std::vector<double> y(static_cast<size_t>(s.batch * s.m * s.n), -1e9);
  const weft::LaunchArgs args{.scratch = scratch.data() + (64 - reinterpret_cast<size_t>(scratch.data()) % 64)};
  const auto store_sum = [&](i64 batch, i64 row, i64 col, auto v, auto lanes) {
    for (int i = 0; i < valid_lanes(lanes, lanes_of<decltype(v)>); ++i) {
      y[static_cast<size_t>((batch * s.m + row) * s.n + col + i)] = static_cast<double>(v[i]) + wide(bias[col + i]);
    }
  };
  const auto b_at = [&](i64 batch) { return packed.data() + batch * packed_size; };
  const auto load_a = [&](i64 batch, i64 row, i64 k, auto lanes) {
    Vec<A, fill_lanes<Mac>> v{};
    for (int i = 0; i < valid_lanes(lanes, fill_lanes<Mac>); ++i)
      set_lane(v, i, a[static_cast<size_t>(batch * s.m * s.k + row * sm + (k + i) * sk)]);
    return v;
  };
  const i64 all = tasks::gemm_blocks(tile, s.batch, s.m, s.n, units, r.fill).tasks;
  for (i64 half = 0; half < 2; ++half) {
    const Launch<> launch{&args, half * (all / 2), half ? all : all / 2};
    const auto run = [&](const auto& rows) {
      if constexpr (!tile.amx && (is_same<Mac, MacF32> || is_same<Mac, MacBf16> || is_same<Mac, MacInt8>)) {
        if (half == 1 && units <= tasks::partial_sum) return gemm<Mac, tile, true>(launch, s, rows, b_at, store_sum);
      }
      gemm<Mac, tile>(launch, s, rows, b_at, store_sum);
    };
    if (r.fill) run(FilledRows{load_a});
    else if constexpr (is_same<A, typename Mac::Unit>) {
      run(DirectRows{[&](i64 batch) { return a.data() + batch * s.m * s.k; }, s.k});
    }
  }
  double worst = 0;
  for (i64 batch = 0; batch < s.batch; ++batch) {
    for (i64 m = 0; m < s.m; ++m) {
      for (i64 n = 0; n < s.n; ++n) {
        double sum = wide(bias[n]), size = 1;
        for (i64 k = 0; k < s.k; ++k) {
          const double x = wide(a[batch * s.m * s.k + m * sm + k * sk]);
          const double w = wide(b[batch * s.k * s.n + k * pack.stride_k + n * pack.stride_n]);
          const double moved = is_same<B, u8> ? w - 128 : w;
          sum += x * moved, size += std::abs(x * moved);
        }
        worst = std::max(worst, std::abs(y[static_cast<size_t>((batch * s.m + m) * s.n + n)] - sum) / size);
      }
    }
  }
  return worst;
}

const GemmSizes sizes[] = {
    {1, 0, 5, 3},     {1, 3, 0, 5},     {1, 3, 5, 0},      {1, 1, 1, 1},      {2, 1, 17, 9},      {3, 2, 16, 64},
    {1, 5, 33, 31},   {1, 6, 15, 8},    {2, 7, 48, 130},   {1, 13, 31, 1},    {1, 19, 8, 2},      {1, 29, 64, 65},
    {1, 130, 24, 40}, {1, 131, 160, 7}, {1, 300, 5, 66},   {1, 37, 90, 1100}, {2, 150, 200, 520}, {1, 9, 1000, 515},
    {0, 4, 4, 4},     {2, 1, 200, 70},  {1, 1, 130, 4500}, {2, 1, 600, 70},
};

}  // namespace

TEST_CASE("gemm f32, rows in place and filled") {
  for (const GemmSizes& s : weft::test::todays(sizes)) {
    CAPTURE(s.m);
    CAPTURE(s.n);
    CAPTURE(s.k);
    CHECK(worst_error<MacF32, f32, f32>({s, false, false, false}) < 1e-6);
    CHECK(worst_error<MacF32, f32, f32>({s, true, true, true}) < 1e-6);
  }
}

TEST_CASE("gemm f32 with the tiles of other processors") {
  for (const GemmSizes& s : weft::test::todays(sizes)) {
    CAPTURE(s.m);
    CAPTURE(s.n);
    CAPTURE(s.k);
    CHECK(worst_error<MacF32, f32, f32, tasks::avx512_tile>({s, false, false, false}) < 1e-6);
    CHECK(worst_error<MacF32, f32, f32, tasks::neon_tile>({s, true, false, true}) < 1e-6);
  }
}

TEST_CASE("gemm f64") {
  for (const GemmSizes& s : weft::test::todays(sizes)) {
    CAPTURE(s.m);
    CAPTURE(s.n);
    CAPTURE(s.k);
    CHECK(worst_error<MacF64, f64, f64>({s, false, false, true}) < 1e-14);
  }
}

TEST_CASE("gemm f16 and bf16 with sums in f32") {
  for (const GemmSizes& s : weft::test::todays(sizes)) {
    CAPTURE(s.m);
    CAPTURE(s.n);
    CAPTURE(s.k);
    CHECK(worst_error<MacF16, f16, f16>({s, true, false, false}) < 1e-6);
    CHECK(worst_error<MacBf16, bf16, bf16>({s, true, false, true}) < 1e-6);
    CHECK(worst_error<MacBf16, bf16, bf16>({s, true, true, false}) < 1e-6);
  }
}

TEST_CASE("gemm int8 is exact") {
  for (const GemmSizes& s : weft::test::todays(sizes)) {
    CAPTURE(s.m);
    CAPTURE(s.n);
    CAPTURE(s.k);
    CHECK(worst_error<MacInt8, u8, i8>({s, true, false, false}) == 0);
    CHECK(worst_error<MacInt8, u8, u8>({s, true, false, true}) == 0);
    CHECK(worst_error<MacInt16<i8>, i16, i8>({s, true, false, false}) == 0);
    CHECK(worst_error<MacInt16<i16>, i16, i16>({s, true, true, true}) == 0);
#if !defined(__aarch64__)
    CHECK(worst_error<MacQuads<i8>, i16, i8>({s, true, false, false}) == 0);
    CHECK(worst_error<MacQuads<i16>, u8, i16>({s, true, true, true}) == 0);
#endif
  }
}

#ifdef WEFT_AMX
TEST_CASE("gemm on AMX: bf16 with sums in f32, bytes exactly") {
  for (const GemmSizes& s : weft::test::todays(sizes)) {
    CAPTURE(s.m);
    CAPTURE(s.n);
    CAPTURE(s.k);
    CHECK(worst_error<MacBf16, bf16, bf16, tasks::amx_tile>({s, true, false, true}) < 1e-6);
    CHECK(worst_error<MacBf16, bf16, bf16, tasks::amx_tile>({s, true, true, false}) < 1e-6);
    CHECK(worst_error<MacInt8, u8, i8, tasks::amx_tile>({s, true, false, false}) == 0);
    CHECK(worst_error<MacInt8, u8, u8, tasks::amx_tile>({s, true, false, true}) == 0);
  }
}
TEST_CASE("gemm on AMX: runs of whole tiles, for all numbers of last rows") {
  for (const i64 m : {15, 16, 17, 31, 32, 33, 47, 48, 49, 50, 64, 81, 196, 545}) {
    for (const i64 n : {32, 64, 70, 96, 200}) {
      for (const i64 k : {64, 256, 2048}) {
        if (m * n * k > 5'000'000) continue;
        CAPTURE(m);
        CAPTURE(n);
        CAPTURE(k);
        CHECK(worst_error<MacInt8, u8, i8, tasks::amx_tile>({{1, m, n, k}, true, false, false}) == 0);
        CHECK(worst_error<MacBf16, bf16, bf16, tasks::amx_tile>({{1, m, n, k / 2}, true, false, false}) < 1e-6);
      }
    }
  }
  CHECK(worst_error<MacInt8, u8, i8, tasks::amx_tile>({{1, 600, 160, 128}, true, false, false}) == 0);
  CHECK(worst_error<MacInt8, u8, i8, tasks::amx_tile>({{1, 49, 544, 2048}, true, false, false}) == 0);
}
#endif

TEST_CASE("a kernel's rows are covered by compiled row counts") {
  for (i64 m = 1; m < 40; ++m) {
    i64 done = 0;
    while (done < m) done += native_tile.rows(next_rows<native_tile>(m - done));
    CHECK(done < m + native_tile.mr);
  }
}
