// SPDX-License-Identifier: Apache-2.0
/// Measures src/kernels/depthwise.h and pool.h on layers like those of mobilenet_v3_large, resnext50, resnet50 and
/// yolo_n. Times are CPU seconds, the best of several rounds.
/// Build: clang++-19 -std=c++20 -O3 -march=native -Isrc bench/kernels/window.cpp
#include <cstdio>

#include "kernels/depthwise.h"
#include "kernels/pool.h"
#include "rate.h"

using namespace weft::bench;

namespace {

struct Case {
  const char* what;
  i64 image, channels, kernel, stride, pad;
};

const Case cases[] = {
    {"depthwise", 112, 16, 3, 1, 1}, {"depthwise", 112, 64, 3, 2, 1}, {"depthwise", 56, 72, 3, 1, 1},
    {"depthwise", 56, 72, 5, 2, 2},  {"depthwise", 28, 120, 5, 1, 2}, {"depthwise", 28, 240, 3, 2, 1},
    {"depthwise", 14, 200, 3, 1, 1}, {"depthwise", 14, 480, 3, 1, 1}, {"depthwise", 14, 672, 5, 2, 2},
    {"depthwise", 7, 960, 5, 1, 2},  {"depthwise", 320, 64, 3, 2, 1}, {"depthwise", 160, 72, 5, 2, 2},
};

/// Returns the sizes of a convolution with `group` input and output channels in each group.
ConvSizes sizes(const Case& c, int group = 1) {
  const i64 out = (c.image + 2 * c.pad - c.kernel) / c.stride + 1;
  return {.groups = c.channels / group,
          .channels_in = group,
          .channels_out = group,
          .in = {1, c.image, c.image},
          .out = {1, out, out},
          .kernel = {1, c.kernel, c.kernel},
          .stride = {1, c.stride, c.stride},
          .pad = {0, c.pad, c.pad},
          .pixel = c.channels};
}

void report(const char* what, const Case& c, const Rate& rate, double bytes_per_flop) {
  printf("%-9s %3ld^2 x %3ld  %ldx%ld / %ld  %6.1f GFLOP/s  %3.0f %%  %5.1f GB/s\n", what, long(c.image),
         long(c.channels), long(c.kernel), long(c.kernel), long(c.stride), rate.gflops, rate.gflops / rate.peak * 100,
         rate.gflops * bytes_per_flop);
}

template <int G = 1>
void bench_depthwise(const Case& c) {
  const ConvSizes s = sizes(c, G);
  const auto x = numbers(c.image * c.image * c.channels), w = numbers(c.channels * G * s.taps()),
             bias = numbers(c.channels);
  Floats y(s.rows() * c.channels);
  const i64 all = tasks::window_tasks(s.rows(), s.out[2], c.channels, s.taps());
  const f32 *from = x.data(), *weights = w.data(), *b = bias.data();
  f32* to = y.data();
  const i64 channels = c.channels;
  const double flop = 2.0 * s.rows() * c.channels * G * s.taps();
  report(G > 1 ? "grouped" : "depthwise", c,
         best_rate(flop,
                   [&] {
                     depthwise<f32, G>(Launch<>{nullptr, 0, all}, s, from, weights,
                                       [&](i64 row, i64 col, auto v, auto lanes) WEFT_LAMBDA {
                                         v += load<native_lanes>(b + col, lanes);
                                         store(to + row * channels + col, v > 0 ? v : decltype(v)(0), lanes);
                                       });
                   }),
         4.0 * (x.size() + y.size()) / flop);
}

void bench_pool(const Case& c) {
  PoolSizes p{.window = sizes(c)};
  p.window.channels_in = c.channels;
  const ConvSizes& s = p.window;
  const auto x = numbers(c.image * c.image * c.channels);
  Floats y(s.rows() * c.channels);
  const i64 all = tasks::window_tasks(s.rows(), s.out[2], c.channels, s.taps());
  const f32* from = x.data();
  f32* to = y.data();
  const i64 channels = c.channels;
  const double flop = 1.0 * s.rows() * c.channels * s.taps();
  report("max pool", c,
         best_rate(flop,
                   [&] {
                     pool<native_lanes, true>(
                         Launch<>{nullptr, 0, all}, p, -__builtin_inff(),
                         [&](i64 at, auto lanes) WEFT_LAMBDA { return load<native_lanes>(from + at, lanes); },
                         [](auto a, auto b) WEFT_LAMBDA { return pool_max(a, b); },
                         [&](i64 row, i64 col, auto v, i64, auto lanes)
                             WEFT_LAMBDA { store(to + row * channels + col, v, lanes); });
                   }),
         4.0 * (x.size() + y.size()) / flop);
}

}  // namespace

int main() {
  for (const Case& c : cases) bench_depthwise(c);
  bench_depthwise<4>({"", 56, 128, 3, 1, 1});
  bench_depthwise<8>({"", 56, 256, 3, 2, 1});
  bench_depthwise<8>({"", 28, 256, 3, 1, 1});
  bench_depthwise<4>({"", 14, 128, 3, 1, 1});
  bench_pool({"", 112, 64, 3, 2, 1});
  bench_pool({"", 20, 128, 5, 1, 2});
  bench_pool({"", 7, 2048, 7, 1, 0});
}
