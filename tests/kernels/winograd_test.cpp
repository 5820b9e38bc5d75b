// SPDX-License-Identifier: Apache-2.0
/// Winograd convolutions against direct convolution: in f64 for floats, bit for bit for integers. Covers every padding,
/// odd sizes, images smaller than a tile, groups, channels that do not fill a vector, several images, and late tasks
/// before early ones.
#include "kernels/winograd.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "todays.h"

using namespace weft::kernel;
namespace tasks = weft::tasks;
using weft::i16, weft::i64, weft::i8;

namespace {

/// Returns random integers from -most to most.
template <class T>
std::vector<T> random_values(i64 count, int most, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<T> v(static_cast<size_t>(count));
  for (T& x : v) x = static_cast<T>(static_cast<int>(random() % static_cast<unsigned>(2 * most + 1)) - most);
  return v;
}

/// Returns the exact sum for one result; w is [groups][channels_out][channels_in][depth][3][3].
template <class X, class W>
i64 exact(const ConvSizes& s, const std::vector<X>& x, const std::vector<W>& w, i64 outside, i64 group, i64 row,
          i64 channel) {
  const ConvPixel at = conv_pixel(s, row);
  i64 sum = 0;
  for (i64 tap = 0; tap < s.taps(); ++tap) {
    const i64 depth = conv_source(s, 0, at.at[0], tap / 9), y = conv_source(s, 1, at.at[1], tap / 3 % 3),
              column = conv_source(s, 2, at.at[2], tap % 3);
    for (i64 c = 0; c < s.channels_in; ++c) {
      const i64 from = pixel_offset(s, at.image, depth, y, column) + group * s.channels_in + c;
      const i64 weight = ((group * s.channels_out + channel) * s.channels_in + c) * s.taps() + tap;
      sum += (depth < 0 || y < 0 || column < 0 ? outside : static_cast<i64>(x[static_cast<size_t>(from)])) *
             static_cast<i64>(w[static_cast<size_t>(weight)]);
    }
  }
  return sum;
}

/// Computes the tasks in two parts, the later tasks first; returns all results.
template <class Mac, class Form, class X, class W>
std::vector<double> computed(const ConvSizes& s, const std::vector<X>& x, const std::vector<W>& w, X outside) {
  constexpr GemmTile tile = Mac::header > 0 ? tasks::quad_tile : native_tile;
  constexpr int positions = Form::size * Form::size;
  const PackB pack{.batch = s.groups,
                   .n = s.channels_out,
                   .k = s.channels_in,
                   .stride_batch = s.channels_out * s.channels_in * s.taps(),
                   .stride_k = s.taps(),
                   .stride_n = s.channels_in * s.taps(),
                   .taps = {s.kernel[0], 3, 3},
                   .stride_tap = {9, 3, 1}};
  const i64 units = s.kernel[0] * tasks::gemm_units(s.channels_in, Mac::group);
  std::vector<typename Mac::B> packed(
      static_cast<size_t>(s.groups * positions *
                          tasks::packed_b_elements(tile, Mac::group, s.channels_out, units * Mac::group, Mac::header)));
  pack_winograd<Mac, tile, Form>(Launch<>{nullptr, 0, pack_b_tasks<tile>(pack)}, pack, w.data(), packed.data());
  const i64 words = units * i64(sizeof(typename Mac::Unit)) / 4, planes = s.batch * s.out[0];
  std::vector<char> scratch(static_cast<size_t>(tasks::winograd_scratch(tile, Form::out, planes, s.out[1], s.out[2],
                                                                        s.groups, s.channels_out, words)) +
                            64);
  const weft::LaunchArgs args{.scratch = scratch.data() + (64 - reinterpret_cast<size_t>(scratch.data()) % 64)};
  const i64 all =
      tasks::winograd_blocks(tile, Form::out, planes, s.out[1], s.out[2], s.groups, s.channels_out, words).tasks;
  const i64 channels = s.groups * s.channels_out;
  std::vector<double> y(static_cast<size_t>(s.rows() * channels), -1e9);
  const auto keep = [&](i64 group, i64 row, i64 channel, auto v, auto lanes) {
    for (int i = 0; i < valid_lanes(lanes, lanes_of<decltype(v)>); ++i) {
      y[static_cast<size_t>(row * channels + group * s.channels_out + channel + i)] = static_cast<double>(v[i]);
    }
  };
  for (i64 half = 1; half >= 0; --half) {
    winograd<Mac, tile, Form>(Launch<>{&args, half * (all / 3), half ? all : all / 3}, s, x.data(), packed.data(),
                              outside, keep);
  }
  return y;
}

/// Returns the largest error of any result, divided by an estimate of the sum of its absolute products.
template <class Mac, class Form, class X, class W>
double worst_error(const ConvSizes& s, int max_x, int max_w, X outside) {
  const auto x = random_values<X>(s.batch * s.in[0] * s.in[1] * s.in[2] * s.pixel, max_x, 1);
  const auto w = random_values<W>(s.groups * s.channels_out * s.channels_in * s.taps(), max_w, 2);
  const std::vector<double> y = computed<Mac, Form>(s, x, w, outside);
  double worst = 0;
  for (i64 row = 0; row < s.rows(); ++row) {
    for (i64 all = 0; all < s.groups * s.channels_out; ++all) {
      const i64 group = all / s.channels_out,
                expected = exact(s, x, w, static_cast<i64>(outside), group, row, all % s.channels_out);
      const double error =
          std::abs(y[static_cast<size_t>(row * s.groups * s.channels_out + all)] - static_cast<double>(expected));
      worst = std::max(worst, error / (1 + 0.25 * static_cast<double>(s.channels_in * s.taps()) * max_x * max_w));
    }
  }
  return worst;
}

ConvSizes sized(ConvSizes s, i64 pad_end_h, i64 pad_end_w) {
  s.kernel[1] = s.kernel[2] = 3;
  s.out[0] = (s.in[0] + 2 * s.pad[0] - (s.kernel[0] - 1) * s.dilation[0] - 1) / s.stride[0] + 1;
  s.out[1] = s.in[1] + s.pad[1] + pad_end_h - 2, s.out[2] = s.in[2] + s.pad[2] + pad_end_w - 2;
  if (s.pixel == 0) s.pixel = s.groups * s.channels_in;
  return s;
}

std::vector<ConvSizes> cases() {
  std::vector<ConvSizes> all{
      sized({.batch = 2, .channels_in = 16, .channels_out = 40, .in = {1, 9, 10}, .pad = {0, 1, 1}}, 1, 1),
      sized({.channels_in = 1, .channels_out = 1, .in = {1, 1, 1}, .pad = {0, 1, 1}}, 1, 1),
      sized({.channels_in = 3, .channels_out = 4, .in = {1, 5, 7}, .pad = {0, 1, 1}, .pixel = 5}, 1, 1),
      sized({.batch = 0, .channels_in = 3, .channels_out = 4, .in = {1, 5, 7}, .pad = {0, 1, 1}}, 1, 1),
      sized({.batch = 3, .groups = 3, .channels_in = 5, .channels_out = 17, .in = {1, 7, 6}, .pad = {0, 1, 1}}, 1, 1),
      sized({.channels_in = 530, .channels_out = 5, .in = {1, 4, 4}, .pad = {0, 1, 1}}, 1, 1),
      sized({.channels_in = 7, .channels_out = 33, .in = {1, 2, 40}, .pad = {0, 2, 3}}, 0, 2),
      sized({.channels_in = 24, .channels_out = 70, .in = {1, 40, 37}, .pad = {0, 1, 1}}, 1, 1),
      sized({.batch = 2, .channels_in = 6, .channels_out = 9, .in = {4, 9, 6}, .kernel = {3, 3, 3}, .pad = {1, 1, 1}},
            1, 1),
      sized({.batch = 2, .channels_in = 20, .channels_out = 5, .in = {1, 7, 7}, .kernel = {3, 3, 3}, .pad = {1, 1, 1}},
            1, 1),
      sized({.channels_in = 4,
             .channels_out = 18,
             .in = {9, 5, 11},
             .kernel = {2, 3, 3},
             .stride = {2, 1, 1},
             .dilation = {3, 1, 1},
             .pad = {4, 1, 0}},
            1, 0),
  };
  for (i64 pads = 0; pads < 16; ++pads) {  // every side with and without padding, at sizes around those of tiles
    const i64 size = 3 + pads % 5;
    all.push_back(
        sized({.channels_in = 2, .channels_out = 3, .in = {1, size, size + 1}, .pad = {0, pads & 1, pads >> 1 & 1}},
              pads >> 2 & 1, pads >> 3));
  }
  return all;
}

}  // namespace

TEST_CASE("winograd f32") {
  for (const ConvSizes& s : weft::test::todays(cases())) {
    CAPTURE(s.channels_in);
    CAPTURE(s.out[1]);
    CAPTURE(s.out[2]);
    CHECK(worst_error<MacF32, WinogradFloat4, f32, f32>(s, 60, 60, 0.0f) < 1e-6);
    CHECK(worst_error<MacF32, WinogradFloat2, f32, f32>(s, 60, 60, 2.0f) < 4e-7);
    CHECK(worst_error<MacF32, WinogradFloat4, i16, f32>(s, 60, 60, i16(0)) < 1e-6);
  }
}

TEST_CASE("winograd of integers is exact at the bounds that lowering allows") {
  for (const ConvSizes& s : weft::test::todays(cases())) {
    CAPTURE(s.channels_in);
    CAPTURE(s.out[1]);
    CAPTURE(s.out[2]);
    const int max_x = s.channels_in > 500 ? 55 : 327;  // 9 taps * 530 channels * 55 * 127 < 2^25
    CHECK(worst_error<MacInt16<i16>, WinogradInt4, i16, i8>(s, max_x, 127, i16(0)) == 0);
    CHECK(worst_error<MacInt16<i16>, WinogradInt2, i16, i8>(s, 255, 127, i16(-3)) == 0);
    CHECK(worst_error<MacInt16<i16>, WinogradInt2, i16, i16>(s, 255, 255, i16(0)) == 0);
    CHECK(worst_error<MacInt16<i16>, WinogradInt4, i8, i8>(s, std::min(max_x, 127), 127, i8(3)) == 0);
#if !defined(__aarch64__)
    CHECK(worst_error<MacQuads<i16>, WinogradInt4, i16, i8>(s, std::min(max_x, 265), 127, i16(0)) == 0);
    CHECK(worst_error<MacQuads<i16>, WinogradInt2, i16, i8>(s, 255, 127, i16(-3)) == 0);
#endif
  }
}

TEST_CASE("winograd of integers at the very ends of their ranges") {
  const ConvSizes s = sized({.channels_in = 6, .channels_out = 16, .in = {1, 8, 8}, .pad = {0, 1, 1}}, 1, 1);
  for (int sign_x : {-1, 1}) {
    for (int pattern = 0; pattern < 4; ++pattern) {  // sign patterns that maximise the sum in some position
      std::vector<i16> x(static_cast<size_t>(s.in[1] * s.in[2] * s.pixel));
      std::vector<i16> w(static_cast<size_t>(s.channels_out * s.channels_in * 9));
      for (size_t i = 0; i < x.size(); ++i) {
        const size_t pixel = i / static_cast<size_t>(s.pixel), line = pixel / 8, column = pixel % 8;
        x[i] = static_cast<i16>(sign_x * 327 * (((line >> (pattern & 1)) ^ (column >> (pattern >> 1))) & 1 ? -1 : 1));
      }
      for (size_t i = 0; i < w.size(); ++i)
        w[i] = static_cast<i16>((i % 9 + static_cast<size_t>(pattern)) % 2 ? 668 : -668);
      const std::vector<double> y = computed<MacInt16<i16>, WinogradInt4>(s, x, w, i16(0));
      for (i64 row = 0; row < s.rows(); ++row) {
        for (i64 c = 0; c < s.channels_out; ++c)
          CHECK(y[static_cast<size_t>(row * s.channels_out + c)] == static_cast<double>(exact(s, x, w, 0, 0, row, c)));
      }
    }
  }
}
