// SPDX-License-Identifier: Apache-2.0
/// Measures src/kernels/winograd.h and the direct kernel, in f32 and in integers, compiled natively. GFLOP/s count the
/// operations of a direct convolution for both. Times are CPU seconds, the best of several rounds. The cost model of
/// src/lower/cpu/winograd.cpp was fitted to these figures.
/// Build: clang++-19 -std=c++20 -O3 -march=native -Isrc bench/kernels/winograd.cpp
#include "kernels/winograd.h"

#include <cstdio>

#include "kernels/conv.h"
#include "rate.h"

using namespace weft::bench;
using weft::i16;

namespace {

struct Case {
  i64 batch, image, in, out;
};

const Case cases[] = {{1, 56, 64, 64},   {1, 28, 128, 128}, {1, 14, 256, 256}, {1, 7, 512, 512},
                      {8, 14, 256, 256}, {8, 7, 512, 512},  {1, 160, 16, 16},  {1, 80, 32, 32},
                      {1, 40, 64, 64},   {1, 80, 64, 80},   {1, 20, 128, 128}, {1, 224, 3, 64}};

template <class T>
std::vector<T, Aligned<T>> room(i64 count) {
  return std::vector<T, Aligned<T>>(static_cast<size_t>(count), T(1));
}

void print(const char* what, i64 tasks, const Rate& rate, double flop) {
  printf("  %-7s tasks %3ld  %6.1f GFLOP/s  %3.0f %%  %6.3f ms\n", what, long(tasks), rate.gflops,
         rate.gflops / rate.peak * 100, 1e-6 * flop / rate.gflops);
}

/// Measures one kernel, which `run(launch, store)` calls, and prints its rate and time.
template <class Acc, class Run>
void measure(const char* what, const Case& c, i64 tasks, i64 scratch_bytes, const Run& run) {
  auto scratch = room<char>(scratch_bytes);
  auto y = room<Acc>(c.batch * c.image * c.image * c.out);
  const weft::LaunchArgs args{.scratch = scratch.data()};
  const double flop = 18.0 * double(c.batch * c.image * c.image * c.in * c.out);
  Acc* to = y.data();
  const i64 channels = c.out;
  print(what, tasks,
        best_rate(flop,
                  [&] {
                    run(Launch<>{&args, 0, tasks}, [&](i64, i64 row, i64 col, auto v, auto lanes) WEFT_LAMBDA {
                      store(to + row * channels + col, v > 0 ? v : decltype(v)(0), lanes);
                    });
                  }),
        flop);
}

template <class Mac, class Form2, class Form4>
void bench(const Case& c, const char* types) {
  using X = typename Mac::Direct;
  constexpr auto tile = native_tile;
  const ConvSizes s{.batch = c.batch,
                    .channels_in = c.in,
                    .channels_out = c.out,
                    .in = {1, c.image, c.image},
                    .out = {1, c.image, c.image},
                    .kernel = {1, 3, 3},
                    .pad = {0, 1, 1},
                    .pixel = c.in};
  const i64 units = tasks::gemm_units(c.in, Mac::group);
  const auto x = room<X>(s.rows() * c.in);
  const auto w = room<typename Mac::B>(36 * tasks::packed_b_elements(tile, Mac::group, c.out, c.in));
  printf("%s %ld x %3ld^2 x %3ld -> %3ld\n", types, long(c.batch), long(c.image), long(c.in), long(c.out));
  measure<typename Mac::Acc>(
      "direct", c, tasks::conv_blocks(tile, ConvMode::Direct, 1, s.rows(), c.out, 9, units).gemm.tasks,
      tasks::conv_scratch(tile, ConvMode::Direct, 1, s.rows(), c.out, 9, units),
      [&](auto launch, auto store) { conv<Mac, tile, ConvMode::Direct>(launch, s, x.data(), w.data(), X(0), store); });
  const auto tiled = [&]<class Form>(const char* what, Form) {
    measure<typename Mac::Acc>(
        what, c, tasks::winograd_blocks(tile, Form::out, c.batch, c.image, c.image, 1, c.out, units).tasks,
        tasks::winograd_scratch(tile, Form::out, c.batch, c.image, c.image, 1, c.out, units),
        [&](auto launch, auto store) { winograd<Mac, tile, Form>(launch, s, x.data(), w.data(), X(0), store); });
  };
  tiled("2 x 2", Form2{});
  tiled("4 x 4", Form4{});
}

}  // namespace

int main() {
  for (const Case& c : cases) bench<MacF32, WinogradFloat2, WinogradFloat4>(c, "f32");
  for (const Case& c : cases) {
    if (c.in % 2 == 0) bench<MacInt16<i16>, WinogradInt2, WinogradInt4>(c, "i16");
  }
}
