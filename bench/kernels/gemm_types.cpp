// SPDX-License-Identifier: Apache-2.0
/// Measures src/kernels/gemm.h with narrow types: A converted to scratch, B stored in 16 or 8 bits. CPU seconds.
/// Build: clang++-19 -std=c++20 -O3 -march=native -Isrc bench/kernels/gemm_types.cpp
#include <cstdio>

#include "kernels/gemm.h"
#include "kernels/pack.h"
#include "rate.h"

using namespace weft::bench;
namespace tasks = weft::tasks;
using weft::i64, weft::i8, weft::u8;

namespace {

template <class Mac, class A>
void bench(const char* what, i64 m, i64 n, i64 k) {
  const i64 units = tasks::gemm_units(k, Mac::group);
  std::vector<A, Aligned<A>> left(static_cast<size_t>(m * k));
  std::vector<typename Mac::B, Aligned<typename Mac::B>> right(
      static_cast<size_t>(tasks::packed_b_elements(native_tile, Mac::group, n, k)));
  std::vector<typename Mac::Acc, Aligned<typename Mac::Acc>> out(static_cast<size_t>(m * n));
  Floats scratch(static_cast<size_t>(tasks::gemm_scratch(native_tile, 1, m, n, units, true) / 4));
  const A* a = left.data();
  const auto* b = right.data();
  auto* c = out.data();
  const weft::LaunchArgs args{.scratch = scratch.data()};
  const i64 all = tasks::gemm_blocks(native_tile, 1, m, n, units, true).tasks;
  const Rate rate = best_rate(2.0 * m * n * k, [&] {
    gemm<Mac, native_tile>(
        Launch<>{&args, 0, all}, {1, m, n, k}, FilledRows{[&](i64, i64 row, i64 at, auto lanes) WEFT_LAMBDA {
          return load<fill_lanes<Mac>>(a + row * k + at, lanes);
        }},
        [&](i64) WEFT_LAMBDA { return b; },
        [&](i64, i64 row, i64 col, auto v, auto lanes) WEFT_LAMBDA { store(c + row * n + col, v, lanes); });
  });
  printf("%-6s %5ld x %5ld x %5ld  %6.1f G/s  %3.0f %% of the f32 limit\n", what, long(m), long(n), long(k),
         rate.gflops, rate.gflops / rate.peak * 100);
}

void bench_all(i64 m, i64 n, i64 k) {
  bench<MacF32, f32>("f32", m, n, k);
  bench<MacF16, f16>("f16", m, n, k);
  bench<MacBf16, bf16>("bf16", m, n, k);
  bench<MacInt8, u8>("int8", m, n, k);
}

}  // namespace

int main() { bench_all(128, 768, 768), bench_all(3136, 64, 256), bench_all(1, 4096, 4096); }
