// SPDX-License-Identifier: Apache-2.0
#include "lower/winograd.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/knobs.h"
#include "ir/core_ops.h"
#include "lower/lowering.h"
#include "ops/dot.h"
#include "ops/elementwise.h"
#include "ops/views.h"

namespace weft {
namespace {

/// Bounds of the elements of a value.
struct Interval {
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
  double size() const { return std::max(-low, high); }
};

Interval of_type(DType type) {
  int width = bits(type);
  if (!is_integer(type)) return {};
  if (is_signed_integer(type)) return {-std::ldexp(1, width - 1), std::ldexp(1, width - 1) - 1};
  return {0, std::ldexp(1, width) - 1};
}

Interval within(const Interval& a, const Interval& b) {
  return {std::clamp(a.low, b.low, b.high), std::clamp(a.high, b.low, b.high)};
}

bool is_view(const Instruction& i) {
  return i.is<Reshape>() || i.is<Transpose>() || i.is<Broadcast>() || i.is<Slice>();
}

/// What the elements of a value can be, from the few operators that stand between a quantisation and a product.
Interval interval_of(Value value, int depth = 12) {
  const Instruction& i = *value.def;
  Interval type = of_type(value.dtype());
  if (const auto* constant = i.as<Constant>()) {
    auto number = splat_value(constant->tensor);
    return number ? Interval{*number, *number} : type;
  }
  if (depth == 0) return type;
  auto operand = [&](size_t at) { return interval_of(i.inputs[at], depth - 1); };
  if (is_view(i)) return operand(0);
  if (i.is<Convert>()) {  // NaN becomes 0; integers that do not fit wrap
    Interval x = operand(0), kept = within(x, type);
    bool wraps = is_integer(i.inputs[0].dtype()) && (x.low < type.low || x.high > type.high);
    return wraps ? type : Interval{std::min(kept.low, 0.0), std::max(kept.high, 0.0)};
  }
  const auto* op = i.as<Elementwise>();
  if (!op || (op->fn != Fn::min && op->fn != Fn::max && op->fn != Fn::sub)) return type;
  Interval a = operand(0), b = operand(1);
  if (op->fn == Fn::min) return {std::min(a.low, b.low), std::min(a.high, b.high)};
  if (op->fn == Fn::max) return {std::max(a.low, b.low), std::max(a.high, b.high)};
  Interval difference{a.low - b.high, a.high - b.low};
  return difference.low < type.low || difference.high > type.high ? type : difference;
}

/// The greatest weight and the greatest sum of the weights of one output channel, as absolute numbers.
struct WeightBounds {
  double element, output;
};
WeightBounds bounds_of(std::span<const int8_t> weights, size_t outputs) {
  int64_t element = 0, output = 0;
  size_t terms = outputs ? weights.size() / outputs : 0;
  for (size_t at = 0; at < outputs; ++at) {
    int64_t sum = 0;
    for (int8_t weight : weights.subspan(at * terms, terms)) {
      int number = std::abs(static_cast<int>(weight));
      element = std::max<int64_t>(element, number), sum += number;
    }
    output = std::max(output, sum);
  }
  return {static_cast<double>(element), static_cast<double>(output)};
}

/// The weights are [out, in, kernel...]; what is no plain constant is bounded by its type.
WeightBounds weight_bounds(Value weight) {
  const Dims& dims = weight.dims();
  const auto* constant = weight.def->as<Constant>();
  if (constant && all_constant(dims) && weight.dtype() == DType::i8)
    return bounds_of(constant->tensor.as<int8_t>(), static_cast<size_t>(dims[0].value()));
  double element = interval_of(weight).size();
  return {element, static_cast<double>(product({dims.begin() + 1, dims.end()}).upper_bound()) * element};
}

/// A size as estimates take it: symbols count as `guess`, or the nearest that their bounds allow.
double guessed(const Dim& dim, int64_t guess) {
  return static_cast<double>(dim.evaluate(
      [&](const Symbol& symbol) { return std::clamp(guess, symbol.min, std::max(symbol.min, symbol.max)); }));
}

/// The work in multiply-adds of the f32 kernels. Fitted to bench/kernels/winograd.cpp on AVX2: weights of 4 bytes
/// arrive from memory in the time of 10, an element is transformed in that of 10.
struct Estimate {
  double batch, height, width, in, out, weight_cost;

  double direct() const { return 9 * in * out * std::max(batch * height * width, weight_cost); }
  double tiled(int side) const {
    double tiles = batch * std::ceil(height / side) * std::ceil(width / side), positions = (side + 2) * (side + 2);
    return positions * (in * out * std::max(tiles, weight_cost) + 10 * tiles * (in + out));
  }
  double best_tiled() const { return std::min(tiled(2), tiled(4)); }
};

bool all_are(const Dims& dims, int64_t value) {
  return std::ranges::all_of(dims, [&](const Dim& dim) { return known_equal(dim, value); });
}

/// Floats must be f32 on both sides; integers become 16 bits wide with room for what the transforms add.
const char* refused_types(const Mac& direct, const View& x) {
  if (direct.name != "MacF32" && direct.direct != DType::i16) return "it is for f32 and for integers of 16 bits";
  return x.dtype != direct.direct ? "pixels are converted on the way" : nullptr;
}

/// The largest tile that is exact for such integers, 0 if none is (kernels/winograd.h says by how much values grow).
int largest_exact_tile(const Instruction& i) {
  double x = interval_of(i.inputs[0]).size();
  WeightBounds w = weight_bounds(i.inputs[1]);
  constexpr double narrow = 32767;
  if (100 * x <= narrow && 49 * w.element <= narrow && x * w.output < std::ldexp(1, 25)) return 4;
  return 4 * x <= narrow && 9 * w.element <= narrow && x * w.output < std::ldexp(1, 29) ? 2 : 0;
}

}  // namespace

WinogradChoice choose_winograd(const Lowering& lowering, const Instruction& i, const Window& w, const Mac& direct,
                               const View& x) {
  bool is_candidate =
      w.kernel.size() == 2 && all_are(w.kernel, 3) && all_are(w.stride, 1) && all_are(w.dilation, 1) && !w.transposed;
  if (!is_candidate) return {};
  auto no = [](std::string why) { return WinogradChoice{.why = cat("no Winograd: ", why)}; };
  if (!knobs().winograd) return no("WEFT_WINOGRAD is 0");
  if (!lowering.is_load_time(i.inputs[1])) return no("weights are not known before the run");
  if (const char* why = refused_types(direct, x)) return no(why);
  bool is_float = direct.direct == DType::f32;
  if (!is_float && i.inputs.size() > 2) return no("integers are padded with a value that only the run tells");
  Estimate e{guessed(w.batch, 1),        guessed(w.out[0], 512),      guessed(w.out[1], 512),
             guessed(w.channels_in, 64), guessed(w.channels_out, 64), is_float ? 10.0 : 8.0};
  if (e.best_tiled() > 0.9 * e.direct()) return no("transforming would cost more than the products it saves");
  int largest = is_float ? 4 : largest_exact_tile(i);
  if (largest == 0) return no("sums of these integers could leave the bits that stay exact");
  int best = e.tiled(2) < e.tiled(4) || largest == 2 ? 2 : 4;
  double share = e.tiled(best) / e.direct();
  Mac mac =
      is_float ? direct : Mac{"MacInt16<i16>", direct.tile_name, direct.tile, DType::i16, DType::i16, DType::i32, 2};
  return {.out = best,
          .form = cat(is_float ? "WinogradFloat" : "WinogradInt", best),
          .mac = mac,
          .why = cat("Winograd in tiles of ", best, " x ", best, ": ", best == 4 ? "4" : "2.25",
                     " times fewer products, about ", static_cast<int>(std::lround(100 * share)),
                     " % of the direct kernel's time")};
}

}  // namespace weft
