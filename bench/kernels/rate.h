// SPDX-License-Identifier: Apache-2.0
#pragma once
/// Helpers of the kernel benchmarks: the FMA rate that this core reaches at this moment, and the best rate of several
/// rounds. Each round first measures the FMA rate again, and the best FMA rate is kept too. Times are CPU seconds.
#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <vector>

#include "kernels/micro.h"

namespace weft::bench {

using namespace weft::kernel;
using weft::i64;
namespace tasks = weft::tasks;

/// Returns the f32 GFLOP/s of this core at this moment, from independent FMAs on registers.
inline double peak_now() {
  using V = Vec<f32, native_tile.lanes>;
  V sums[12];
  for (auto& x : sums) x = V(1);
  V b = V(1.0001f), c = V(0.5f);
  asm volatile("" : "+v"(b), "+v"(c));
  const clock_t start = clock();
  const long times = 1'000'000;
  for (long i = 0; i < times; ++i) {
#pragma unroll
    for (auto& x : sums) x = __builtin_elementwise_fma(x, b, c);
  }
  asm volatile("" ::"v"(sums[0]), "v"(sums[1]), "v"(sums[2]), "v"(sums[3]), "v"(sums[4]), "v"(sums[5]), "v"(sums[6]),
               "v"(sums[7]), "v"(sums[8]), "v"(sums[9]), "v"(sums[10]), "v"(sums[11]));
  return 24e-9 * native_tile.lanes * times / (static_cast<double>(clock() - start) / CLOCKS_PER_SEC);
}

struct Rate {
  double gflops = 0, peak = 0;
};

/// Returns the best rate of 8 rounds. A round calls `run`, which does `flop` operations, for at least 20 ms.
template <class Run>
Rate best_rate(double flop, const Run& run) {
  Rate best;
  for (int round = 0; round < 8; ++round) {
    best.peak = std::max(best.peak, peak_now());
    const clock_t start = clock();
    int times = 0;
    do run(), ++times;
    while (clock() - start < CLOCKS_PER_SEC / 50);
    best.gflops = std::max(best.gflops, 1e-9 * flop * times / (static_cast<double>(clock() - start) / CLOCKS_PER_SEC));
  }
  return best;
}

/// Memory aligned to 64 bytes, as in the arena.
template <class T>
struct Aligned {
  using value_type = T;
  T* allocate(size_t n) { return static_cast<T*>(std::aligned_alloc(64, (n * sizeof(T) + 127) / 64 * 64)); }
  void deallocate(T* p, size_t) { std::free(p); }
  bool operator==(const Aligned&) const { return true; }
};
using Floats = std::vector<f32, Aligned<f32>>;

/// Returns small multiples of 1/8, so that nothing becomes denormal or infinite.
inline Floats numbers(i64 count) {
  Floats v(static_cast<size_t>(count));
  for (f32& x : v) x = static_cast<f32>(rand() % 17 - 8) / 8;
  return v;
}

}  // namespace weft::bench
