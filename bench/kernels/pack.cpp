// SPDX-License-Identifier: Apache-2.0
/// Measures src/kernels/pack.h: GB/s of source read, for the layouts in which weights arrive. Times are CPU seconds,
/// the best of several rounds. Build: clang++-19 -std=c++20 -O3 -march=native -Isrc bench/kernels/pack.cpp
#include "kernels/pack.h"

#include <cstdio>

#include "rate.h"

using namespace weft::bench;
namespace tasks = weft::tasks;
using weft::i64;

namespace {

template <class Mac, class To = typename Mac::B>
void bench(const char* what, const PackB& p) {
  const auto from = numbers(p.batch * p.n * p.k * p.all_taps());
  const i64 size = p.batch * p.all_taps() * tasks::packed_b_elements(native_tile, Mac::group, p.n, p.k);
  Floats to(static_cast<size_t>(size));
  const f32* source = from.data();
  auto* target = reinterpret_cast<To*>(to.data());
  asm volatile("" : "+r"(target));  // keeps the compiler from removing the writes
  const i64 all = pack_b_tasks<native_tile>(p);
  const Rate rate =
      best_rate(4.0 * from.size(), [&] { pack_b<Mac, native_tile>(Launch<>{nullptr, 0, all}, p, source, target); });
  printf("%-28s %6.2f GB/s\n", what, rate.gflops);
}

}  // namespace

int main() {
  bench<MacF32>("matmul [k, n]", {.n = 3072, .k = 768, .stride_k = 3072, .stride_n = 1});
  bench<MacF32>("matmul [n, k]", {.n = 3072, .k = 768, .stride_k = 1, .stride_n = 768});
  bench<MacF32>("attention [n, k]",
                {.batch = 12, .n = 128, .k = 64, .stride_batch = 64, .stride_k = 1, .stride_n = 768});
  bench<MacF32>("conv 3x3 OIHW",
                {.n = 512, .k = 512, .stride_k = 9, .stride_n = 512 * 9, .taps = {1, 3, 3}, .stride_tap = {9, 3, 1}});
  bench<MacF32>("conv 1x1 OIHW", {.n = 2048, .k = 512, .stride_k = 1, .stride_n = 512});
  bench<MacBf16>("matmul [k, n] to bf16", {.n = 3072, .k = 768, .stride_k = 3072, .stride_n = 1});
}
