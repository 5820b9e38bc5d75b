// SPDX-License-Identifier: Apache-2.0
/// Depthwise convolution and pooling on the CPU, compared with plain loops.
#include <doctest/doctest.h>

#include <cmath>
#include <iterator>
#include <limits>
#include <random>
#include <vector>

#include "kernels/conv_few.h"
#include "kernels/depthwise.h"
#include "kernels/pool.h"
#include "todays.h"

using namespace weft::kernel;
namespace tasks = weft::tasks;
using weft::i64;

namespace {

std::vector<f32> random_values(i64 count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<f32> v(static_cast<size_t>(count));
  for (f32& x : v) x = static_cast<f32>(static_cast<int>(random() % 255) - 127) / 64;
  return v;
}

/// Calls visit(tap, pixel) for every tap of the window of output `row`; `pixel` is -1 outside the image.
template <class Visit>
void plain_window(const ConvSizes& s, i64 row, const Visit& visit) {
  const i64 o[3] = {row / s.out[2] / s.out[1] % s.out[0], row / s.out[2] % s.out[1], row % s.out[2]},
            image = row / s.pixels();
  for (i64 tap = 0; tap < s.taps(); ++tap) {
    const i64 t[3] = {tap / s.kernel[2] / s.kernel[1], tap / s.kernel[2] % s.kernel[1], tap % s.kernel[2]};
    i64 at = image;
    bool inside = true;
    for (int d = 0; d < 3; ++d) {
      i64 i = o[d] * s.stride[d] - s.pad[d] + t[d] * s.dilation[d];
      if (s.transposed) {
        const i64 up = o[d] + s.pad[d] - t[d] * s.dilation[d];
        i = up >= 0 && up % s.stride[d] == 0 ? up / s.stride[d] : -1;
      }
      inside = inside && i >= 0 && i < s.in[d];
      at = at * s.in[d] + i;
    }
    visit(tap, inside ? at : -1);
  }
}

ConvSizes sized(ConvSizes s, i64 channels, bool up = false) {
  s.pixel = channels;
  for (int d = 0; d < 3; ++d) {
    if (s.transposed) {
      s.out[d] = (s.in[d] - 1) * s.stride[d] + (s.kernel[d] - 1) * s.dilation[d] + 1 - 2 * s.pad[d];
      continue;
    }
    const i64 room = s.in[d] + 2 * s.pad[d] - (s.kernel[d] - 1) * s.dilation[d] - 1;
    s.out[d] = (up ? tasks::ceil_div(room, s.stride[d]) : room / s.stride[d]) + 1;
  }
  return s;
}

const ConvSizes windows[] = {
    {.batch = 2, .in = {1, 9, 14}, .kernel = {1, 3, 3}, .pad = {0, 1, 1}},
    {.in = {1, 12, 13}, .kernel = {1, 5, 5}, .stride = {1, 2, 2}, .pad = {0, 2, 2}},
    {.in = {1, 11, 16}, .kernel = {1, 3, 3}, .stride = {1, 1, 2}, .dilation = {1, 2, 3}, .pad = {0, 2, 3}},
    {.batch = 3, .in = {4, 5, 6}, .kernel = {2, 3, 2}, .stride = {2, 1, 1}, .pad = {1, 1, 0}},
    {.in = {1, 1, 40}, .kernel = {1, 1, 7}, .pad = {0, 0, 3}},
    {.in = {1, 2, 2}, .kernel = {1, 7, 7}, .pad = {0, 3, 3}},
    {.batch = 0, .in = {1, 5, 5}, .kernel = {1, 3, 3}, .pad = {0, 1, 1}},
    {.in = {1, 30, 31}, .kernel = {1, 2, 2}, .stride = {1, 2, 2}},
    {.in = {1, 6, 37}, .kernel = {1, 3, 3}, .stride = {1, 2, 2}, .pad = {0, 1, 1}},
    {.in = {1, 7, 7}, .kernel = {1, 5, 5}, .pad = {0, 2, 2}},
    {.in = {1, 4, 29}, .kernel = {1, 3, 3}},
    {.in = {1, 1, 70}, .kernel = {1, 1, 31}, .pad = {0, 0, 15}},
    {.batch = 2, .in = {1, 23, 40}, .kernel = {1, 7, 7}, .stride = {1, 2, 2}, .pad = {0, 3, 3}},
    {.in = {1, 9, 60}, .kernel = {1, 3, 3}, .dilation = {1, 4, 8}, .pad = {0, 4, 8}},
    {.in = {1, 3, 90}, .kernel = {1, 2, 9}, .stride = {1, 1, 3}, .dilation = {1, 1, 2}, .pad = {0, 0, 40}},
    {.in = {1, 21, 6}, .kernel = {1, 19, 1}, .pad = {0, 9, 0}},
};
const ConvSizes transposed_windows[] = {
    {.batch = 2, .in = {1, 5, 7}, .kernel = {1, 4, 4}, .stride = {1, 2, 2}, .pad = {0, 1, 1}, .transposed = true},
    {.in = {1, 1, 19}, .kernel = {1, 1, 12}, .stride = {1, 1, 2}, .pad = {0, 0, 5}, .transposed = true},
    {.in = {2, 3, 4},
     .kernel = {2, 3, 2},
     .stride = {2, 1, 3},
     .dilation = {1, 2, 2},
     .pad = {0, 1, 0},
     .transposed = true},
};

/// Runs `kernel(launch)` over its tasks in two parts.
template <class Kernel>
void run_split(i64 all, const Kernel& kernel) {
  const weft::LaunchArgs args{};
  kernel(Launch<>{&args, 0, all / 2});
  kernel(Launch<>{&args, all / 2, all});
}

enum class Kind { max, average, average_padded };

double pool_error(const ConvSizes& s, Kind kind) {
  const i64 channels = s.pixel;
  const auto x = random_values(s.batch * s.in[0] * s.in[1] * s.in[2] * channels, 5);
  std::vector<f32> y(static_cast<size_t>(s.rows() * channels), -99.f);
  PoolSizes p{.window = s, .pad_end = {s.pad[0], s.pad[1], s.pad[2]}, .include_pad = kind == Kind::average_padded};
  p.window.channels_in = channels;
  const auto read = [&](i64 at, auto lanes) { return load<native_lanes>(x.data() + at, lanes); };
  run_split(tasks::window_tasks(s.rows(), s.out[2], channels, s.taps()), [&](const Launch<>& launch) {
    if (kind == Kind::max) {
      pool<native_lanes, true>(
          launch, p, -std::numeric_limits<f32>::infinity(), read, [](auto a, auto b) { return pool_max(a, b); },
          [&](i64 row, i64 c, auto v, i64, auto lanes) { store(y.data() + row * channels + c, v, lanes); });
    } else {
      pool<native_lanes>(
          launch, p, 0.0f, read, [](auto a, auto b) { return a + b; },
          [&](i64 row, i64 c, auto v, i64 count, auto lanes) {
            store(y.data() + row * channels + c, v / splat<f32, native_lanes>(static_cast<f32>(count)), lanes);
          });
    }
  });
  double worst = 0;
  for (i64 row = 0; row < s.rows(); ++row) {
    for (i64 c = 0; c < channels; ++c) {
      double sum = 0, top = -std::numeric_limits<double>::infinity();
      i64 inside = 0, padded = 1;
      plain_window(s, row, [&](i64, i64 at) {
        if (at < 0) return;
        const double v = x[static_cast<size_t>(at * channels + c)];
        sum += v, top = std::max(top, v), ++inside;
      });
      const i64 o[3] = {row / s.out[2] / s.out[1] % s.out[0], row / s.out[2] % s.out[1], row % s.out[2]};
      for (int d = 0; d < 3; ++d) {
        i64 taps = 0;
        for (i64 t = 0; t < s.kernel[d]; ++t)
          taps += o[d] * s.stride[d] - s.pad[d] + t * s.dilation[d] < s.in[d] + s.pad[d];
        padded *= taps;
      }
      const double expected =
          kind == Kind::max ? top : sum / static_cast<double>(kind == Kind::average ? inside : padded);
      const double got = y[static_cast<size_t>(row * channels + c)];
      if (got != expected && !(std::isnan(got) && std::isnan(expected)))
        worst = std::max(worst, std::abs(got - expected));
    }
  }
  return worst;
}

}  // namespace

TEST_CASE("depthwise convolution") {
  std::vector<ConvSizes> all(std::begin(windows), std::end(windows));
  all.insert(all.end(), std::begin(transposed_windows), std::end(transposed_windows));
  for (const i64 channels : {1, 7, 8, 19, 32, 40, 300}) {
    for (const ConvSizes& window : all) {
      ConvSizes s = sized(window, channels);
      s.groups = channels, s.channels_in = s.channels_out = 1;
      CAPTURE(channels);
      CAPTURE(s.taps());
      const auto x = random_values(s.batch * s.in[0] * s.in[1] * s.in[2] * channels, 3),
                 w = random_values(s.taps() * channels, 4);
      std::vector<f32> y(static_cast<size_t>(s.rows() * channels), -99.f);
      run_split(tasks::window_tasks(s.rows(), s.out[2], channels, s.taps()), [&](const Launch<>& launch) {
        depthwise(launch, s, x.data(), w.data(),
                  [&](i64 row, i64 c, auto v, auto lanes) { store(y.data() + row * channels + c, v, lanes); });
      });
      double worst = 0;
      for (i64 row = 0; row < s.rows(); ++row) {
        for (i64 c = 0; c < channels; ++c) {
          double sum = 0;
          plain_window(s, row, [&](i64 tap, i64 at) {
            if (at >= 0)
              sum += static_cast<double>(x[static_cast<size_t>(at * channels + c)]) *
                     w[static_cast<size_t>(tap * channels + c)];
          });
          worst = std::max(worst, std::abs(sum - y[static_cast<size_t>(row * channels + c)]));
        }
      }
      CHECK(worst < 1e-4);
    }
  }
}

template <int G, int O>
double group_error(const ConvSizes& window, i64 groups) {
  const i64 channels = groups * O, channels_in = groups * G;
  ConvSizes s = sized(window, channels_in);
  s.groups = groups, s.channels_in = G, s.channels_out = O;
  const auto x = random_values(s.batch * s.in[0] * s.in[1] * s.in[2] * channels_in, 3),
             w = random_values(s.taps() * G * channels, 4);
  std::vector<f32> y(static_cast<size_t>(s.rows() * channels), -99.f);
  run_split(tasks::window_tasks(s.rows(), s.out[2], channels, s.taps()), [&](const Launch<>& launch) {
    depthwise<f32, G, O>(launch, s, x.data(), w.data(),
                         [&](i64 row, i64 c, auto v, auto lanes) { store(y.data() + row * channels + c, v, lanes); });
  });
  double worst = 0;
  for (i64 row = 0; row < s.rows(); ++row) {
    for (i64 c = 0; c < channels; ++c) {
      double sum = 0;
      plain_window(s, row, [&](i64 tap, i64 at) {
        for (i64 j = 0; j < G && at >= 0; ++j) {
          sum += static_cast<double>(x[static_cast<size_t>(at * channels_in + c / O * G + j)]) *
                 w[static_cast<size_t>((tap * G + j) * channels + c)];
        }
      });
      worst = std::max(worst, std::abs(sum - y[static_cast<size_t>(row * channels + c)]));
    }
  }
  return worst;
}

TEST_CASE("convolution of groups of a few channels") {
  for (const ConvSizes& window : weft::test::todays(windows)) {
    CAPTURE(window.kernel[2]);
    for (const i64 groups : {1, 3, 8, 40}) {
      CAPTURE(groups);
      CHECK(group_error<2, 2>(window, groups) < 1e-4);
      CHECK(group_error<4, 4>(window, groups) < 1e-4);
      CHECK(group_error<1, 2>(window, groups) < 1e-4);
      CHECK(group_error<2, 4>(window, groups) < 1e-4);
      if constexpr (native_lanes >= 8) {
        CHECK(group_error<8, 8>(window, groups) < 1e-4);
        CHECK(group_error<1, 4>(window, groups) < 1e-4);
        CHECK(group_error<4, 8>(window, groups) < 1e-4);
      }
      if constexpr (native_lanes >= 16) CHECK(group_error<1, 8>(window, groups) < 1e-4);
    }
  }
}

template <int C>
double few_error(const ConvSizes& window, i64 channels) {
  ConvSizes s = sized(window, channels);
  s.channels_in = channels, s.channels_out = C;
  const auto x = random_values(s.batch * s.in[0] * s.in[1] * s.in[2] * channels, 3),
             w = random_values(s.taps() * C * channels, 4);
  std::vector<f32> y(static_cast<size_t>(s.rows() * C), -99.f);
  run_split(few_tasks(s), [&](const Launch<>& launch) {
    conv_few<C>(launch, s, x.data(), w.data(),
                [&](i64 row, i64 c, auto v, auto lanes) { store(y.data() + row * C + c, v, lanes); });
  });
  double worst = 0;
  for (i64 at = 0; at < s.rows() * C; ++at) {
    double sum = 0;
    plain_window(s, at / C, [&](i64 tap, i64 pixel) {
      for (i64 j = 0; j < channels && pixel >= 0; ++j) {
        sum += static_cast<double>(x[static_cast<size_t>(pixel * channels + j)]) *
               w[static_cast<size_t>((tap * C + at % C) * channels + j)];
      }
    });
    worst = std::max(worst, std::abs(sum - y[static_cast<size_t>(at)]) / static_cast<double>(s.taps() * channels));
  }
  return worst;
}

TEST_CASE("convolution to a few channels") {
  std::vector<ConvSizes> all(std::begin(windows), std::end(windows));
  all.insert(all.end(), std::begin(transposed_windows), std::end(transposed_windows));
  for (const ConvSizes& window : weft::test::todays(all)) {
    CAPTURE(window.kernel[2]);
    for (const i64 channels : {1, 16, 21, 56}) {
      CAPTURE(channels);
      CHECK(few_error<1>(window, channels) < 1e-6);
      CHECK(few_error<2>(window, channels) < 1e-6);
      CHECK(few_error<3>(window, channels) < 1e-6);
      CHECK(few_error<4>(window, channels) < 1e-6);
    }
  }
}

TEST_CASE("max and average pooling, output sizes rounded down and up") {
  for (const i64 channels : {1, 8, 13, 64}) {
    for (const ConvSizes& window : windows) {
      for (const bool up : {false, true}) {
        const ConvSizes s = sized(window, channels, up);
        CAPTURE(channels);
        CAPTURE(s.taps());
        CHECK(pool_error(s, Kind::max) == 0);
        CHECK(pool_error(s, Kind::average) < 1e-5);
        CHECK(pool_error(s, Kind::average_padded) < 1e-5);
      }
    }
  }
}
