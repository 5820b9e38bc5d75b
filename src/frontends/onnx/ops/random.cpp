// SPDX-License-Identifier: Apache-2.0
// Random operators. Their numbers are Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy
// as 1, 2, 3", SC 2011): a function of a counter and a key, written with plain elementwise instructions, so that every
// target gives the same. The counter of an element is its place, the operator's number in the model and the trip of the
// loop around it; the key is the operator's seed, or the run's (base/random.h).
#include <bit>
#include <cmath>

#include "base/random.h"
#include "frontends/common/selection.h"
#include "frontends/onnx/import/expr.h"
#include "frontends/onnx/import/importer.h"
#include "ir/core_ops.h"
#include "ops/reduce.h"

namespace weft::onnx {
namespace {

constexpr double low_word = 0xffffffff;

Expr right(Expr x, double bits) { return apply(Fn::shift_right, x, like(x, bits)); }
Expr low(Expr x) { return apply(Fn::bit_and, x, like(x, low_word)); }
Expr operator^(Expr x, Expr y) { return apply(Fn::bit_xor, x, y); }
Expr word(Call& c, double value) { return number(c, DType::u64, value); }

/// Four words of 32 random bits for each element, each in a u64.
struct Words {
  Expr a, b, c, d;
};

/// One round's keys follow from the one before by adding a constant, modulo 2^32.
struct Key {
  Expr low, high;
  Key next() const { return {onnx::low(low + 0x9e3779b9), onnx::low(high + 0xbb67ae85)}; }
};

Words round(const Words& x, const Key& key) {
  Expr p = x.a * 0xd2511f53, q = x.c * 0xcd9e8d57;
  return {right(q, 32) ^ x.b ^ key.low, low(q), right(p, 32) ^ x.d ^ key.high, low(p)};
}

/// A size as a scalar of u64.
Expr as_word(Call& c, const Dim& size) { return scalar(c, size, DType::u64); }

Key key_of(Call& c) {
  if (c.has("seed")) {
    bool is_whole = c.node().op_type == "Dropout";
    auto seed = is_whole ? static_cast<uint64_t>(c.integer("seed"))
                         : std::bit_cast<uint32_t>(static_cast<float>(c.number("seed")));
    return {word(c, static_cast<double>(seed & 0xffffffff)), word(c, static_cast<double>(seed >> 32))};
  }
  Symbol symbol{.name = std::string(run_seed), .max = int64_t{1} << 62};
  Expr seed = as_word(c, c.program().symbol(symbol));
  return {low(seed), right(seed, 32)};
}

/// Random words for `count` elements in a row.
Words random_words(Call& c, const Dim& count) {
  Expr place = iota(c, count, DType::u64);
  Expr stream = word(c, static_cast<double>(c.importer().next_stream())), trip = low(as_word(c, c.body().trip));
  Words words{low(place), right(place, 32), broadcast(stream, {count}), broadcast(trip, {count})};
  Key key = key_of(c);
  for (int i = 0; i < 10; ++i, key = key.next()) words = round(words, key);
  return words;
}

/// Whole numbers below 2^`bits` of two words, as `type`.
Expr top_bits(Expr high, Expr lower, int bits, DType type) {
  if (bits <= 32) return convert(right(high, 32 - bits), type);
  return convert(right(high, 5) * 0x4000000 + right(lower, 6), type);
}

/// The type in which random numbers of `type` are computed, and the bits of one.
DType computed_type(DType type) { return type == DType::f64 ? DType::f64 : DType::f32; }
int random_bits(DType type) { return type == DType::f64 ? 53 : type == DType::f16 ? 11 : type == DType::bf16 ? 8 : 24; }

/// Numbers in [0, 1): all multiples of 2^-bits are equally likely.
Expr uniform(Call& c, DType type, const Dims& dims) {
  Words words = random_words(c, product(dims));
  int bits = random_bits(type);
  return reshape(top_bits(words.a, words.b, bits, computed_type(type)) * std::ldexp(1, -bits), dims);
}

/// Normally distributed numbers (Box and Muller, 1958).
Expr normal(Call& c, DType type, const Dims& dims) {
  Words words = random_words(c, product(dims));
  int bits = type == DType::f64 ? 53 : 24;
  DType computed = computed_type(type);
  double unit = std::ldexp(1, -bits);
  Expr radius = sqrt(log((top_bits(words.a, words.b, bits, computed) + 1.0) * unit) * -2.0);
  return reshape(radius * cos(top_bits(words.c, words.d, bits, computed) * (2 * M_PI * unit)), dims);
}

DType float_type(Call& c, DType type) {
  if (!is_float(type) || bits(type) < 16) c.fail("E141", cat("gives floating-point numbers, not ", type));
  return type;
}

Expr random_uniform(Call& c, DType type, const Dims& dims) {
  double least = c.number("low", 0), most = c.number("high", 1);
  return convert(uniform(c, float_type(c, type), dims) * (most - least) + least, type);
}

Expr random_normal(Call& c, DType type, const Dims& dims) {
  double mean = c.number("mean", 0), scale = c.number("scale", 1);
  return convert(normal(c, float_type(c, type), dims) * scale + mean, type);
}

Dims shape_attribute(Call& c) {
  Dims dims;
  for (int64_t size : c.integers("shape")) {
    if (size < 0) c.fail("E150", cat("has size ", size, " in its shape"));
    dims.push_back(size);
  }
  if (!c.has("shape")) c.fail("E142", "needs attribute 'shape'");
  return dims;
}

/// The type of a result that follows its input unless the node says otherwise.
DType type_like(Call& c) {
  DType own = is_float(c.dtype(0)) ? c.dtype(0) : DType::f32;
  return c.element("dtype", own);
}

Values bernoulli(Call& c) {
  Expr p = arg(c, 0);
  DType type = c.element("dtype", p.dtype());
  return {convert(uniform(c, p.dtype(), p.dims()) < convert(p, computed_type(p.dtype())), type)};
}

/// Chooses the class whose interval of the running sums of shares holds a uniform number.
Values multinomial(Call& c) {
  Expr x = arg(c, 0);
  if (x.rank() != 2) c.fail("E140", cat("needs x[batch, classes], has ", x.value.type()));
  DType type = c.element("dtype", DType::i32);
  Dim batch = x.dims()[0], classes = x.dims()[1], samples = c.integer("sample_size", 1);
  x = convert(x, computed_type(x.dtype()));
  Expr shares{&c, c.emit(Softmax{.axis = 1}, {x})};
  Expr sums = running(ReduceFn::sum, shares, 1);
  Expr at = reshape(uniform(c, x.dtype(), {batch, samples}), {batch, samples, 1});
  Expr below = convert(reshape(sums, {batch, 1, classes}) <= at, DType::i64);
  Expr found = reduce(ReduceFn::sum, below, {2}, false);
  Expr last = scalar(c, classes - 1);
  return {convert(min(found, last), type)};
}

// --- Dropout ---------------------------------------------------------------------------------------------------------

Expr dropout_ratio(Call& c, DType type) {
  if (!c.has_input(1)) return number(c, type, c.opset() < 12 ? c.number("ratio", 0.5) : 0.5);
  return convert(reshape(arg(c, 1), {}), type);
}

/// In training some elements become 0, and the others are scaled up to keep the mean; otherwise the input itself.
Values dropout(Call& c) {
  Expr x = arg(c, 0);
  DType mask_type = c.opset() < 10 ? x.dtype() : DType::boolean;
  auto trains = c.has_input(2) ? known_contents(c.input(2)) : std::optional(Dims{0});
  if (trains && trains->at(0).is_constant() && trains->at(0).value() == 0) {
    c.ignore("ratio"), c.ignore("seed"), c.ignore("is_test");
    return {x, full(c, mask_type, x.dims(), 1)};
  }
  DType type = computed_type(x.dtype());
  Expr ratio = dropout_ratio(c, type);
  Expr kept = uniform(c, x.dtype(), x.dims()) >= ratio;
  if (!trains) kept = kept | !reshape(arg(c, 2), {});
  Expr scale = reciprocal(1.0 - ratio);
  if (!trains) scale = select(reshape(arg(c, 2), {}), scale, 1);
  Expr y = convert(select(kept, convert(x, type) * scale, 0), x.dtype());
  return {y, convert(kept, mask_type)};
}

constexpr Operator table[] = {
    {"", "Bernoulli", bernoulli},
    {"", "Dropout", dropout},
    {"", "Multinomial", multinomial},
    {"", "RandomNormal",
     [](Call& c) -> Values { return {random_normal(c, c.element("dtype", DType::f32), shape_attribute(c))}; }},
    {"", "RandomNormalLike", [](Call& c) -> Values { return {random_normal(c, type_like(c), c.input(0).dims())}; }},
    {"", "RandomUniform",
     [](Call& c) -> Values { return {random_uniform(c, c.element("dtype", DType::f32), shape_attribute(c))}; }},
    {"", "RandomUniformLike", [](Call& c) -> Values { return {random_uniform(c, type_like(c), c.input(0).dims())}; }},
};

}  // namespace

std::span<const Operator> random_operators() { return table; }

}  // namespace weft::onnx
