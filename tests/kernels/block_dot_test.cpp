// SPDX-License-Identifier: Apache-2.0
/// Products with weights of 4 and 8 bits in blocks, compared with plain loops in f64; and the quantisation of rows to 8
/// bits, compared with its definition.
#include "kernels/block_dot.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <vector>

#include "todays.h"

using namespace weft::kernel;
namespace tasks = weft::tasks;
using weft::i32, weft::i64, weft::i8, weft::u8;

namespace {

/// Random weights [n, blocks * block] of `bits` bits each, scales and zero points [n, blocks], and rows [m, k].
struct Problem {
  BlockDotSizes s;
  int bits;
  std::vector<u8> w, packed, zero;
  std::vector<f32> scale, x;

  Problem(int bits_, BlockDotSizes sizes) : s(sizes), bits(bits_) {
    std::mt19937 random(static_cast<unsigned>(s.m * 7 + s.n * 5 + s.k));
    const auto cells = static_cast<size_t>(s.n * s.blocks());
    w.resize(cells * static_cast<size_t>(s.block)), zero.resize(cells), scale.resize(cells);
    for (u8& v : w) v = static_cast<u8>(random() & ((1u << bits) - 1));
    for (u8& v : zero) v = static_cast<u8>(s.zeros ? random() & ((1u << bits) - 1) : 1u << (bits - 1));
    for (f32& v : scale) v = 0.001f * static_cast<f32>(random() % 100 + 1);
    x.resize(static_cast<size_t>(s.m * s.k));
    for (f32& v : x) v = static_cast<f32>(random() % 2001) / 500 - 2;
    packed.resize(w.size() * static_cast<size_t>(bits) / 8);
    for (size_t i = 0; i < w.size(); ++i) {
      const size_t per = 8 / static_cast<size_t>(bits);
      packed[i / per] = static_cast<u8>(packed[i / per] | w[i] << (i % per * static_cast<size_t>(bits)));
    }
  }
  double weight(i64 column, i64 k) const {
    const auto cell = static_cast<size_t>(column * s.blocks() + k / s.block);
    const auto at = static_cast<size_t>(column * s.blocks() * s.block + k);
    return (double(w[at]) - double(zero[cell])) * double(scale[cell]);
  }
};

/// The output of `quantize_rows`; each array has one element more than needed.
struct Bytes {
  std::vector<i8> x;
  std::vector<f32> scales;
  std::vector<i32> sums;

  explicit Bytes(const Problem& p) {
    const auto cells = static_cast<size_t>(p.s.m * p.s.blocks());
    x.resize(cells * static_cast<size_t>(p.s.block) + 1), scales.resize(cells + 1), sums.resize(cells + 1);
    const auto load_x = [&](i64 row, i64 k, auto lanes) {
      return load<block_lanes>(p.x.data() + row * p.s.k + k, lanes);
    };
    quantize_rows(Launch<>{nullptr, 0, tasks::row_tasks(p.s.m, p.s.k)}, p.s.m, p.s.k, p.s.block, load_x, x.data(),
                  scales.data(), sums.data());
  }
};

/// Returns the largest error of any element, relative to the sum of absolute products. Rows are floats, or `bytes` if
/// given.
template <int Bits>
double worst_error(const Problem& p, const Bytes* bytes) {
  const BlockDotSizes& s = p.s;
  const i64 size = tasks::packed_block_bytes(Bits, s.n, s.k, s.block, s.zeros, block_lanes);
  std::vector<u8> packed(static_cast<size_t>(size) + 1);
  pack_blocks<Bits>(Launch<>{nullptr, 0, tasks::ceil_div(s.n, block_panels * block_lanes)}, s, p.packed.data(),
                    p.scale.data(), p.zero.data(), s.blocks(), packed.data());
  std::vector<char> scratch(static_cast<size_t>(tasks::block_dot_scratch(block_lanes, s.m, s.n, s.k, s.block)) + 64);
  const weft::LaunchArgs args{.scratch = scratch.data() + (64 - reinterpret_cast<size_t>(scratch.data()) % 64)};
  std::vector<double> y(static_cast<size_t>(s.m * s.n), -1e9);
  const auto store_sum = [&](i64 row, i64 col, auto v, auto lanes) {
    for (int i = 0; i < valid_lanes(lanes, block_lanes); ++i) y[static_cast<size_t>(row * s.n + col + i)] = v[i];
  };
  const i64 all = tasks::block_dot_blocks(block_lanes, s.m, s.n, s.k).tasks;
  const auto multiply = [&](const Launch<>& launch, const auto& rows) {
    if (s.zeros) block_dot<Bits, true>(launch, s, rows, packed.data(), store_sum);
    else block_dot<Bits, false>(launch, s, rows, packed.data(), store_sum);
  };
  const auto load_x = [&](i64 row, i64 k, auto lanes) { return load<8>(p.x.data() + row * s.k + k, lanes); };
  for (i64 half = 0; half < 2; ++half) {
    const Launch<> launch{&args, half * (all / 2), half ? all : all / 2};
    if (bytes) multiply(launch, ByteRows{bytes->x.data(), bytes->scales.data(), bytes->sums.data()});
    else multiply(launch, FloatRows{load_x});
  }
  double worst = 0;
  for (i64 row = 0; row < s.m; ++row) {
    for (i64 column = 0; column < s.n; ++column) {
      double sum = 0, magnitude = 1e-9;
      for (i64 k = 0; k < s.k; ++k) {
        double x = p.x[static_cast<size_t>(row * s.k + k)];
        if (bytes) {
          const auto at = static_cast<size_t>(row * s.blocks() * s.block + k);
          x = double(bytes->x[at]) * double(bytes->scales[static_cast<size_t>(row * s.blocks() + k / s.block)]);
        }
        sum += x * p.weight(column, k), magnitude += std::abs(x * p.weight(column, k));
      }
      worst = std::max(worst, std::abs(y[static_cast<size_t>(row * s.n + column)] - sum) / magnitude);
    }
  }
  return worst;
}

const BlockDotSizes sizes[] = {
    {0, 5, 32, 32, false},   {1, 1, 1, 16, false},   {1, 64, 32, 32, false},    {1, 70, 50, 16, true},
    {2, 200, 128, 32, true}, {3, 33, 96, 32, false}, {4, 64, 256, 128, true},   {5, 129, 80, 16, false},
    {17, 96, 160, 32, true}, {37, 31, 64, 64, true}, {1, 4000, 320, 32, false}, {18, 300, 515, 32, true},
};

}  // namespace

TEST_CASE("block_dot of floats") {
  for (const BlockDotSizes& s : weft::test::todays(sizes)) {
    CAPTURE(s.m);
    CAPTURE(s.n);
    CAPTURE(s.k);
    CHECK(worst_error<4>(Problem(4, s), nullptr) < 2e-6);
    CHECK(worst_error<8>(Problem(8, s), nullptr) < 2e-6);
  }
}

TEST_CASE("block_dot of bytes is exact but for the sums of blocks") {
  for (const BlockDotSizes& s : weft::test::todays(sizes)) {
    CAPTURE(s.m);
    CAPTURE(s.n);
    CAPTURE(s.k);
    const Problem four(4, s), eight(8, s);
    const Bytes four_rows(four), eight_rows(eight);
    CHECK(worst_error<4>(four, &four_rows) < 1e-6);
    CHECK(worst_error<8>(eight, &eight_rows) < 1e-6);
  }
}

TEST_CASE("greatest bytes do not overflow") {
  Problem p(8, {1, 8, 64, 32, false});
  for (f32& x : p.x) x = 3;
  for (u8 extreme : {u8(0), u8(255)}) {
    for (u8& v : p.packed) v = extreme;
    for (u8& v : p.w) v = extreme;
    const Bytes rows(p);
    CHECK(worst_error<8>(p, &rows) < 1e-6);
  }
}

TEST_CASE("quantize_rows") {
  const Problem p(4, {5, 8, 75, 16, false});
  const Bytes got(p);
  for (i64 row = 0; row < 5; ++row) {
    for (i64 b = 0; b < 5; ++b) {
      const auto at = static_cast<size_t>(row * 5 + b);
      f32 top = 0;
      for (i64 k = b * 16; k < std::min<i64>(b * 16 + 16, 75); ++k)
        top = std::max(top, std::abs(p.x[static_cast<size_t>(row * 75 + k)]));
      CHECK(got.scales[at] == top / 127);
      i32 sum = 0;
      for (i64 k = b * 16; k < b * 16 + 16; ++k) {
        const f32 x = k < 75 ? p.x[static_cast<size_t>(row * 75 + k)] : 0;
        CHECK(got.x[static_cast<size_t>(row * 80 + k)] == static_cast<i8>(std::nearbyint(x * (127 / top))));
        sum += got.x[static_cast<size_t>(row * 80 + k)];
      }
      CHECK(got.sums[at] == sum);
    }
  }
}
