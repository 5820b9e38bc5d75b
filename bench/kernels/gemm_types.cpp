// SPDX-License-Identifier: Apache-2.0
/// Measures src/kernels/gemm.h with f32 and narrower types, in CPU seconds. bench() converts A into scratch memory,
/// except with AMX, which reads A in place. integers() has 16-bit integers in A, reads them in place, and multiplies
/// pairs or quads of them along k.
/// Build: clang++-19 -std=c++20 -O3 -march=native -Isrc -I. bench/kernels/gemm_types.cpp
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>

#include "kernels/gemm.h"
#include "kernels/pack.h"
#include "rate.h"

using namespace weft::bench;
namespace tasks = weft::tasks;
using weft::i64, weft::i8, weft::u8;

namespace {

/// Measures a product. `direct`: rows of A are read in place; otherwise they are converted into scratch memory.
template <class Mac, class A, GemmTile tile = native_tile, bool direct = false>
void bench(const char* what, i64 m, i64 n, i64 k) {
  const i64 units = tasks::gemm_units(k, Mac::group);
  std::vector<A, Aligned<A>> left(static_cast<size_t>(m * k));
  std::vector<typename Mac::B, Aligned<typename Mac::B>> right(
      static_cast<size_t>(tasks::packed_b_elements(tile, Mac::group, n, k)));
  std::vector<typename Mac::Acc, Aligned<typename Mac::Acc>> out(static_cast<size_t>(m * n));
  Floats scratch(static_cast<size_t>(tasks::gemm_scratch(tile, 1, m, n, units, !direct) / 4));
  const A* a = left.data();
  const auto* b = right.data();
  auto* c = out.data();
  const weft::LaunchArgs args{.scratch = scratch.data()};
  const Launch<> launch{&args, 0, tasks::gemm_blocks(tile, 1, m, n, units, !direct).tasks};
  const auto b_at = [&](i64) WEFT_LAMBDA { return b; };
  const auto keep = [&](i64, i64 row, i64 col, auto v, auto lanes) WEFT_LAMBDA { store(c + row * n + col, v, lanes); };
  const Rate rate = best_rate(2.0 * m * n * k, [&] {
    if constexpr (direct) {
      const auto base = [&](i64) WEFT_LAMBDA { return reinterpret_cast<const typename Mac::Unit*>(a); };
      gemm<Mac, tile>(launch, {1, m, n, k}, DirectRows{base, k / Mac::group}, b_at, keep);
    } else {
      const auto load_a = [&](i64, i64 row, i64 at, auto lanes)
                              WEFT_LAMBDA { return load<fill_lanes<Mac>>(a + row * k + at, lanes); };
      gemm<Mac, tile>(launch, {1, m, n, k}, FilledRows{load_a}, b_at, keep);
    }
  });
  printf("%-10s %5ld x %5ld x %5ld  %6.1f G/s  %3.0f %% of the f32 limit\n", what, long(m), long(n), long(k),
         rate.gflops, rate.gflops / rate.peak * 100);
}

template <class T>
std::vector<T, Aligned<T>> room(i64 count) {
  return std::vector<T, Aligned<T>>(static_cast<size_t>(count), T(1));
}

/// Returns the rate of a product of integers, in 1e9 multiplications a second. Its epilogue scales the sums and stores
/// 16 bits.
template <class Mac, GemmTile tile>
double integers(i64 m, i64 n, i64 k) {
  using Unit = typename Mac::Unit;
  const i64 units = tasks::gemm_units(k, Mac::group);
  const auto a = room<weft::i16>(m * k);
  const auto b = room<typename Mac::B>(tasks::packed_b_elements(tile, Mac::group, n, k, Mac::header));
  auto y = room<weft::i16>(m * n);
  auto scratch = room<char>(tasks::gemm_scratch(tile, 1, m, n, units, false, 8));
  const Floats scales = numbers(n);
  const weft::LaunchArgs args{.scratch = scratch.data()};
  const i64 all = tasks::gemm_blocks(tile, 1, m, n, units).tasks;
  const auto scaled = [&](i64, i64 row, i64 col, auto v, auto lanes) WEFT_LAMBDA {
    const auto x = convert<f32>(v) * load<lanes_of<decltype(v)>>(scales.data() + col, lanes);
    store(y.data() + row * n + col, convert<weft::i16>(convert<weft::i32>(x)), lanes);
  };
  return best_rate(
             double(m * n * k),
             [&] {
               gemm<Mac, tile>(
                   Launch<>{&args, 0, all}, {1, m, n, k},
                   DirectRows{[&](i64) WEFT_LAMBDA { return reinterpret_cast<const Unit*>(a.data()); }, k / Mac::group},
                   [&](i64) WEFT_LAMBDA { return b.data(); }, scaled);
             })
      .gflops;
}

void bench_integers(i64 m, i64 n, i64 k) {
  printf("G products: %5ld x %5ld x %5ld  pairs %5.1f, of bytes %5.1f", long(m), long(n), long(k),
         integers<MacInt16<weft::i16>, native_tile>(m, n, k), integers<MacInt16<i8>, native_tile>(m, n, k));
#if !defined(__aarch64__)
  printf("  quads %5.1f, of bytes %5.1f", integers<MacQuads<weft::i16>, tasks::quad_tile>(m, n, k),
         integers<MacQuads<i8>, tasks::quad_tile>(m, n, k));
#endif
  printf("\n");
}

void bench_all(i64 m, i64 n, i64 k) {
  bench<MacF32, f32>("f32", m, n, k);
  bench<MacF16, f16>("f16", m, n, k);
  bench<MacBf16, bf16>("bf16", m, n, k);
  bench<MacInt8, u8>("int8", m, n, k);
#if defined(__AMX_BF16__) && defined(__AMX_INT8__)
  bench<MacBf16, bf16, tasks::amx_tile, true>("amx bf16", m, n, k);
  bench<MacInt8, u8, tasks::amx_tile, true>("amx int8", m, n, k);
#endif
}

}  // namespace

int main() {
#if defined(__AMX_BF16__)
  ::syscall(SYS_arch_prctl, 0x1023, 18);  // Linux grants a process AMX's tiles only on request (ARCH_REQ_XCOMP_PERM)
#endif
  bench_all(128, 768, 768), bench_all(128, 768, 3072), bench_all(3136, 64, 256), bench_all(1, 4096, 4096);
  bench_integers(3136, 256, 64), bench_integers(3136, 64, 256), bench_integers(784, 128, 512);
  bench_integers(196, 1024, 256), bench_integers(196, 256, 1024), bench_integers(49, 2048, 512);
  bench_integers(49, 512, 2048);
}
