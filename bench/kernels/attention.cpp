// SPDX-License-Identifier: Apache-2.0
/// Measures src/kernels/attention.h on the shapes of real models. Times are CPU seconds, the best of several rounds.
/// Build: clang++-19 -std=c++20 -O3 -march=native -Isrc bench/kernels/attention.cpp
#include "kernels/attention.h"

#include <cstdio>

#include "rate.h"

using namespace weft::bench;

namespace {

struct Case {
  const char* what;
  i64 heads, kv_heads, queries, keys, d;
  bool causal;
};

const Case cases[] = {
    {"bert s128", 12, 12, 128, 128, 64, false},       {"vit_b_16", 12, 12, 197, 197, 64, false},
    {"whisper encoder", 6, 6, 1500, 1500, 64, false}, {"gpt2 prefill", 12, 12, 128, 128, 64, true},
    {"llama prefill", 32, 8, 512, 512, 128, true},    {"gpt2 decode", 12, 12, 1, 128, 64, true},
    {"llama decode", 32, 8, 1, 2048, 128, true},
};

void bench(const Case& c) {
  const i64 hq = c.heads * c.d, hk = c.kv_heads * c.d;
  const auto q = numbers(c.queries * hq), k = numbers(c.keys * hk), v = numbers(c.keys * hk);
  Floats y(q.size());
  const AttentionSizes s{.heads = c.heads,
                         .kv_heads = c.kv_heads,
                         .queries = c.queries,
                         .keys = c.keys,
                         .d = c.d,
                         .dv = c.d,
                         .q = {0, c.d, hq},
                         .k = {0, c.d, hk},
                         .v = {0, c.d, hk}};
  const auto blocks = tasks::attention_blocks(native_tile, 1, c.kv_heads, c.heads / c.kv_heads * c.queries, c.keys);
  Floats scratch(tasks::attention_scratch_bytes(native_tile, blocks, c.d, c.d) / 4);
  const weft::LaunchArgs args{.scratch = scratch.data()};
  f32* to = y.data();
  const i64 d = c.d, late = c.keys - c.queries;
  const bool causal = c.causal;
  const double seen = c.causal ? 0.5 * c.queries * (2.0 * c.keys - c.queries + 1) : 1.0 * c.queries * c.keys;
  const Rate rate = best_rate(4.0 * c.heads * seen * c.d, [&] {
    attention<MacF32, native_tile>(
        Launch<>{&args, 0, blocks.tasks}, s, q.data(), k.data(), v.data(),
        [&](i64, i64, i64 query) WEFT_LAMBDA { return KeyRange{0, causal ? late + query + 1 : s.keys}; },
        [&](i64, i64, i64, i64, auto raw, auto) WEFT_LAMBDA { return raw * 0.125f; },
        [&](i64, i64 head, i64 query, i64 col, auto value, auto lanes)
            WEFT_LAMBDA { store(to + query * hq + head * d + col, value, lanes); });
  });
  printf("%-16s %2ld/%2ld heads %4ld x %4ld x %3ld  tasks %3ld mq %3ld nk %3ld  %6.1f GFLOP/s  %3.0f %%\n", c.what,
         long(c.heads), long(c.kv_heads), long(c.queries), long(c.keys), long(c.d), long(blocks.tasks), long(blocks.mq),
         long(blocks.nk), rate.gflops, rate.gflops / rate.peak * 100);
}

}  // namespace

int main() {
  for (const Case& c : cases) bench(c);
}
