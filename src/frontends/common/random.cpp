// SPDX-License-Identifier: Apache-2.0
#include "frontends/common/random.h"

#include <cmath>

#include "base/random.h"
#include "frontends/common/selection.h"

namespace weft::frontend {
namespace {

Expr right(Expr x, double bits) { return apply(Fn::shift_right, x, like(x, bits)); }
Expr low(Expr x) { return apply(Fn::bit_and, x, like(x, 0xffffffff)); }
Expr operator^(Expr x, Expr y) { return apply(Fn::bit_xor, x, y); }
Expr word(const Builder& b, uint64_t value) { return number(b, DType::u64, static_cast<double>(value)); }

/// Four 32-bit random words for each element, each stored in a u64.
struct Words {
  Expr a, b, c, d;
};

/// Computes one Philox round.
Words round(const Words& x, Expr key_low, Expr key_high) {
  Expr p = x.a * 0xd2511f53, q = x.c * 0xcd9e8d57;
  return {right(q, 32) ^ x.b ^ key_low, low(q), right(p, 32) ^ x.d ^ key_high, low(p)};
}

/// Returns random words for `count` elements. Philox's counter is an element's index, the stream and the loop's trip.
Words random_words(const RandomSource& from, const Dim& count) {
  const Builder& b = *from.low.at;
  Expr place = iota(b, count, DType::u64), stream = word(b, static_cast<uint64_t>(from.stream));
  Expr trip = low(scalar(b, b.body().trip, DType::u64));
  Words words{low(place), right(place, 32), broadcast(stream, {count}), broadcast(trip, {count})};
  Expr key_low = from.low, key_high = from.high;
  for (int i = 0; i < 10; ++i) {
    words = round(words, key_low, key_high);
    key_low = low(key_low + 0x9e3779b9), key_high = low(key_high + 0xbb67ae85);
  }
  return words;
}

/// Returns random integers below 2^`bits` as `type`: from `high`, or for 53 bits from `high` and `lower`.
Expr top_bits(Expr high, Expr lower, int bits, DType type) {
  if (bits <= 32) return convert(right(high, 32 - bits), type);
  return convert(right(high, 5) * 0x4000000 + right(lower, 6), type);
}

}  // namespace

RandomSource random_source(const Builder& b, int64_t stream) {
  Symbol symbol{.name = std::string(run_seed), .max = int64_t{1} << 62};
  Expr seed = scalar(b, b.program().symbol(symbol), DType::u64);
  return {low(seed), right(seed, 32), stream};
}

RandomSource random_source(const Builder& b, int64_t stream, uint64_t seed) {
  return {word(b, seed & 0xffffffff), word(b, seed >> 32), stream};
}

Expr uniform(const RandomSource& from, DType type, const Dims& dims) {
  Words words = random_words(from, product(dims));
  int bits = type == DType::f64 ? 53 : type == DType::f16 ? 11 : type == DType::bf16 ? 8 : 24;
  return reshape(top_bits(words.a, words.b, bits, random_type(type)) * std::ldexp(1, -bits), dims);
}

Expr exponential(const RandomSource& from, DType type, const Dims& dims) {
  return -log1p(-uniform(from, random_type(type), dims));
}

/// Computes normally distributed numbers by the method of Box and Muller, 1958.
Expr normal(const RandomSource& from, DType type, const Dims& dims) {
  Words words = random_words(from, product(dims));
  int bits = type == DType::f64 ? 53 : 24;
  DType computed = random_type(type);
  double unit = std::ldexp(1, -bits);
  Expr radius = sqrt(log((top_bits(words.a, words.b, bits, computed) + 1.0) * unit) * -2.0);
  return reshape(radius * cos(top_bits(words.c, words.d, bits, computed) * (2 * M_PI * unit)), dims);
}

/// Draws a uniform number; returns the first class at which the running sum of `shares` exceeds the number.
Expr drawn(const RandomSource& from, Expr shares, const Dim& samples) {
  Dim batch = shares.dims()[0], classes = shares.dims()[1];
  Expr sums = running(ReduceFn::sum, shares, 1);
  Expr at = reshape(uniform(from, shares.dtype(), {batch, samples}), {batch, samples, 1});
  Expr below = convert(reshape(sums, {batch, 1, classes}) <= at, DType::i64);
  return min(reduce(ReduceFn::sum, below, {2}, false), scalar(*shares.at, classes - 1));
}

/// Returns the classes with the largest weight / (exponentially distributed number): a draw without replacement.
Expr drawn_once(const RandomSource& from, Expr weights, const Dim& samples) {
  return top_k(weights / exponential(from, weights.dtype(), weights.dims()), samples, 1).places;
}

Dropped dropped(const RandomSource& from, Expr x, double share, const Dims& places, bool as_selu) {
  constexpr double selu_least = 1.7580993408473766;
  Expr kept = uniform(from, random_type(x.dtype()), places) < 1 - share, wide = convert(x, random_type(x.dtype()));
  double scale = 1 / (as_selu ? std::sqrt((selu_least * selu_least * share + 1) * (1 - share)) : 1 - share);
  if (share == 1) scale = 0;
  Expr y = wide * select(kept, like(wide, scale), 0);
  double least = selu_least * scale;
  if (as_selu) y = y + select(kept, like(wide, least * share), least * (share - 1));
  return {convert(y, x.dtype()), kept};
}

}  // namespace weft::frontend
