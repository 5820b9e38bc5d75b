// SPDX-License-Identifier: Apache-2.0
// Loads and stores of part of a vector, conversions and reductions of the kernel library, run on the host.
#include "kernels/vec.h"
#include "kernels/fused.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace {

namespace k = weft::kernel;
using weft::u16;
using weft::u32;
using weft::u8;

/// Checks loads and stores of the first n lanes, for every n from 0 to N: the other lanes are loaded as zero. The
/// arrays end right after lane n - 1, so that a sanitizer sees any access beyond. Also checks an unaligned full vector.
template <class T, int N>
void check_parts() {
  using Bits = typename k::BitsOf<T>::type;
  for (int n = 0; n <= N; n++) {
    std::vector<Bits> in(n), out(n, Bits(0));
    for (int i = 0; i < n; i++) in[i] = Bits(i + 1);
    const auto v = k::load<N>((const T*)in.data(), k::Part{n});
    for (int i = 0; i < N; i++) CHECK(Bits(k::lane(v, i)) == Bits(i < n ? i + 1 : 0));
    k::store((T*)out.data(), v, k::Part{n});
    CHECK(in == out);
  }
  std::vector<Bits> in(N + 1), out(N + 1, Bits(0));
  for (int i = 0; i <= N; i++) in[i] = Bits(3 * i);
  k::store((T*)out.data() + 1, k::load<N>((const T*)in.data() + 1, k::Full{}), k::Full{});
  for (int i = 1; i <= N; i++) CHECK(out[i] == in[i]);
  CHECK(out[0] == Bits(0));
}

template <class T>
void check_all_parts() {
  check_parts<T, 1>();
  check_parts<T, 2>();
  check_parts<T, 4>();
  check_parts<T, 8>();
  check_parts<T, 16>();
  check_parts<T, 32>();
}

/// Decodes an 8-bit float by its definition.
double small_float(u8 bits, int mantissa, int bias, bool fnuz, bool has_inf) {
  const int exponent = (bits & 127) >> mantissa, m = bits & ((1 << mantissa) - 1);
  const double sign = bits & 128 ? -1 : 1, nan = std::numeric_limits<double>::quiet_NaN();
  if (fnuz && bits == 128) return nan;
  if (!fnuz && !has_inf && (bits & 127) == 127) return nan;
  if (has_inf && exponent == 31) return m ? nan : sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * std::ldexp(m, 1 - bias - mantissa);
  return sign * std::ldexp(1 + std::ldexp(m, -mantissa), exponent - bias);
}

/// Returns the code of the finite value that is nearest to |x|, ties to the even code; saturates.
u8 nearest(double x, const double (&values)[256]) {
  int best = 0;
  const double size = std::fmin(std::fabs(x), 1e6);
  for (int i = 0; i < 128; i++) {
    if (!std::isfinite(values[i])) continue;
    const double d = std::fabs(values[i] - size), e = std::fabs(values[best] - size);
    if (d < e || (d == e && i % 2 == 0)) best = i;
  }
  return u8(best);
}

template <class T>
void check_float8(int mantissa, int bias, bool fnuz, bool has_inf) {
  double values[256];
  int failures = 0;
  for (int i = 0; i < 256; i++) {
    values[i] = small_float(u8(i), mantissa, bias, fnuz, has_inf);
    const float got = k::convert<float>(T(i));
    failures += !(std::isnan(values[i]) ? std::isnan(got) : double(got) == values[i]);
    failures += !std::isnan(got) && u8(k::convert<T>(got)) != i;  // infinities must be exact too
    const float vector = k::convert<float>(k::splat<T, 4>(T(i)))[2];
    failures += std::memcmp(&got, &vector, 4) != 0;
  }
  CHECK(failures == 0);
  for (u32 bits = 0; bits < 0x7f800000; bits += 40009) {
    const float x = __builtin_bit_cast(float, bits);
    const u8 want = nearest(x, values);
    failures += k::Float8Of<T>::type::encode(x) != want;
    failures += k::Float8Of<T>::type::encode(-x) != (fnuz && want == 0 ? 0u : want | 128u);
  }
  CHECK(failures == 0);
  for (int i = 0; i < 127; i++) {  // halfway between neighbours
    if (!std::isfinite(values[i + 1])) break;
    const float x = float((values[i] + values[i + 1]) / 2);
    CHECK(u8(k::convert<T>(x)) == (i % 2 ? i + 1 : i));
  }
  CHECK(std::isnan(k::convert<float>(k::convert<T>(std::numeric_limits<float>::quiet_NaN()))));
}

/// Checks the conversion of every byte, in vectors of N.
template <class T, int N>
void check_table(const std::vector<T>& table) {
  const auto ready = k::byte_table(table.data());
  for (int first = 0; first < 256; first += N) {
    T x[N], y[N];
    for (int i = 0; i < N; i++) x[i] = T(first + i);
    k::store(y, k::looked_up(ready, k::load<N>((const T*)x, k::Full{})), k::Full{});
    for (int i = 0; i < N; i++) CHECK(y[i] == table[u8(x[i])]);
  }
}
template <class T>
void check_tables() {
  std::mt19937 random(7);
  std::vector<T> table(256);
  for (T& y : table) y = T(random());
  check_table<T, 4>(table), check_table<T, 8>(table), check_table<T, 16>(table), check_table<T, 32>(table);
  check_table<T, 64>(table), check_table<T, 128>(table);
}

}  // namespace

TEST_CASE("kernel vec: parts of a vector") {
  check_all_parts<u8>();
  check_all_parts<weft::i16>();
  check_all_parts<k::f16>();
  check_all_parts<k::bf16>();
  check_all_parts<k::f8e5m2>();
  check_all_parts<float>();
  check_all_parts<weft::i32>();
  check_all_parts<double>();
  check_all_parts<weft::i64>();
}

TEST_CASE("kernel vec: bf16 rounds to nearest even") {
  int failures = 0;
  for (u32 i = 0; i < 65536; i++) {
    const float x = k::convert<float>(k::bf16(i)), back = __builtin_bit_cast(float, i << 16);
    failures += std::memcmp(&x, &back, 4) != 0;
  }
  for (u32 bits = 0; bits < 0x7f800000; bits += 10007) {
    const float x = __builtin_bit_cast(float, bits);
    const float down = __builtin_bit_cast(float, bits & 0xffff0000),
                up = __builtin_bit_cast(float, (bits & 0xffff0000) + 0x10000);
    const double to_down = double(x) - down, to_up = (std::isinf(up) ? 0x1p128 : double(up)) - x;
    const bool take_up = to_up < to_down || (to_up == to_down && (bits >> 16 & 1));
    failures += u16(k::convert<k::bf16>(x)) != (bits >> 16) + take_up;
    failures += u16(k::convert<k::bf16>(k::Vec<float, 8>(x)).bits[5]) != (bits >> 16) + take_up;
    k::Vec<float, 16> half(1.0f);
    half[7] = x;
    failures += u16(k::convert<k::bf16>(half).bits[7]) != (bits >> 16) + take_up;
    k::Vec<float, 32> both(-2.0f);
    both[bits % 32] = x;
    const auto rounded = k::convert<k::bf16>(both);
    failures += u16(rounded.bits[bits % 32]) != (bits >> 16) + take_up || u16(rounded.bits[bits % 32 ^ 1]) != 0xc000;
    k::Vec<float, 64> row(x);
    row[bits % 64] = -1.0f;
    const auto all = k::convert<k::bf16>(row);
    for (u32 i = 0; i < 64; i++) failures += u16(all.bits[i]) != (i == bits % 64 ? 0xbf80 : (bits >> 16) + take_up);
  }
  CHECK(failures == 0);
  const float quiet = __builtin_bit_cast(float, 0x7f800001), minus = __builtin_bit_cast(float, 0xff812345);
  CHECK(std::isnan(k::convert<float>(k::convert<k::bf16>(quiet))));
  CHECK(u16(k::convert<k::bf16>(k::Vec<float, 32>(minus)).bits[9]) == 0xffc1);
  CHECK(u16(k::convert<k::bf16>(k::Vec<float, 32>(-__builtin_inff())).bits[30]) == 0xff80);
}

TEST_CASE("kernel vec: 8-bit floats") {
  check_float8<k::f8e4m3fn>(3, 7, false, false);
  check_float8<k::f8e4m3fnuz>(3, 8, true, false);
  check_float8<k::f8e5m2>(2, 15, false, true);
  check_float8<k::f8e5m2fnuz>(2, 16, true, false);
}

TEST_CASE("kernel vec: masks, selection and reductions") {
  using V = k::Vec<float, 8>;
  const V x = {1, -2, 3, -4, 5, -6, 7, -8};
  const auto bools = k::as_bool(x > 0);
  for (int i = 0; i < 8; i++) CHECK(bools[i] == (i % 2 == 0));
  const auto wide = k::select(x > 0, k::Vec<double, 8>(1.0), k::Vec<double, 8>(2.0));
  CHECK(wide[0] == 1);
  CHECK(wide[1] == 2);
  CHECK(k::any(x > 6));
  CHECK_FALSE(k::any(x > 7));
  CHECK(k::reduce_add(x) == -4);
  CHECK(k::reduce_max(x) == 7);
  CHECK(k::reduce_min(x) == -8);
  CHECK(std::isnan(k::reduce_max(V{1, NAN, 3, 4, 5, 6, 7, 8})));
  CHECK(std::isnan(k::reduce_min(V{1, 2, 3, 4, 5, 6, 7, NAN})));
}

template <int N>
void check_quick_rounding(float most) {
  using Wide = k::Vec<double, N>;
  using Narrow = k::Vec<float, N>;
  using Integers = k::Vec<weft::i32, N>;
  std::mt19937 random(3);
  std::uniform_real_distribution<double> error(-most, most);
  const int low = -100, high = 155;
  int doubts = 0, lanes = 0;
  for (int turn = 0; turn < 4000; ++turn) {
    Wide exact{};
    Narrow near{};
    for (int i = 0; i < N; ++i) {
      // Half-integers, integers and numbers between them, within the limits and far beyond.
      const int number = static_cast<int>(random() % 2000) - 1000;
      const double x = turn % 2 ? number / 2.0 + error(random) : number * (turn % 4 ? 0.37 : 0.5) * 1.001;
      exact[i] = x;
      near[i] = static_cast<float>(x - most + error(random) * 0.8);
    }
    const Integers quick = k::small_integers(near), right = k::small_integers(exact);
    const auto expected = k::clamped<weft::i16>(right, Integers(low), Integers(high));
    bool any_doubt = false;
    for (int i = 0; i < N; ++i) {  // a CHECK for each lane would take seconds
      const bool is_sure = !k::in_doubt(Narrow(near[i]), Integers(quick[i]), Narrow(2 * most));
      const bool is_far = std::nearbyint(near[i] + 2 * most + 0x1p-14) == quick[i];
      if (is_sure ? quick[i] != right[i] : is_far) CHECK_MESSAGE(false, near[i], ' ', exact[i]);
      const auto plain = static_cast<weft::i16>(std::clamp(std::nearbyint(exact[i]), double(low), double(high)));
      if (expected[i] != plain) CHECK(expected[i] == plain);
      doubts += !is_sure, ++lanes;
      any_doubt = any_doubt || !is_sure;
    }
    CHECK(k::in_doubt(near, quick, Narrow(2 * most)) == any_doubt);
  }
  CHECK(doubts > 0);
  CHECK(doubts < lanes);
}

TEST_CASE("kernel rounding: the f32 result is right in all lanes without doubt") {
  for (float most : {0x1p-11f, 0x1p-13f}) {
    check_quick_rounding<4>(most);
    check_quick_rounding<8>(most);
    check_quick_rounding<16>(most);
    check_quick_rounding<32>(most);
    check_quick_rounding<64>(most);
  }
}

/// Two roundings, of which the second reads the first: guesses in f32 give the same bytes as f64.
template <int N>
void check_chained_rounding() {
  using Narrow = k::Vec<float, N>;
  using Wide = k::Vec<double, N>;
  using Integers = k::Vec<weft::i32, N>;
  std::mt19937 random(5);
  const float near_scale = 0.0123f, near_factor = 0.7f, near_other = 0.45f, most = 0x1p-12f;
  const double scale = 0.0123, factor = 0.7, other = 0.45;
  const int low = -119, high = 136;
  for (int turn = 0; turn < 20000; ++turn) {
    Integers sum{}, residual{};
    for (int i = 0; i < N; ++i)
      sum[i] = static_cast<int>(random() % 30000) - 15000, residual[i] = static_cast<int>(random() % 256);
    const auto values = [=](auto& doubts) {
      const Narrow first = k::convert<float>(sum) * Narrow(near_scale) - Narrow(most);
      const auto exact_first = [=] { return k::small_integers(k::convert<double>(sum) * Wide(scale)); };
      const Narrow a = doubts.bounded_real(first, Narrow(2 * most), Integers(low), Integers(high), exact_first);
      const Narrow second = a * Narrow(near_factor) + (k::convert<float>(residual) * Narrow(near_other) - Narrow(most));
      const auto exact_second = [=] {
        return k::small_integers(k::convert<double>(a) * Wide(factor) + k::convert<double>(residual) * Wide(other));
      };
      return k::saturated<u8>(doubts.rounded(second, Narrow(2 * most), exact_second));
    };
    const auto bounded = [=](auto& doubts) {
      const Narrow first = k::convert<float>(sum) * Narrow(near_scale) - Narrow(most);
      const auto exact_first = [=] { return k::small_integers(k::convert<double>(sum) * Wide(scale)); };
      return doubts.bounded(first, Narrow(2 * most), Integers(low), Integers(high), exact_first);
    };
    const auto bytes = k::without_doubts<N>(values);
    const auto integers = k::without_doubts<N>(bounded);
    for (int i = 0; i < N; ++i) {
      const double first = std::clamp(std::nearbyint(sum[i] * scale), double(low), double(high));
      const double second = std::clamp(std::nearbyint(first * factor + residual[i] * other), 0.0, 255.0);
      if (bytes[i] != second || integers[i] != first) CHECK_MESSAGE(false, sum[i], ' ', residual[i]);
    }
  }
}

TEST_CASE("kernel rounding: a rounding that reads another") {
  check_chained_rounding<16>(), check_chained_rounding<32>(), check_chained_rounding<64>();
}

template <class T, int N>
void check_saturated() {
  constexpr int lowest = std::numeric_limits<T>::min(), highest = std::numeric_limits<T>::max();
  const int edges[] = {-2147483647 - 1, -65536,      -32769, lowest - 1, lowest, -1,        0, 1,
                       highest,         highest + 1, 32768,  65535,      65536,  2147483647};
  k::Vec<weft::i32, N> x{};
  for (int i = 0; i < N; ++i) x[i] = i % 3 == 0 ? edges[i / 3 % std::size(edges)] : lowest + i;
  const auto bytes = k::saturated<T>(x);
  for (int i = 0; i < N; ++i) CHECK(int(bytes[i]) == std::clamp(int(x[i]), lowest, highest));
}

TEST_CASE("kernel vectors: integers saturate to bytes and keep their order") {
  check_saturated<u8, 8>(), check_saturated<u8, 16>(), check_saturated<u8, 32>(), check_saturated<u8, 64>();
  check_saturated<weft::i8, 8>(), check_saturated<weft::i8, 16>(), check_saturated<weft::i8, 32>();
  check_saturated<weft::i8, 64>();
}

TEST_CASE("kernel vectors: bytes of a table of 256") {
  check_tables<u8>();
  check_tables<weft::i8>();
}
