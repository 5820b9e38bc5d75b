// SPDX-License-Identifier: Apache-2.0
/// The CPU attention, compared with plain loops: shared heads, causal and windowed ranges, masks, odd sizes, 16-bit
/// storage.
#include "kernels/attention.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "todays.h"

using namespace weft::kernel;
namespace tasks = weft::tasks;
using weft::i64;

namespace {

constexpr f32 infinite = std::numeric_limits<f32>::infinity();

template <class T>
std::vector<T> random_values(i64 count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<T> v(static_cast<size_t>(count));
  for (T& x : v) x = convert<T>(static_cast<f32>(static_cast<int>(random() % 255) - 127) / 64);
  return v;
}

double wide(f32 x) { return x; }
double wide(bf16 x) { return convert<f32>(x); }
double wide(f16 x) { return static_cast<f32>(x); }

enum class Mask { none, causal, window, bias, hidden, sink };

struct Case {
  i64 batch, heads, kv_heads, queries, keys, d, dv;
};

bool is_seen(const Case& c, Mask mask, i64 query, i64 key) {
  const i64 last = query + c.keys - c.queries;
  if (mask == Mask::causal) return key <= last;
  if (mask == Mask::window) return key <= last && key + 5 > last;
  return true;
}

double plain_bias(Mask mask, i64 query, i64 key) {
  if (mask == Mask::hidden) return key % 3 == 0 ? -infinite : 0;
  return mask == Mask::bias ? static_cast<double>((query * 7 + key * 3) % 11) / 4 : 0;
}

f32 sink_of(Mask mask, i64 head) { return mask == Mask::sink ? 2.5f - static_cast<f32>(head) : -infinite; }

/// Returns the largest difference from attention computed by its definition. Operands are laid out [batch, row, head,
/// d], as projections write them.
template <class T, class Mac = MacF32, GemmTile tile = native_tile>
double worst_error(const Case& c, Mask mask) {
  const auto q = random_values<T>(c.batch * c.queries * c.heads * c.d, 1);
  const auto k = random_values<T>(c.batch * c.keys * c.kv_heads * c.d, 2),
             v = random_values<T>(c.batch * c.keys * c.kv_heads * c.dv, 3);
  const AttentionSizes s{.batch = c.batch,
                         .heads = c.heads,
                         .kv_heads = c.kv_heads,
                         .queries = c.queries,
                         .keys = c.keys,
                         .d = c.d,
                         .dv = c.dv,
                         .q = {c.queries * c.heads * c.d, c.d, c.heads * c.d},
                         .k = {c.keys * c.kv_heads * c.d, c.d, c.kv_heads * c.d},
                         .v = {c.keys * c.kv_heads * c.dv, c.dv, c.kv_heads * c.dv}};
  const auto blocks = tasks::attention_blocks(tile, c.batch, c.kv_heads, c.heads / c.kv_heads * c.queries, c.keys);
  std::vector<f32> scratch(static_cast<size_t>(tasks::attention_scratch_bytes(tile, blocks, c.d, c.dv) / 4), NAN);
  std::vector<f32> y(static_cast<size_t>(c.batch * c.queries * c.heads * c.dv), -99.f);
  const weft::LaunchArgs args{.scratch = scratch.data()};
  for (i64 part = 0; part < 2; ++part) {
    attention<Mac, tile>(
        Launch<>{&args, part * (blocks.tasks / 2), part ? blocks.tasks : blocks.tasks / 2}, s, q.data(), k.data(),
        v.data(),
        [&](i64, i64 head, i64 query) {
          const i64 last = query + c.keys - c.queries;
          if (mask == Mask::causal) return KeyRange{0, last + 1};
          return mask == Mask::window ? KeyRange{last - 4, last + 1} : KeyRange{0, c.keys, sink_of(mask, head)};
        },
        [&](i64, i64, i64 query, i64 key, auto raw, auto lanes) {
          for (int i = 0; i < valid_lanes(lanes, tile.lanes); ++i) {
            raw[i] = raw[i] * 0.25f + static_cast<f32>(plain_bias(mask, query, key + i));
          }
          return raw;
        },
        [&](i64 batch, i64 head, i64 query, i64 col, auto value, auto lanes) {
          store(y.data() + ((batch * c.queries + query) * c.heads + head) * c.dv + col, value, lanes);
        });
  }
  double worst = 0;
  std::vector<double> p(static_cast<size_t>(c.keys));
  for (i64 at = 0; at < c.batch * c.heads * c.queries; ++at) {
    const i64 query = at % c.queries, head = at / c.queries % c.heads, batch = at / c.queries / c.heads;
    const i64 kv = head / (c.heads / c.kv_heads);
    double top = sink_of(mask, head), sum = 0;
    for (i64 key = 0; key < c.keys; ++key) {
      double dot = 0;
      for (i64 i = 0; i < c.d; ++i) {
        dot += wide(q[static_cast<size_t>(((batch * c.queries + query) * c.heads + head) * c.d + i)]) *
               wide(k[static_cast<size_t>(((batch * c.keys + key) * c.kv_heads + kv) * c.d + i)]);
      }
      p[static_cast<size_t>(key)] =
          is_seen(c, mask, query, key) ? dot * 0.25 + plain_bias(mask, query, key) : -infinite;
      top = std::max(top, p[static_cast<size_t>(key)]);
    }
    if (mask == Mask::sink) sum = std::exp(sink_of(mask, head) - top);
    for (double& x : p) sum += x = std::exp(x - top);
    for (i64 col = 0; col < c.dv; ++col) {
      double expected = 0;
      for (i64 key = 0; key < c.keys; ++key) {
        expected += p[static_cast<size_t>(key)] / sum *
                    wide(v[static_cast<size_t>(((batch * c.keys + key) * c.kv_heads + kv) * c.dv + col)]);
      }
      const double got = y[static_cast<size_t>(((batch * c.queries + query) * c.heads + head) * c.dv + col)];
      if (!(std::abs(got - expected) <= worst)) worst = std::isnan(got) ? 1e9 : std::abs(got - expected);
    }
  }
  return worst;
}

const Case cases[] = {
    {1, 1, 1, 1, 1, 1, 1},    {2, 3, 3, 5, 7, 8, 8},       {1, 2, 2, 17, 17, 64, 64},    {1, 4, 2, 9, 30, 20, 12},
    {2, 8, 2, 1, 77, 64, 64}, {1, 2, 1, 130, 300, 33, 17}, {1, 1, 1, 150, 600, 64, 5},   {1, 3, 1, 3, 520, 16, 40},
    {0, 2, 2, 4, 4, 8, 8},    {1, 2, 2, 0, 4, 8, 8},       {1, 1, 1, 40, 256, 128, 128},
};

}  // namespace

TEST_CASE("attention f32") {
  for (const Case& c : weft::test::todays(cases)) {
    CAPTURE(c.heads);
    CAPTURE(c.queries);
    CAPTURE(c.keys);
    for (const Mask mask : {Mask::none, Mask::causal, Mask::window, Mask::bias, Mask::sink}) {
      CAPTURE(static_cast<int>(mask));
      CHECK(worst_error<f32>(c, mask) < 1e-5);
    }
    if (c.keys > 1) CHECK(worst_error<f32>(c, Mask::hidden) < 1e-5);
  }
}

TEST_CASE("attention with 16-bit storage") {
  for (const Case& c : weft::test::todays(cases)) {
    CHECK(worst_error<bf16>(c, Mask::causal) < 1e-5);
    CHECK(worst_error<f16>(c, Mask::bias) < 1e-5);
  }
}

#if defined(__AVX512BF16__)
TEST_CASE("attention with products of bf16") {
  constexpr double bound = 3 * 0x1p-9;  // exponentials are rounded to bf16, and no value exceeds 2
  for (const Case& c : cases) {
    for (const Mask mask : {Mask::none, Mask::causal, Mask::window, Mask::bias, Mask::sink}) {
      CAPTURE(static_cast<int>(mask));
      CHECK(worst_error<bf16, MacBf16>(c, mask) < bound);
#if defined(__AMX_TILE__)
      CHECK(worst_error<bf16, MacBf16, tasks::amx_tile>(c, mask) < bound);
#endif
    }
  }
}
#endif

TEST_CASE("attention without keys gives zeros, with all keys hidden zeros or NaN") {
  const AttentionSizes s{.queries = 2, .keys = 0, .d = 4, .dv = 4, .q = {8, 8, 4}, .k = {0, 0, 4}, .v = {0, 0, 4}};
  std::vector<f32> q(8, 1.f), k(16, 1.f), y(8, 5.f);
  const auto run = [&]<bool nan_rows>(const AttentionSizes& sizes, f32 mask) {
    const auto blocks = tasks::attention_blocks(native_tile, 1, 1, 2, sizes.keys);
    std::vector<f32> scratch(static_cast<size_t>(tasks::attention_scratch_bytes(native_tile, blocks, 4, 4) / 4), NAN);
    const weft::LaunchArgs args{.scratch = scratch.data()};
    attention<MacF32, native_tile, nan_rows>(
        Launch<>{&args, 0, blocks.tasks}, sizes, q.data(), k.data(), k.data(),
        [&](i64, i64, i64) { return KeyRange{0, sizes.keys}; },
        [&](i64, i64, i64, i64, auto raw, auto) { return raw + mask; },
        [&](i64, i64, i64 query, i64 col, auto value, auto lanes) { store(y.data() + query * 4 + col, value, lanes); });
    return y[0];
  };
  CHECK(run.operator()<true>(s, 0) == 0);
  AttentionSizes four = s;
  four.keys = 4;
  CHECK(run.operator()<true>(four, 0) == 1);
  CHECK(std::isnan(run.operator()<true>(four, -infinite)));
  CHECK(run.operator()<false>(four, -infinite) == 0);
}
