// SPDX-License-Identifier: Apache-2.0
#include "ops/interval.h"

#include <cmath>
#include <span>

#include "ir/core_ops.h"
#include "ops/dot.h"
#include "ops/elementwise.h"
#include "ops/quantize.h"
#include "ops/views.h"

namespace weft {
namespace {

Interval of_type(DType type) {
  int width = bits(type);
  if (!is_integer(type)) return {};
  if (is_signed_integer(type)) return {-std::ldexp(1, width - 1), std::ldexp(1, width - 1) - 1};
  return {0, std::ldexp(1, width) - 1};
}

/// Returns the smallest interval that contains 0 and these f64 numbers; unbounded if a number is not finite.
Interval of_numbers(std::span<const double> numbers) {
  Interval all{0, 0};
  for (double x : numbers) all = std::isfinite(x) ? Interval{std::min(all.low, x), std::max(all.high, x)} : Interval();
  return all;
}

Interval within(const Interval& a, const Interval& b) {
  return {std::clamp(a.low, b.low, b.high), std::clamp(a.high, b.low, b.high)};
}

bool is_view(const Instruction& i) {
  return i.is<Reshape>() || i.is<Transpose>() || i.is<Broadcast>() || i.is<Slice>();
}

/// True for max pooling if each window is known to contain a pixel, so that each result is an element of the input.
bool picks_elements(const Instruction& i) {
  const auto* op = i.as<Pool>();
  if (!op || op->fn != PoolFn::max || op->round_up) return false;
  auto is_small = [](const Dims& pads, const std::vector<int64_t>& kernel) {
    for (size_t axis = 0; axis < pads.size(); ++axis) {
      if (pads[axis].upper_bound() >= kernel[axis]) return false;
    }
    return true;
  };
  bool is_plain = std::ranges::all_of(op->dilations, [](int64_t dilation) { return dilation == 1; });
  return is_plain && is_small(op->pads_begin, op->kernel) && is_small(op->pads_end, op->kernel);
}

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

/// Returns the function that computes bounds of fn's result from bounds of its operands; null if there is none.
auto bound_of(Fn fn) -> Interval (*)(const Interval&, const Interval&) {
  using I = const Interval&;
  switch (fn) {
    case Fn::min: return [](I a, I b) { return Interval{std::min(a.low, b.low), std::min(a.high, b.high)}; };
    case Fn::max: return [](I a, I b) { return Interval{std::max(a.low, b.low), std::max(a.high, b.high)}; };
    case Fn::relu: return [](I a, I) { return Interval{std::max(a.low, 0.0), std::max(a.high, 0.0)}; };
    case Fn::add: return [](I a, I b) { return Interval{a.low + b.low, a.high + b.high}; };
    case Fn::sub: return [](I a, I b) { return Interval{a.low - b.high, a.high - b.low}; };
    case Fn::mul: return [](I a, I b) { return Interval{-a.size() * b.size(), a.size() * b.size()}; };
    default: return nullptr;
  }
}

}  // namespace

Interval interval_of(Value value, int depth) {
  const Instruction& i = *value.def;
  Interval type = of_type(value.dtype());
  if (const auto* constant = i.as<Constant>()) {
    auto number = splat_value(constant->tensor);
    if (number && !std::isnan(*number)) return {*number, *number};
    return value.dtype() == DType::f64 ? of_numbers(constant->tensor.as<double>()) : type;
  }
  if (depth == 0) return type;
  auto operand = [&](size_t at) { return interval_of(i.inputs[at], depth - 1); };
  if (is_view(i) || (value.index == 0 && picks_elements(i))) return operand(0);
  if (i.is<Pad>() && i.as<Pad>()->mode == PadMode::constant) {
    Interval x = operand(0), outside = operand(1);
    return {std::min(x.low, outside.low), std::max(x.high, outside.high)};
  }
  if (i.is<Convert>()) {  // NaN becomes the integer 0, and integers that do not fit wrap
    Interval x = operand(0), kept = within(x, type);
    bool wraps = is_integer(i.inputs[0].dtype()) && (x.low < type.low || x.high > type.high);
    return wraps ? type : Interval{std::min(kept.low, 0.0), std::max(kept.high, 0.0)};
  }
  if (i.is<Nearest>()) return {operand(1).low, operand(2).high};
  const auto* op = i.as<Elementwise>();
  bool is_rounded = is_float(value.dtype()) && value.dtype() != DType::f64;
  const auto bound = op && !(is_rounded && (op->fn == Fn::add || op->fn == Fn::mul)) ? bound_of(op->fn) : nullptr;
  if (!bound) return type;
  Interval a = operand(0), b = operand(i.inputs.size() - 1), result = bound(a, b);
  bool is_number = value.dtype() != DType::f64 || std::isfinite(a.size() + b.size());
  return is_number && result.low >= type.low && result.high <= type.high ? result : type;  // else may be NaN or wrap
}

WeightBounds weight_bounds(Value weight) {
  const Dims& dims = weight.dims();
  const auto* constant = weight.def->as<Constant>();
  if (constant && all_constant(dims) && weight.dtype() == DType::i8)
    return bounds_of(constant->tensor.as<int8_t>(), dims[0].value());
  double element = interval_of(weight).size();
  return {element, static_cast<double>(product({dims.begin() + 1, dims.end()}).upper_bound()) * element};
}

}  // namespace weft
