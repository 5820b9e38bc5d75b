// SPDX-License-Identifier: Apache-2.0
// Results of operators against values computed by hand.
#include <doctest/doctest.h>

#include <cmath>

#include "base/error.h"
#include "ir/text.h"
#include "ops/build.h"
#include "ops/indexed.h"
#include "ops/quantize.h"
#include "ops/registry.h"
#include "ops/wide.h"

using namespace weft;

namespace {

using Ints = std::vector<int64_t>;
using Reals = std::vector<double>;

Wide real(Ints dims, Reals values, DType type = DType::f32) { return make_wide(type, dims, std::move(values)); }
Wide integer(Ints dims, Ints values, DType type = DType::i64) { return make_wide(type, dims, std::move(values)); }
Wide counted(Ints dims) {
  Reals values(static_cast<size_t>(product_of(dims)));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i);
  return real(dims, values);
}

/// Evaluates an operator, and checks sizes and types against its shape rule.
std::vector<Wide> evaluate(const Op& op, std::vector<Wide> in) {
  Types operands;
  for (const Wide& x : in) operands.push_back(Shape{x.dtype, Dims(x.dims.begin(), x.dims.end())});
  Types expected = op.info().infer(op, operands);
  std::vector<Wide> out = op.info().evaluate(op, in);
  REQUIRE(out.size() == expected.size());
  for (size_t i = 0; i < out.size(); ++i) {
    CHECK(out[i].dims == fixed(expected[i].shape.dims));
    CHECK(out[i].dtype == expected[i].shape.dtype);
    CHECK(out[i].is_real() == is_float(out[i].dtype));
  }
  return out;
}
Reals reals(const Op& op, std::vector<Wide> in) { return *evaluate(op, std::move(in))[0].reals; }
Ints integers(const Op& op, std::vector<Wide> in) { return *evaluate(op, std::move(in))[0].integers; }

Ints combined(Fn fn, DType type, Ints x, Ints y) {
  auto size = static_cast<int64_t>(x.size());
  return integers(Elementwise{.fn = fn}, {integer({size}, std::move(x), type), integer({size}, std::move(y), type)});
}

}  // namespace

TEST_CASE("integer arithmetic wraps as its type does and never traps") {
  CHECK(combined(Fn::add, DType::i8, {127, -128}, {1, -1}) == Ints{-128, 127});
  CHECK(combined(Fn::sub, DType::u8, {0, 5}, {1, 6}) == Ints{255, 255});
  CHECK(combined(Fn::mul, DType::i32, {1 << 30, 3}, {4, -5}) == Ints{0, -15});
  CHECK(combined(Fn::div, DType::i64, {7, -7, 7, INT64_MIN, 5}, {2, 2, -2, -1, 0}) == Ints{3, -3, -3, INT64_MIN, 0});
  CHECK(combined(Fn::div, DType::i32, {INT32_MIN}, {-1}) == Ints{INT32_MIN});
  CHECK(combined(Fn::div, DType::u64, {-2}, {2}) == Ints{INT64_MAX});
  CHECK(combined(Fn::floor_mod, DType::i64, {7, -7, 7, -7, 3}, {3, 3, -3, -3, 0}) == Ints{1, 2, -2, -1, 0});
  CHECK(combined(Fn::fmod, DType::i64, {7, -7, 7, -7, INT64_MIN}, {3, 3, -3, -3, -1}) == Ints{1, -1, 1, -1, 0});
  CHECK(combined(Fn::shift_left, DType::u8, {1, 1, 255}, {7, 8, 64}) == Ints{128, 0, 0});
  CHECK(combined(Fn::shift_right, DType::u32, {-1 & 0xffffffff, 8}, {31, 32}) == Ints{1, 0});
  CHECK(combined(Fn::max, DType::u64, {-1, 3}, {5, 4}) == Ints{-1, 4});
  CHECK(combined(Fn::less, DType::u64, {-1, 3}, {5, 4}) == Ints{0, 1});
  CHECK(integers(Elementwise{.fn = Fn::bit_not}, {integer({1}, {1}, DType::u8)}) == Ints{254});
  CHECK(integers(Elementwise{.fn = Fn::neg}, {integer({1}, {-128}, DType::i8)}) == Ints{-128});
}

TEST_CASE("real functions keep NaN, signed zeros and halves") {
  Wide x = real({6}, {-0.0, NAN, 2.5, -2.5, 3.5, INFINITY});
  Reals rounded = reals(Elementwise{.fn = Fn::round}, {x});
  CHECK(std::signbit(rounded[0]));
  CHECK(std::isnan(rounded[1]));
  CHECK(Reals(rounded.begin() + 2, rounded.end()) == Reals{2, -2, 4, INFINITY});
  CHECK(std::isnan(reals(Elementwise{.fn = Fn::relu}, {x})[1]));
  Wide one = real({6}, {1, 1, 1, 1, 1, 1});
  for (Fn fn : {Fn::min, Fn::max}) {
    CHECK(std::isnan(reals(Elementwise{.fn = fn}, {x, one})[1]));
    CHECK(std::isnan(reals(Elementwise{.fn = fn}, {one, x})[1]));
  }
  CHECK(reals(Elementwise{.fn = Fn::floor_mod}, {real({2}, {-1, 5.5}), real({2}, {3, -2})}) == Reals{2, -0.5});
  CHECK(reals(Elementwise{.fn = Fn::sigmoid}, {real({2}, {-1000, 1000})}) == Reals{0, 1});
  CHECK(reals(Elementwise{.fn = Fn::select},
              {integer({2}, {1, 0}, DType::boolean), real({2}, {1, 2}), real({2}, {3, 4})}) == Reals{1, 4});
}

TEST_CASE("nearest rounds halves to even, clamps, and gives 0 for NaN") {
  Wide x = real({7}, {2.5, 3.5, -0.5, 1e300, -INFINITY, NAN, -7.6}, DType::f64);
  Wide low = integer({7}, Ints(7, -5), DType::i32), high = integer({7}, Ints(7, 250), DType::i32);
  CHECK(integers(Nearest{.to = DType::i16}, {x, low, high}) == Ints{2, 4, 0, 250, -5, 0, -5});
  Wide guess = real({7}, Reals(7, 100));
  CHECK(integers(Nearest{.to = DType::i16}, {x, low, high, guess, guess}) == Ints{2, 4, 0, 250, -5, 0, -5});
  CHECK_THROWS_AS(evaluate(Nearest{.to = DType::f32}, {x, low, high}), Error);
  CHECK_THROWS_AS(evaluate(Nearest{.to = DType::u8}, {x, low, x}), Error);
}

TEST_CASE("conversions") {
  Wide x = real({6}, {1.9, -1.9, 300, -300, NAN, INFINITY});
  CHECK(integers(Convert{.to = DType::i8}, {x}) == Ints{1, -1, 127, -128, 0, 127});
  CHECK(integers(Convert{.to = DType::u8}, {x}) == Ints{1, 0, 255, 0, 0, 255});
  CHECK(integers(Convert{.to = DType::i64}, {x}) == Ints{1, -1, 300, -300, 0, INT64_MAX});
  CHECK(integers(Convert{.to = DType::boolean}, {real({3}, {0, -0.0, 0.1})}) == Ints{0, 0, 1});
  CHECK(integers(Convert{.to = DType::i8}, {integer({2}, {200, -129})}) == Ints{-56, 127});
  CHECK(reals(Convert{.to = DType::f32}, {real({1}, {1.0 / 3}, DType::f64)}) == Reals{1.0f / 3.0f});
  CHECK(reals(Convert{.to = DType::f16}, {real({2}, {1e5, 1 + 0x1p-12})}) == Reals{INFINITY, 1});
  CHECK(reals(Convert{.to = DType::f8e4m3fn}, {real({2}, {1000, 17})}) == Reals{448, 16});
  CHECK(std::isnan(reals(Convert{.to = DType::f8e4m3fn, .saturate = false}, {real({1}, {1000})})[0]));
  CHECK(reals(Convert{.to = DType::f32}, {integer({1}, {-1}, DType::u64)}) == Reals{0x1p64});
  CHECK(integers(Bitcast{.to = DType::i32}, {real({1}, {1})}) == Ints{0x3f800000});
}

TEST_CASE("views") {
  Wide x = counted({2, 3});
  CHECK(reals(Transpose{.permutation = {1, 0}}, {x}) == Reals{0, 3, 1, 4, 2, 5});
  CHECK(reals(Broadcast{.dims = {2, 2, 3}}, {x}) == Reals{0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5});
  CHECK(reals(Broadcast{.dims = {2, 2}}, {real({2, 1}, {1, 2})}) == Reals{1, 1, 2, 2});
  CHECK(reals(Slice{.starts = {1, 2}, .sizes = {1, 2}, .steps = {1, -2}}, {x}) == Reals{5, 3});
  CHECK(reals(Slice{.starts = {0, 0}, .sizes = {0, 3}, .steps = {1, 1}}, {x}).empty());
  CHECK(reals(Concat{.axis = 1}, {x, counted({2, 1})}) == Reals{0, 1, 2, 0, 3, 4, 5, 1});
  Wide row = counted({4}), fill = real({}, {9});
  CHECK(reals(Pad{.before = {1}, .after = {2}}, {row, fill}) == Reals{9, 0, 1, 2, 3, 9, 9});
  CHECK(reals(Pad{.before = {-1}, .after = {-1}}, {row, fill}) == Reals{1, 2});
  CHECK(reals(Pad{.before = {2}, .after = {2}, .mode = PadMode::reflect}, {row}) == Reals{2, 1, 0, 1, 2, 3, 2, 1});
  CHECK(reals(Pad{.before = {2}, .after = {1}, .mode = PadMode::edge}, {row}) == Reals{0, 0, 0, 1, 2, 3, 3});
  CHECK(reals(Pad{.before = {2}, .after = {1}, .mode = PadMode::wrap}, {row}) == Reals{2, 3, 0, 1, 2, 3, 0});
}

TEST_CASE("reductions") {
  Wide x = counted({2, 3});
  CHECK(reals(Reduce{.fn = ReduceFn::sum, .axes = {1}}, {x}) == Reals{3, 12});
  CHECK(reals(Reduce{.fn = ReduceFn::mean, .axes = {0, 1}, .keep = false}, {x}) == Reals{2.5});
  CHECK(reals(Reduce{.fn = ReduceFn::max, .axes = {0}}, {x}) == Reals{3, 4, 5});
  CHECK(reals(Reduce{.fn = ReduceFn::product, .axes = {}}, {x}) == Reals{0, 1, 2, 3, 4, 5});
  Wide none = real({2, 0}, {});
  CHECK(reals(Reduce{.fn = ReduceFn::sum, .axes = {1}}, {none}) == Reals{0, 0});
  CHECK(reals(Reduce{.fn = ReduceFn::max, .axes = {1}}, {none}) == Reals{-INFINITY, -INFINITY});
  CHECK(std::isnan(reals(Reduce{.fn = ReduceFn::mean, .axes = {1}}, {none})[0]));
  CHECK(integers(Reduce{.fn = ReduceFn::min, .axes = {0}}, {integer({0}, {}, DType::i32)}) == Ints{INT32_MAX});
  Wide ties = real({5}, {1, 3, 3, 1, 2});
  CHECK(integers(ArgReduce{}, {ties}) == Ints{1});
  CHECK(integers(ArgReduce{.last = true}, {ties}) == Ints{2});
  CHECK(integers(ArgReduce{.largest = false, .last = true}, {ties}) == Ints{3});
  CHECK(reals(Scan{}, {ties}) == Reals{1, 4, 7, 8, 10});
  CHECK(reals(Scan{.exclusive = true, .reverse = true}, {ties}) == Reals{9, 6, 3, 2, 0});
  auto top = evaluate(TopK{.k = 3}, {real({5}, {1, 3, 3, NAN, 2})});
  CHECK(*top[1].integers == Ints{3, 1, 2});
  CHECK(*evaluate(TopK{.k = 2, .largest = false}, {ties})[1].integers == Ints{0, 3});
}

TEST_CASE("softmax and normalisation") {
  Reals y = reals(Softmax{.axis = 0}, {real({2}, {1000, 1000})});
  CHECK(y == Reals{0.5, 0.5});
  CHECK(reals(Softmax{.axis = 0, .logarithm = true}, {real({1}, {-5})}) == Reals{0});
  Reals n = reals(Normalize{.axis = 1, .epsilon = 0}, {real({1, 2}, {1, 3})});
  CHECK(n == Reals{-1, 1});
  CHECK(reals(Normalize{.axis = 0, .epsilon = 0, .centred = false}, {real({1, 2}, {3, -3})}) == Reals{1, -1});
}

TEST_CASE("dot") {
  CHECK(reals(Dot{}, {counted({2, 3}), counted({3, 2})}) == Reals{10, 13, 28, 40});
  CHECK(reals(Dot{}, {counted({2, 1, 2}), counted({2, 2, 1})}) == Reals{1, 13});
  CHECK(reals(Dot{}, {real({1, 0}, {}), real({0, 2}, {})}) == Reals{0, 0});
  CHECK(integers(Dot{.type = DType::i32},
                 {integer({1, 2}, {200, 100}, DType::u8), integer({2, 1}, {-3, 2}, DType::i8)}) == Ints{-400});
  // Compares with the definition, at sizes that are not multiples of any block.
  int64_t m = 7, k = 70, n = 261;
  Wide a = counted({m, k}), b = counted({k, n});
  Reals c = reals(Dot{}, {a, b});
  for (int64_t i : {0, 3, 4, 6}) {
    for (int64_t j : {0, 255, 256, 260}) {
      double sum = 0;
      for (int64_t p = 0; p < k; ++p) sum += a.as<double>()[size_t(i * k + p)] * b.as<double>()[size_t(p * n + j)];
      CHECK(c[size_t(i * n + j)] == sum);
    }
  }
}

TEST_CASE("convolution") {
  Convolution plain{.strides = {1}, .dilations = {1}, .pads_begin = {1}, .pads_end = {1}};
  CHECK(reals(plain, {real({1, 1, 4}, {1, 2, 3, 4}), real({1, 1, 3}, {1, 10, 100})}) == Reals{210, 321, 432, 43});
  Convolution grouped{.strides = {2}, .dilations = {1}, .pads_begin = {0}, .pads_end = {0}, .groups = 2};
  CHECK(reals(grouped, {counted({1, 2, 4}), real({2, 1, 2}, {1, 1, 1, -1})}) == Reals{1, 5, -1, -1});
  Convolution up{.strides = {2}, .dilations = {1}, .pads_begin = {0}, .pads_end = {0}, .transposed = true};
  CHECK(reals(up, {real({1, 1, 2}, {1, 2}), real({1, 1, 3}, {1, 10, 100})}) == Reals{1, 10, 102, 20, 200});
  Convolution wide{.strides = {1, 1}, .dilations = {2, 1}, .pads_begin = {0, 0}, .pads_end = {0, 1}};
  CHECK(reals(wide, {counted({1, 1, 3, 2}), real({1, 1, 2, 2}, {1, 10, 100, 1000})}) == Reals{5410, 501});
  // The input is channels last; weights stay [outputs, inputs, kernel].
  Convolution last{
      .strides = {1}, .dilations = {1}, .pads_begin = {0}, .pads_end = {0}, .layout = Layout::channels_last};
  CHECK(reals(last, {real({1, 2, 2}, {1, 5, 2, 6}), real({1, 2, 2}, {1, 1, 10, 10})}) == Reals{113});
}

TEST_CASE("pooling") {
  Pool pool{.kernel = {2}, .strides = {2}, .dilations = {1}, .pads_begin = {0}, .pads_end = {0}, .indices = true};
  Wide x = real({1, 2, 5}, {1, 3, 3, 2, 9, -1, -2, -4, -3, -5});
  auto floor = evaluate(pool, {x});
  CHECK(*floor[0].reals == Reals{3, 3, -1, -3});
  CHECK(*floor[1].integers == Ints{1, 2, 5, 8});
  pool.round_up = true;
  CHECK(*evaluate(pool, {x})[0].reals == Reals{3, 3, 9, -1, -3, -5});
  Pool mean{.fn = PoolFn::average, .kernel = {3}, .strides = {2}, .dilations = {1}, .pads_begin = {1}, .pads_end = {1}};
  Wide row = real({1, 1, 4}, {2, 4, 6, 8});
  CHECK(reals(mean, {row}) == Reals{3, 6});
  mean.count_include_pad = true;
  CHECK(reals(mean, {row}) == Reals{2, 6});
  // A partial last window counts its padding but not the positions beyond the padding.
  mean.round_up = true;
  CHECK(reals(mean, {row}) == Reals{2, 6, 4});
  Pool lp{.fn = PoolFn::lp, .kernel = {2}, .strides = {1}, .dilations = {1}, .pads_begin = {0}, .pads_end = {0}};
  CHECK(reals(lp, {real({1, 1, 2}, {3, -4})}) == Reals{5});
}

TEST_CASE("attention") {
  Wide q = real({1, 2, 2, 1}, {0, 0, 0, 0}), k = real({1, 1, 2, 1}, {1, 2}), v = real({1, 1, 2, 1}, {10, 20});
  CHECK(reals(Attention{}, {q, k, v}) == Reals{15, 15, 15, 15});
  CHECK(reals(Attention{.causal = true}, {q, k, v}) == Reals{10, 15, 10, 15});
  CHECK(reals(Attention{.causal = true, .offset = -1}, {q, k, v}) == Reals{0, 10, 0, 10});
  Wide seen = integer({2, 1, 2}, {1, 0, 0, 1}, DType::boolean);
  CHECK(reals(Attention{}, {q, k, v, seen}) == Reals{10, 10, 20, 20});
  Wide added = real({1, 2}, {0, -INFINITY});
  CHECK(reals(Attention{}, {q, k, v, added}) == Reals{10, 10, 10, 10});
  Wide one = real({1, 1, 1, 1}, {1});
  double s = 3 * std::tanh(2 * 2.0 / 3), t = 3 * std::tanh(1 * 2.0 / 3), w = 1 / (1 + std::exp(s - t));
  Wide sinks = real({2}, {0, -INFINITY});  // a sink (an extra key) for each head; -inf: none
  CHECK(reals(Attention{.scale = 5, .sinks = true}, {q, k, v, sinks}) == Reals{10, 10, 15, 15});
  Wide ranges = integer({1, 2, 2}, {1, 2, 1, 1}), hidden = real({1, 2}, {0, 0});
  CHECK(reals(Attention{.ranged = true, .sinks = true}, {q, k, v, hidden, sinks, ranges}) == Reals{10, 0, 20, 0});
  CHECK(reals(Attention{.scale = 2, .softcap = 3}, {one, k, v})[0] == doctest::Approx(w * 10 + (1 - w) * 20));
}

TEST_CASE("gather and scatter") {
  Wide x = counted({3, 2});
  CHECK(reals(Gather{.axis = 0}, {x, integer({2}, {-1, 0})}) == Reals{4, 5, 0, 1});
  CHECK(reals(Gather{.axis = 1}, {x, integer({}, {1})}) == Reals{1, 3, 5});
  CHECK(reals(GatherElements{.axis = 0}, {x, integer({1, 2}, {2, -2})}) == Reals{4, 3});
  CHECK(reals(GatherNd{}, {x, integer({2, 2}, {0, 1, 2, 0})}) == Reals{1, 4});
  CHECK(reals(GatherNd{}, {x, integer({1, 1}, {1})}) == Reals{2, 3});
  CHECK(reals(GatherNd{.batch = 1}, {x, integer({3, 1}, {0, 1, -1})}) == Reals{0, 3, 5});
  CHECK_THROWS_AS(reals(Gather{.axis = 0}, {x, integer({1}, {3})}), Error);
  Wide zeros = real({4}, {1, 1, 1, 1}), twice = integer({2}, {1, 1}), updates = real({2}, {5, 7});
  CHECK(reals(ScatterElements{}, {zeros, twice, updates}) == Reals{1, 7, 1, 1});
  CHECK(reals(ScatterElements{.fn = ScatterFn::add}, {zeros, twice, updates}) == Reals{1, 13, 1, 1});
  CHECK(reals(ScatterElements{.fn = ScatterFn::mul}, {zeros, twice, updates}) == Reals{1, 35, 1, 1});
  CHECK(reals(ScatterNd{.fn = ScatterFn::max}, {x, integer({1, 1}, {2}), real({1, 2}, {0, 9})}) ==
        Reals{0, 1, 2, 3, 4, 9});
  CHECK(integers(Iota{.dims = {2, 2}, .axis = 0}, {}) == Ints{0, 0, 1, 1});
}

TEST_CASE("resize") {
  Wide row = real({1, 2}, {1, 3});
  Resize up{.dims = {1, 4}, .scales = {0, 0}};
  CHECK(reals(up, {row}) == Reals{1, 1, 3, 3});
  up.mode = ResizeMode::linear;
  CHECK(reals(up, {row}) == Reals{1, 1.5, 2.5, 3});
  up.coordinates = ResizeCoordinates::align_corners;
  up.dims = {1, 5};
  CHECK(reals(up, {row}) == Reals{1, 1.5, 2, 2.5, 3});
  Resize half{.dims = {2}, .scales = {0}, .mode = ResizeMode::linear, .antialias = true};
  CHECK(reals(half, {real({4}, {1, 1, 1, 1})}) == Reals{1, 1});
  Resize crop{.dims = {3},
              .scales = {0},
              .mode = ResizeMode::linear,
              .coordinates = ResizeCoordinates::tf_crop_and_resize,
              .extrapolation = 9,
              .roi = {0, 2}};
  CHECK(reals(crop, {real({3}, {1, 2, 3})}) == Reals{1, 3, 9});
  CHECK(reals(Resize{.dims = {0, 4}, .scales = {0, 0}}, {real({0, 2}, {})}) == Reals{});
  CHECK_THROWS_AS(reals(up, {real({1, 0}, {})}), Error);
}

TEST_CASE("quantize and dequantize") {
  Wide scale = real({}, {0.5}), zero = integer({}, {128}, DType::u8);
  CHECK(integers(Quantize{}, {real({5}, {0.25, 0.75, -100, 100, -0.25}), scale, zero}) == Ints{128, 130, 0, 255, 128});
  CHECK(reals(Dequantize{}, {integer({2}, {127, 130}, DType::u8), scale, zero}) == Reals{-0.5, 1});
  Wide x = counted({2, 3}), per_row = real({2}, {1, 0.5});
  CHECK(integers(Quantize{.to = DType::i8, .axis = 0}, {x, per_row}) == Ints{0, 1, 2, 6, 8, 10});
  Wide blocks = real({2, 2}, {1, 0.5, 0.25, 0.5});
  CHECK(integers(Quantize{.to = DType::i4, .axis = 1, .block = 2}, {x, blocks}) == Ints{0, 1, 4, 7, 7, 7});
  CHECK(reals(Quantize{.to = DType::f8e4m3fn, .axis = 0}, {real({1}, {1e6}), real({}, {1})}) == Reals{448});
}

TEST_CASE("tensors of every type pass through the reference unchanged") {
  for (DType type : {DType::boolean,  DType::u2,     DType::u4,  DType::u8,   DType::u16, DType::u32, DType::u64,
                     DType::i2,       DType::i4,     DType::i8,  DType::i16,  DType::i32, DType::i64, DType::f4e2m1,
                     DType::f8e4m3fn, DType::f8e5m2, DType::f16, DType::bf16, DType::f32, DType::f64}) {
    CAPTURE(name(type));
    Tensor tensor = make_tensor(type, {3}, Ints{0, 1, 1});
    CHECK(to_tensor(to_wide(tensor)) == tensor);
  }
}
