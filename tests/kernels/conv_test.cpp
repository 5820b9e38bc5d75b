// SPDX-License-Identifier: Apache-2.0
/// The CPU convolution in all modes, compared with plain loops: kernels, strides, dilations, padding, groups, 1 to 3
/// dimensions.
#if defined(__AVX512BF16__) && !defined(__AMX_TILE__)
#include "software_amx.h"
#endif
#include "kernels/conv_padded.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "kernels/pack.h"
#include "todays.h"

using namespace weft::kernel;
namespace tasks = weft::tasks;
using weft::i16, weft::i32, weft::i64, weft::i8, weft::u8;

namespace {

template <class T>
std::vector<T> random_values(i64 count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<T> v(static_cast<size_t>(count));
  for (T& x : v) {
    if constexpr (sizeof(T) == 1) x = static_cast<T>(random() % 256);
    else if constexpr (is_same<T, i16>) x = static_cast<T>(static_cast<int>(random() % 511) - 255);
    else x = convert<T>(static_cast<f32>(static_cast<int>(random() % 255) - 127) / 64);
  }
  return v;
}

template <class T>
double wide(T x) {
  if constexpr (is_packed<T>) return convert<f32>(x);
  else return static_cast<double>(x);
}

/// Computes one result by the definition: x is [batch][in...][pixel], w is
/// [groups][channels_out][channels_in][kernel...].
template <class X, class W>
double plain(const ConvSizes& s, const std::vector<X>& x, const std::vector<W>& w, X outside, i64 group, i64 row,
             i64 channel) {
  const i64 o[3] = {row / s.out[2] / s.out[1] % s.out[0], row / s.out[2] % s.out[1], row % s.out[2]},
            image = row / s.pixels();
  double sum = 0;
  for (i64 tap = 0; tap < s.taps(); ++tap) {
    const i64 t[3] = {tap / s.kernel[2] / s.kernel[1], tap / s.kernel[2] % s.kernel[1], tap % s.kernel[2]};
    i64 at = image;
    bool inside = true, hole = false;
    for (int d = 0; d < 3; ++d) {
      i64 i = o[d] * s.stride[d] - s.pad[d] + t[d] * s.dilation[d];
      if (s.transposed) {
        const i64 up = o[d] + s.pad[d] - t[d] * s.dilation[d];
        hole = hole || up % s.stride[d] != 0;
        i = up >= 0 ? up / s.stride[d] : -1;
      }
      inside = inside && i >= 0 && i < s.in[d];
      at = at * s.in[d] + i;
    }
    for (i64 c = 0; c < s.channels_in; ++c) {
      const double value =
          wide(inside && !hole ? x[static_cast<size_t>(at * s.pixel + group * s.channels_in + c)] : outside);
      sum += value *
             wide(w[static_cast<size_t>(((group * s.channels_out + channel) * s.channels_in + c) * s.taps() + tap)]);
    }
  }
  return sum;
}

template <class Mac>
constexpr GemmTile tile_of = Mac::header > 0                  ? tasks::quad_tile
                             : sizeof(typename Mac::Acc) == 8 ? tasks::half_lanes(native_tile)
                                                              : native_tile;

/// Returns weights with channels last: [groups * channels_out][kernel...][channels_in].
template <class W>
std::vector<W> channels_last(const ConvSizes& s, const std::vector<W>& w) {
  std::vector<W> turned;
  for (i64 out = 0; out < s.groups * s.channels_out; ++out) {
    for (i64 tap = 0; tap < s.taps(); ++tap) {
      for (i64 c = 0; c < s.channels_in; ++c) {
        turned.push_back(w[static_cast<size_t>((out * s.channels_in + c) * s.taps() + tap)]);
      }
    }
  }
  return turned;
}

/// Returns how to pack weights [groups][channels_out][channels_in][kernel...] or, if `last`, with channels last. The
/// taps of the last `together` dimensions form one run along k.
PackB weights_of(const ConvSizes& s, bool last, int together, int multiple) {
  PackB p{.batch = s.groups,
          .n = s.channels_out,
          .k = s.channels_in,
          .stride_batch = s.channels_out * s.channels_in * s.taps(),
          .stride_k = last ? 1 : s.taps(),
          .stride_n = s.channels_in * s.taps(),
          .multiple = multiple};
  i64 apart = last ? s.channels_in : 1;
  for (int d = 2; d >= 0; apart *= s.kernel[d--]) {
    p.stride_tap[d] = apart;
    if (d > 2 - together) p.k *= s.kernel[d];
    else p.taps[d] = s.kernel[d];
  }
  return p;
}

template <class Mac, ConvMode mode, class X, class W, GemmTile tile = tile_of<Mac>, bool padded = false>
double worst_error(const ConvSizes& s, X outside) {
  const auto x = random_values<X>(s.batch * s.in[0] * s.in[1] * s.in[2] * s.pixel, 1);
  const auto w = random_values<W>(s.groups * s.channels_out * s.channels_in * s.taps(), 2);
  const bool lines = mode == ConvMode::Lines, im2col = mode == ConvMode::Im2col;
  const i64 k = im2col ? s.taps() * s.channels_in : s.channels_in;
  const bool line_runs = padded && s.dilation[2] == 1, last = im2col || line_runs;
  const PackB pack = weights_of(s, last,
                                im2col      ? 3
                                : line_runs ? 1
                                            : 0,
                                im2col || padded ? tasks::patch_multiple(tile) : 1);
  const i64 packed_k =
      pack.all_taps() * tasks::round_up(tasks::gemm_units(pack.k, Mac::group), pack.multiple) * Mac::group;
  std::vector<typename Mac::B> packed(static_cast<size_t>(
      s.groups * tasks::packed_b_elements(tile, Mac::group, s.channels_out, packed_k, Mac::header) + 1));
  const std::vector<W> rows = last ? channels_last(s, w) : w;
  pack_b<Mac, tile>(Launch<>{nullptr, 0, pack_b_tasks<tile>(pack)}, pack, rows.data(), packed.data());
  const i64 taps = im2col ? 1 : lines ? s.kernel[0] * s.kernel[1] : s.taps();
  const i64 units = im2col ? tasks::patch_units(tile, k, Mac::group)
                           : tasks::gemm_units(lines ? s.kernel[2] * s.channels_in : k, Mac::group);
  const i64 all_rows = mode == ConvMode::Direct ? s.phased_rows() : s.rows();
  i64 bytes = tasks::conv_scratch(tile, mode, s.groups, all_rows, s.channels_out, taps, units,
                                  std::max(sizeof(typename Mac::Acc), sizeof(typename Mac::Unit)));
  i64 all = tasks::conv_blocks(tile, mode, s.groups, all_rows, s.channels_out, taps, units).gemm.tasks;
  if constexpr (padded) bytes = padded_scratch<Mac, tile>(s), all = padded_blocks<Mac, tile>(s).tasks;
  std::vector<char> scratch(static_cast<size_t>(bytes) + 64, char(255));  // NaNs
  const weft::LaunchArgs args{.scratch = scratch.data() + (64 - reinterpret_cast<size_t>(scratch.data()) % 64)};
  const i64 channels = s.groups * s.channels_out;
  std::vector<double> y(static_cast<size_t>(s.rows() * channels), -1e9);
  const auto store = [&](i64 group, i64 row, i64 channel, auto v, auto lanes) {
    for (int i = 0; i < valid_lanes(lanes, lanes_of<decltype(v)>); ++i) {
      y[static_cast<size_t>(row * channels + group * s.channels_out + channel + i)] = static_cast<double>(v[i]);
    }
  };
  for (i64 half = 0; half < 2; ++half) {
    const Launch<> part{&args, half * (all / 3), half ? all : all / 3};
    if constexpr (mode == ConvMode::Im2col && std::is_same_v<Mac, MacF32>) {
      if (half == 1 && k <= tasks::partial_sum) {
        conv<Mac, tile, mode, true>(part, s, x.data(), packed.data(), outside, store);
        continue;
      }
    }
    if constexpr (padded) conv_padded<Mac, tile>(part, s, x.data(), packed.data(), outside, store);
    else conv<Mac, tile, mode>(part, s, x.data(), packed.data(), outside, store);
  }
  double worst = 0;
  for (i64 row = 0; row < s.rows(); ++row) {
    for (i64 group = 0; group < s.groups; ++group) {
      for (i64 channel = 0; channel < s.channels_out; ++channel) {
        const double expected = plain(s, x, w, outside, group, row, channel);
        const double error =
            std::abs(y[static_cast<size_t>(row * channels + group * s.channels_out + channel)] - expected);
        worst = std::max(worst, error / (1 + static_cast<double>(s.channels_in * s.taps())));
      }
    }
  }
  return worst;
}

/// Returns `s` with `out` and `pixel` computed from the other sizes.
ConvSizes sized(ConvSizes s) {
  for (int d = 0; d < 3; ++d) {
    const i64 reach = (s.kernel[d] - 1) * s.dilation[d] + 1;
    s.out[d] = s.transposed ? (s.in[d] - 1) * s.stride[d] + reach - 2 * s.pad[d]
                            : (s.in[d] + 2 * s.pad[d] - reach) / s.stride[d] + 1;
  }
  if (s.pixel == 0) s.pixel = s.groups * s.channels_in;
  return s;
}

const ConvSizes cases[] = {
    {.channels_in = 3,
     .channels_out = 20,
     .in = {1, 13, 11},
     .kernel = {1, 7, 7},
     .stride = {1, 2, 2},
     .pad = {0, 3, 3}},
    {.batch = 2, .channels_in = 16, .channels_out = 40, .in = {1, 9, 10}, .kernel = {1, 3, 3}, .pad = {0, 1, 1}},
    {.batch = 3, .channels_in = 24, .channels_out = 17, .in = {1, 7, 7}, .kernel = {1, 1, 1}, .stride = {1, 2, 2}},
    {.batch = 2,
     .channels_in = 64,
     .channels_out = 40,
     .in = {1, 9, 11},
     .kernel = {1, 1, 1},
     .stride = {1, 2, 3},
     .pad = {0, 1, 2}},
    {.groups = 2,
     .channels_in = 20,
     .channels_out = 33,
     .in = {1, 8, 12},
     .kernel = {1, 3, 1},
     .stride = {1, 1, 2},
     .pad = {0, 1, 0}},
    {.channels_in = 700, .channels_out = 5, .in = {1, 4, 4}, .kernel = {1, 3, 3}, .pad = {0, 1, 1}},
    {.channels_in = 100, .channels_out = 33, .in = {1, 6, 5}, .kernel = {1, 5, 3}, .pad = {0, 2, 1}},
    {.groups = 3,
     .channels_in = 4,
     .channels_out = 6,
     .in = {1, 8, 9},
     .kernel = {1, 3, 3},
     .dilation = {1, 2, 3},
     .pad = {0, 2, 3}},
    {.groups = 2, .channels_in = 1, .channels_out = 1, .in = {1, 1, 15}, .kernel = {1, 1, 4}, .stride = {1, 1, 3}},
    {.batch = 2,
     .channels_in = 2,
     .channels_out = 3,
     .in = {4, 5, 6},
     .kernel = {3, 2, 3},
     .stride = {2, 1, 1},
     .pad = {1, 0, 1}},
    {.channels_in = 8,
     .channels_out = 16,
     .in = {1, 5, 6},
     .kernel = {1, 4, 4},
     .stride = {1, 2, 2},
     .pad = {0, 1, 1},
     .transposed = true},
    {.groups = 2,
     .channels_in = 12,
     .channels_out = 5,
     .in = {1, 3, 4},
     .kernel = {1, 3, 2},
     .stride = {1, 3, 1},
     .dilation = {1, 2, 1},
     .transposed = true},
    {.batch = 2,
     .channels_in = 16,
     .channels_out = 70,
     .in = {1, 7, 9},
     .kernel = {1, 2, 2},
     .stride = {1, 2, 2},
     .transposed = true},
    {.batch = 2,
     .channels_in = 6,
     .channels_out = 9,
     .in = {2, 5, 4},
     .kernel = {3, 3, 5},
     .stride = {2, 2, 3},
     .pad = {1, 1, 2},
     .transposed = true},
    {.channels_in = 40,
     .channels_out = 20,
     .in = {1, 1, 13},
     .kernel = {1, 1, 16},
     .stride = {1, 1, 8},
     .pad = {0, 0, 4},
     .transposed = true},
    {.channels_in = 4,
     .channels_out = 3,
     .in = {1, 4, 5},
     .kernel = {1, 2, 3},
     .stride = {1, 3, 2},
     .dilation = {1, 4, 3},
     .pad = {0, 1, 2},
     .transposed = true},
    {.channels_in = 3, .channels_out = 4, .in = {1, 5, 7}, .kernel = {1, 3, 3}, .pad = {0, 1, 1}, .pixel = 5},
    {.batch = 0, .channels_in = 3, .channels_out = 4, .in = {1, 5, 7}, .kernel = {1, 3, 3}, .pad = {0, 1, 1}},
    {.channels_in = 1, .channels_out = 1, .in = {1, 1, 1}, .kernel = {1, 3, 3}, .pad = {0, 1, 1}},
    {.channels_in = 4,
     .channels_out = 18,
     .in = {1, 14, 9},
     .kernel = {1, 5, 7},
     .stride = {1, 2, 2},
     .pad = {0, 2, 3}},
    {.channels_in = 64, .channels_out = 64, .in = {1, 20, 23}, .kernel = {1, 3, 3}, .pad = {0, 1, 1}},
    {.batch = 2,
     .groups = 5,
     .channels_in = 16,
     .channels_out = 16,
     .in = {1, 14, 14},
     .kernel = {1, 3, 3},
     .stride = {1, 2, 2},
     .pad = {0, 1, 1}},
    {.groups = 3, .channels_in = 24, .channels_out = 12, .in = {1, 41, 37}, .kernel = {1, 3, 3}, .pad = {0, 1, 1}},
};

}  // namespace

TEST_CASE("conv f32, pixels in place and copied windows") {
  for (const ConvSizes& c : weft::test::todays(cases)) {
    const ConvSizes s = sized(c);
    CAPTURE(s.channels_in);
    CAPTURE(s.channels_out);
    CAPTURE(s.taps());
    CHECK(worst_error<MacF32, ConvMode::Direct, f32, f32>(s, 0.0f) < 1e-6);
    if (s.groups == 1 && !s.transposed && s.dilation[2] == 1 && s.pixel == s.channels_in) {
      CHECK(worst_error<MacF32, ConvMode::Lines, f32, f32>(s, 0.0f) < 1e-6);
    }
    CHECK(worst_error<MacF32, ConvMode::Filled, f32, f32>(s, 0.0f) < 1e-6);
  }
}

/// True if the kernel can compute a convolution in Im2col mode.
template <class Mac, GemmTile tile = tile_of<Mac>>
bool takes_im2col(const ConvSizes& s) {
  return s.groups == 1 && !s.transposed && s.dilation[2] == 1 && s.pixel == s.channels_in &&
         s.taps() * s.channels_in <= 2 * tile.deep * Mac::group;
}

TEST_CASE("conv by im2col: converted pixels, windows that do not fill units") {
  int tested = 0;
  for (const ConvSizes& c : cases) {
    const ConvSizes s = sized(c);
    CAPTURE(s.channels_in);
    CAPTURE(s.taps());
    if (takes_im2col<MacF32>(s)) {
      CHECK(worst_error<MacF32, ConvMode::Im2col, f16, f32>(s, convert<f16>(0.5f)) < 1e-6);
    }
    if (!takes_im2col<MacInt16<i8>>(s)) continue;
    CHECK(worst_error<MacInt16<i8>, ConvMode::Im2col, i8, i8>(s, i8(-3)) == 0);
    if (takes_im2col<MacBf16>(s)) CHECK(worst_error<MacBf16, ConvMode::Im2col, f32, bf16>(s, 0.0f) < 1e-6);
    ++tested;
  }
  CHECK(tested >= 7);
}

TEST_CASE("conv f64") {
  for (const ConvSizes& c : weft::test::todays(cases)) {
    const ConvSizes s = sized(c);
    CHECK(worst_error<MacF64, ConvMode::Direct, f64, f64>(s, 0.0) < 1e-14);
    CHECK(worst_error<MacF64, ConvMode::Filled, f32, f64>(s, 0.0f) < 1e-14);
  }
}

TEST_CASE("conv int8 is exact, with a zero point as padding") {
  for (const ConvSizes& c : weft::test::todays(cases)) {
    const ConvSizes s = sized(c);
    CAPTURE(s.channels_in);
    CAPTURE(s.taps());
    CHECK(worst_error<MacInt8, ConvMode::Filled, u8, i8>(s, u8(7)) == 0);
    CHECK(worst_error<MacInt16<i8>, ConvMode::Filled, i16, i8>(s, i16(-3)) == 0);
    if (s.channels_in % 2 || s.pixel % 2) continue;
    CHECK(worst_error<MacInt16<i8>, ConvMode::Direct, i16, i8>(s, i16(0)) == 0);
    if (s.groups == 1 && !s.transposed && s.dilation[2] == 1 && s.pixel == s.channels_in) {
      CHECK(worst_error<MacInt16<i16>, ConvMode::Lines, i16, i16>(s, i16(0)) == 0);
    }
  }
}

#if defined(__AVX512BF16__) && defined(__AVX512VNNI__)
TEST_CASE("conv of channels that fill a part of a panel: bytes exactly, bf16 with sums in f32") {
  for (ConvSizes s : cases) {
    for (i64 channels : {3, 16, 17, 40, 64}) {
      s.channels_out = channels;
      const ConvSizes all = sized(s);
      CAPTURE(channels);
      CAPTURE(all.taps());
      CHECK(worst_error<MacInt8, ConvMode::Filled, u8, i8>(all, u8(7)) == 0);
      CHECK(worst_error<MacInt8, ConvMode::Filled, u8, i8, tasks::avx512_narrow_tile>(all, u8(7)) == 0);
      CHECK(worst_error<MacBf16, ConvMode::Filled, bf16, bf16>(all, bf16(0)) < 1e-6);
      CHECK(worst_error<MacBf16, ConvMode::Filled, bf16, bf16, tasks::avx512_narrow_tile>(all, bf16(0)) < 1e-6);
    }
  }
}
#endif

#ifdef WEFT_AMX
TEST_CASE("conv on AMX: bytes exactly, bf16 with sums in f32") {
  for (const ConvSizes& c : cases) {
    const ConvSizes s = sized(c);
    CAPTURE(s.channels_in);
    CAPTURE(s.taps());
    CHECK(worst_error<MacInt8, ConvMode::Filled, u8, i8, tasks::amx_tile>(s, u8(7)) == 0);
    CHECK(worst_error<MacBf16, ConvMode::Filled, bf16, bf16, tasks::amx_tile>(s, bf16(0)) < 1e-6);
    if (takes_im2col<MacInt8, tasks::amx_tile>(s)) {
      CHECK(worst_error<MacInt8, ConvMode::Im2col, u8, i8, tasks::amx_tile>(s, u8(7)) == 0);
    }
    if (takes_im2col<MacBf16, tasks::amx_tile>(s)) {
      CHECK(worst_error<MacBf16, ConvMode::Im2col, bf16, bf16, tasks::amx_tile>(s, bf16(0)) < 1e-6);
    }
    if (s.channels_in % 2 || s.pixel % 2) continue;
    CHECK(worst_error<MacBf16, ConvMode::Direct, bf16, bf16, tasks::amx_tile>(s, bf16(0)) < 1e-6);
    if (s.channels_in % 4 || s.pixel % 4) continue;
    CHECK(worst_error<MacInt8, ConvMode::Direct, u8, i8, tasks::amx_tile>(s, u8(7)) == 0);
  }
}

TEST_CASE("conv on AMX of lines with their padding") {
  int tested = 0;
  for (ConvSizes s : cases) {
    if (s.transposed || s.in[0] > 1) continue;
    for (i64 channels : {8, 16, 24, 64, 100, 192}) {
      if (s.dilation[2] > 1 && channels % 64 != 0) continue;
      for (i64 apart : {0, 5}) {
        s.channels_in = channels, s.pixel = apart == 0 ? 0 : s.groups * channels + apart;
        const ConvSizes all = sized(s);
        CAPTURE(all.channels_in);
        CAPTURE(all.channels_out);
        CAPTURE(all.taps());
        CHECK(worst_error<MacInt8, ConvMode::Direct, u8, i8, tasks::amx_tile, true>(all, u8(7)) == 0);
        CHECK(worst_error<MacInt8, ConvMode::Direct, u8, i8, tasks::amx_narrow_tile, true>(all, u8(7)) == 0);
        CHECK(worst_error<MacBf16, ConvMode::Direct, bf16, bf16, tasks::amx_tile, true>(all, bf16(0)) < 1e-6);
        CHECK(worst_error<MacBf16, ConvMode::Direct, bf16, bf16, tasks::amx_narrow_tile, true>(all, bf16(0)) < 1e-6);
        ++tested;
      }
    }
  }
  CHECK(tested >= 120);
}
#endif

#if !defined(__aarch64__)
TEST_CASE("conv of integers in quads is exact") {
  for (const ConvSizes& c : cases) {
    const ConvSizes s = sized(c);
    CAPTURE(s.channels_in);
    CAPTURE(s.taps());
    CHECK(worst_error<MacQuads<i8>, ConvMode::Filled, u8, i8>(s, u8(7)) == 0);
    if (s.channels_in % 4 || s.pixel % 4) continue;
    CHECK(worst_error<MacQuads<i8>, ConvMode::Direct, i16, i8>(s, i16(-3)) == 0);
    CHECK(worst_error<MacQuads<i16>, ConvMode::Direct, i16, i16>(s, i16(0)) == 0);
    if (s.groups == 1 && !s.transposed && s.dilation[2] == 1 && s.pixel == s.channels_in) {
      CHECK(worst_error<MacQuads<i16>, ConvMode::Lines, i16, i16>(s, i16(3)) == 0);
    }
  }
}
#endif
