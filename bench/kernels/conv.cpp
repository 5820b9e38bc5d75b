// SPDX-License-Identifier: Apache-2.0
/// Measures src/kernels/conv.h on the convolutions of real networks, compiled natively. Times are CPU seconds, the best
/// of several rounds. Build: clang++-19 -std=c++20 -O3 -march=native -Isrc bench/kernels/conv.cpp
#include "kernels/conv.h"

#include <cstdio>

#include "kernels/pack.h"
#include "rate.h"

using namespace weft::bench;

namespace {

struct Case {
  const char* what;
  i64 batch, image, in, out, kernel, stride;
};

const Case cases[] = {
    {"resnet50 stem", 1, 224, 3, 64, 7, 2},     {"resnet50 3x3 56", 1, 56, 64, 64, 3, 1},
    {"resnet50 3x3 s2", 1, 56, 128, 128, 3, 2}, {"resnet50 3x3 28", 1, 28, 128, 128, 3, 1},
    {"resnet50 3x3 14", 1, 14, 256, 256, 3, 1}, {"resnet50 3x3 7", 1, 7, 512, 512, 3, 1},
    {"resnet50 1x1 s2", 1, 56, 256, 512, 1, 2}, {"resnet50 3x3 7", 8, 7, 512, 512, 3, 1},
    {"mobilenet stem", 1, 224, 3, 16, 3, 2},    {"yolo stem", 1, 640, 3, 16, 3, 2},
    {"yolo 3x3 s2", 1, 320, 16, 32, 3, 2},      {"yolo 3x3 160", 1, 160, 16, 16, 3, 1},
    {"yolo 3x3 80", 1, 80, 32, 32, 3, 1},       {"yolo 3x3 40", 1, 40, 64, 64, 3, 1},
    {"yolo 3x3 80", 1, 80, 64, 64, 3, 1},       {"vit patches", 1, 224, 3, 768, 16, 16},
};

template <ConvMode mode, GemmTile tile>
void bench_tile(const Case& c) {
  const i64 out = c.kernel == 16 ? 14 : (c.image + 2 * (c.kernel / 2) - c.kernel) / c.stride + 1,
            pad = c.kernel == 16 ? 0 : c.kernel / 2;
  const ConvSizes s{.batch = c.batch,
                    .channels_in = c.in,
                    .channels_out = c.out,
                    .in = {1, c.image, c.image},
                    .out = {1, out, out},
                    .kernel = {1, c.kernel, c.kernel},
                    .stride = {1, c.stride, c.stride},
                    .pad = {0, pad, pad},
                    .pixel = c.in};
  const bool lines = mode == ConvMode::Lines;
  const i64 taps = lines ? c.kernel : s.taps(), units = lines ? c.kernel * c.in : c.in;
  const auto x = numbers(c.batch * c.image * c.image * c.in), w = numbers(c.out * c.in * s.taps()),
             bias = numbers(c.out);
  const PackB pack{.n = c.out,
                   .k = c.in,
                   .stride_k = s.taps(),
                   .stride_n = c.in * s.taps(),
                   .taps = {1, c.kernel, c.kernel},
                   .stride_tap = {0, c.kernel, 1}};
  Floats packed(s.taps() * tasks::packed_b_elements(tile, 1, c.out, c.in)), y(s.rows() * c.out);
  pack_b<MacF32, tile>(Launch<>{nullptr, 0, pack_b_tasks<tile>(pack)}, pack, w.data(), packed.data());
  Floats scratch(tasks::conv_scratch(tile, mode, 1, s.rows(), c.out, taps, units) / 4 + 1);
  const weft::LaunchArgs args{.scratch = scratch.data()};
  const auto blocks = tasks::conv_blocks(tile, mode, 1, s.rows(), c.out, taps, units).gemm;
  const f32 *from = x.data(), *weights = packed.data(), *b = bias.data();
  f32* to = y.data();
  const i64 channels = c.out;
  const Rate rate = best_rate(2.0 * s.rows() * c.out * c.in * s.taps(), [&] {
    conv<MacF32, tile, mode>(Launch<>{&args, 0, blocks.tasks}, s, from, weights, 0.0f,
                             [&](i64, i64 row, i64 col, auto v, auto lanes) WEFT_LAMBDA {
                               v += load<lanes_of<decltype(v)>>(b + col, lanes);
                               v = v > 0 ? v : decltype(v)(0);
                               store(to + row * channels + col, v, lanes);
                             });
  });
  printf("%-16s %-6s %ld x %3ld^2 x %3ld -> %3ld  tasks %3ld mc %3ld nc %3ld kc %3ld  %6.1f GFLOP/s  %3.0f %%\n",
         c.what,
         lines                      ? "lines"
         : mode == ConvMode::Filled ? "filled"
                                    : "direct",
         long(c.batch), long(c.image), long(c.in), long(c.out), long(blocks.tasks), long(blocks.mc), long(blocks.nc),
         long(blocks.kc), rate.gflops, rate.gflops / rate.peak * 100);
}

template <ConvMode mode>
void bench(const Case& c) {
#if defined(__AVX512F__)
  if (c.out <= tasks::avx512_narrow_tile.lanes) return bench_tile<mode, tasks::avx512_narrow_tile>(c);
#endif
  bench_tile<mode, native_tile>(c);
}

}  // namespace

int main() {
  for (const Case& c : cases) bench<ConvMode::Direct>(c), bench<ConvMode::Lines>(c), bench<ConvMode::Filled>(c);
}
