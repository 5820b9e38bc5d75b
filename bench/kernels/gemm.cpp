// SPDX-License-Identifier: Apache-2.0
/// Measures src/kernels/gemm.h on the layer shapes of real networks, compiled natively. Times are CPU seconds, the best
/// of several rounds. Build: clang++-19 -std=c++20 -O3 -march=native -Isrc bench/kernels/gemm.cpp
#include "kernels/gemm.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

#include "kernels/pack.h"
#include "rate.h"

using namespace weft::bench;

namespace {

struct Case {
  const char* what;
  i64 batch, m, n, k;
};

const Case cases[] = {
    {"resnet50 1x1 56", 1, 3136, 64, 64},   {"resnet50 1x1 56", 1, 3136, 256, 64},
    {"resnet50 1x1 56", 1, 3136, 64, 256},  {"resnet50 1x1 28", 1, 784, 512, 128},
    {"resnet50 1x1 28", 1, 784, 128, 512},  {"resnet50 1x1 14", 1, 196, 1024, 256},
    {"resnet50 1x1 14", 1, 196, 256, 1024}, {"resnet50 1x1 7", 1, 49, 2048, 512},
    {"resnet50 1x1 7", 1, 49, 512, 2048},   {"mobilenet 112", 1, 12544, 64, 16},
    {"mobilenet 56", 1, 3136, 24, 64},      {"mobilenet 56", 1, 3136, 72, 24},
    {"mobilenet 28", 1, 784, 120, 40},      {"mobilenet 14", 1, 196, 480, 80},
    {"mobilenet 7", 1, 49, 160, 960},       {"bert qkv", 1, 128, 2304, 768},
    {"bert out", 1, 128, 768, 768},         {"bert ffn", 1, 128, 3072, 768},
    {"bert ffn", 1, 128, 768, 3072},        {"bert qk", 12, 128, 128, 64},
    {"bert pv", 12, 128, 64, 128},          {"vit qkv", 1, 197, 2304, 768},
    {"vit ffn", 1, 197, 768, 3072},         {"whisper ffn", 1, 1500, 1536, 384},
    {"whisper ffn", 1, 1500, 384, 1536},    {"yolo 1x1 80", 1, 6400, 128, 128},
    {"large", 1, 512, 4096, 4096},          {"square", 1, 1000, 1000, 1000},
    {"decode 1", 1, 1, 4096, 4096},         {"decode 4", 1, 4, 4096, 4096},
    {"decode 8", 1, 8, 4096, 4096},         {"classifier", 1, 1, 1000, 2048},
};

struct Buffers {
  Floats a, b, packed, c, bias;
  Floats scratch;
};

Buffers make(const Case& s) {
  Buffers x;
  x.a.resize(s.batch * s.m * s.k), x.b.resize(s.batch * s.k * s.n), x.c.resize(s.batch * s.m * s.n), x.bias.resize(s.n);
  for (auto& v : x.a) v = static_cast<f32>(rand() % 17 - 8) / 8;
  for (auto& v : x.b) v = static_cast<f32>(rand() % 15 - 7) / 8;
  x.packed.resize(s.batch * tasks::packed_b_elements(native_tile, 1, s.n, s.k));
  x.scratch.resize(tasks::gemm_scratch(native_tile, s.batch, s.m, s.n, s.k, true) / 4);
  return x;
}

__attribute__((noinline)) void run(const Case& s, Buffers& x, i64 begin, i64 end) {
  const i64 m = s.m, n = s.n, k = s.k, packed = tasks::packed_b_elements(native_tile, 1, n, k);
  const f32 *a = x.a.data(), *b = x.packed.data(), *bias = x.bias.data();
  f32* c = x.c.data();
  const weft::LaunchArgs args{.scratch = x.scratch.data()};
  gemm<MacF32, native_tile>(
      Launch<>{&args, begin, end}, {s.batch, m, n, k},
      DirectRows{[&](i64 at) WEFT_LAMBDA { return a + at * m * k; }, k},
      [&](i64 at) WEFT_LAMBDA { return b + at * packed; },
      [&](i64 at, i64 row, i64 col, auto v, auto lanes) WEFT_LAMBDA {
        v += load<lanes_of<decltype(v)>>(bias + col, lanes);
        store(c + (at * m + row) * n + col, v > 0 ? v : decltype(v)(0), lanes);
      });
}

void bench(const Case& s) {
  Buffers x = make(s);
  const PackB p{.batch = s.batch, .n = s.n, .k = s.k, .stride_batch = s.k * s.n, .stride_k = s.n, .stride_n = 1};
  pack_b<MacF32, native_tile>(Launch<>{nullptr, 0, pack_b_tasks<native_tile>(p)}, p, x.b.data(), x.packed.data());
  const auto blocks = tasks::gemm_blocks(native_tile, s.batch, s.m, s.n, s.k);
  const Rate rate = best_rate(2.0 * s.batch * s.m * s.n * s.k, [&] { run(s, x, 0, blocks.tasks); });
  printf(
      "%-16s %3ld x %5ld x %5ld x %5ld  tasks %4ld mc %3ld nc %4ld kc %4ld  %6.1f GFLOP/s  %3.0f %%  %5.1f GB/s of B\n",
      s.what, long(s.batch), long(s.m), long(s.n), long(s.k), long(blocks.tasks), long(blocks.mc), long(blocks.nc),
      long(blocks.kc), rate.gflops, rate.gflops / rate.peak * 100, rate.gflops / 2 / s.m * 4);
}

}  // namespace

int main() {
  for (const Case& s : cases) bench(s);
}
