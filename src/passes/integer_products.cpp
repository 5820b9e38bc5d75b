// SPDX-License-Identifier: Apache-2.0
#include "passes/integer_products.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/chip_features.h"
#include "ir/core_ops.h"
#include "ops/build.h"
#include "ops/dot.h"
#include "ops/quantize.h"
#include "ops/wide.h"
#include "passes/axis_numbers.h"
#include "passes/match.h"

namespace weft {
namespace {

/// A value (x - zero) * scale; scale and zero are scalars (axis -1) or lists along an axis of x.
struct Steps {
  Value x, scale, zero;  // zero may be absent
  int64_t axis = -1;
};

/// Returns the axis of a reshape's result with the same size and stride as `axis` of its operand; -1 if there is none.
int64_t reshaped_axis(const Dims& from, const Dims& to, int64_t axis) {
  Dim before = product({from.begin(), from.begin() + axis});
  for (auto at = to.begin(); at != to.end(); ++at) {
    if (known_equal(*at, from[axis]) && known_equal(product({to.begin(), at}), before)) return at - to.begin();
  }
  return -1;
}

/// Maps `axis` of a view's operand to the view's result; returns false if the result has no such axis.
bool follow(int64_t& axis, const Instruction& view) {
  if (axis < 0) return true;
  if (view.is<Broadcast>()) axis += view.types[0].shape.rank() - view.inputs[0].rank();
  else if (const auto* turn = view.as<Transpose>())
    axis = std::ranges::find(turn->permutation, axis) - turn->permutation.begin();
  else axis = reshaped_axis(view.inputs[0].dims(), view.types[0].shape.dims, axis);
  return axis >= 0;
}

/// Applies a view to dequantised values; returns nothing if the scales would then not vary along a single axis.
std::optional<Steps> viewed(Module& module, Steps s, const Instruction& view) {
  if (!follow(s.axis, view)) return std::nullopt;
  s.x = module.append(view.op, {s.x});
  return s;
}

/// Returns the Steps of a value dequantised from a type for which `is_of_type` is true; looks through views.
std::optional<Steps> steps_of(Module& module, Value value, bool (*is_of_type)(DType) = is_byte) {
  Instruction& i = *value.def;
  if (is_view(i)) {
    auto steps = steps_of(module, i.inputs[0], is_of_type);
    return steps ? viewed(module, *steps, i) : std::nullopt;
  }
  const auto* op = i.as<Dequantize>();
  if (!op || op->block > 0 || op->to != DType::f32 || i.inputs[1].dtype() != DType::f32 ||
      !is_of_type(i.inputs[0].dtype()))
    return std::nullopt;
  bool is_scalar = known_equal(i.inputs[1].shape().elements(), 1);
  return Steps{i.inputs[0], i.inputs[1], i.inputs.size() > 2 ? i.inputs[2] : Value{}, is_scalar ? -1 : op->axis};
}

/// Reshapes a list to broadcast along `axis` of a value of this rank. If `axis` is -1, returns a scalar of rank 0.
Value along(Module& module, Value list, int64_t axis, int64_t rank) {
  if (axis < 0) return reshape(module, list, {});
  Dims dims(rank - axis, 1);
  dims[0] = list.dims()[0];
  return reshape(module, list, dims);
}

bool has_zero_point(const Steps& s) { return s.zero && splat_number(s.zero) != 0.0; }

/// Applies the elementwise `change` before the value's transposes and reshapes, so that transposes still cancel.
Value before_views(Module& module, Value value, const std::function<Value(Value)>& change) {
  Instruction& i = *value.def;
  if (!i.is<Transpose>() && !i.is<Reshape>()) return change(value);
  return module.append(i.op, {before_views(module, i.inputs[0], change)});
}

/// Returns x - zero in 16 bits.
Value without_zero(Module& module, const Steps& s) {
  auto zero = has_zero_point(s) ? splat_number(s.zero) : 0.0;
  if (zero) {
    return before_views(module, s.x, [&](Value x) {
      Value wide = convert(module, x, DType::i16);
      return *zero == 0.0 ? wide : apply(module, Fn::sub, wide, *zero);
    });
  }
  Value wide = convert(module, s.x, DType::i16);
  return apply(module, Fn::sub, {wide, along(module, convert(module, s.zero, DType::i16), s.axis, s.x.rank())});
}

/// Inclusive bounds of integers, known from their types or from the elements of constants.
struct StepBounds {
  int64_t low, high;
  int64_t size() const { return std::max(-low, high); }
};

const Tensor* constant_behind(Value value) {
  while (is_view(*value.def)) value = value.def->inputs[0];
  const auto* constant = value.def->as<Constant>();
  return constant ? &constant->tensor : nullptr;
}

StepBounds step_bounds(Value value) {
  StepBounds range{lowest_integer(value.dtype()), highest_integer(value.dtype())};
  const Tensor* known = constant_behind(value);
  if (!known || known->elements() == 0) return range;
  std::vector<int64_t> numbers = to_int64s(*known);
  auto [low, high] = std::ranges::minmax(numbers);
  return {low, high};
}

StepBounds step_bounds(const Steps& s) {
  if (!has_zero_point(s)) return {lowest_integer(s.x.dtype()), highest_integer(s.x.dtype())};
  StepBounds x = step_bounds(s.x), zero = step_bounds(s.zero);
  return {x.low - zero.high, x.high - zero.low};
}

/// Returns x - zero: in 8 bits for constants that fit, which halves the bytes to read; else in 16 bits.
Value as_weight(Module& module, const Steps& s) {
  if (s.x.dtype() == DType::i8 && !has_zero_point(s)) return s.x;
  StepBounds range = step_bounds(s);
  Value wide = without_zero(module, s);
  bool is_narrow = range.low >= -128 && range.high <= 127 && constant_behind(s.x);
  return is_narrow ? convert(module, wide, DType::i8) : wide;
}

/// True if every sum of `count` products fits in i32. A guard may bound the count.
bool fits_i32(const Module& module, const Steps& a, const Steps& b, const Dim& count) {
  int64_t limit = highest_integer(DType::i32) / std::max<int64_t>(step_bounds(a).size() * step_bounds(b).size(), 1);
  auto bounds = [&](const Guard& guard) {
    bool holds_here = guard.module == &module || guard.module == &module.program().main();
    return holds_here && guard.kind == Guard::Kind::less_equal && guard.a == count && guard.b.upper_bound() <= limit;
  };
  return count.upper_bound() <= limit || std::ranges::any_of(module.program().guards(), bounds);
}

/// Multiplies two scales that broadcast along axis_a and axis_b of a result of this rank. Does not fold the product of
/// constants, because fold_scales needs the unrounded factors.
Value product_scale(Module& module, Value a, int64_t axis_a, Value b, int64_t axis_b, int64_t rank) {
  return apply(module, Fn::mul, {along(module, a, axis_a, rank), along(module, b, axis_b, rank)});
}

Value scaled(Module& module, Value product, Value scale) {
  return apply(module, Fn::mul, {convert(module, product, DType::f32), scale});
}

using Factors = IntegerFactors;

/// Returns `s` with x and zero in the byte type `type`. A change between u8 and i8 shifts x and zero by 128.
Steps in_byte_type(Module& module, Steps s, DType type) {
  if (s.x.dtype() == type) return {s.x, s.scale, s.zero ? s.zero : constant(module, type, 0)};
  double by = type == DType::u8 ? 128 : -128;
  auto moved = [&](Value value) {
    return before_views(module, value, [&](Value x) {
      return convert(module, apply(module, Fn::add, convert(module, x, DType::i16), by), type);
    });
  };
  std::optional<double> zero = s.zero ? splat_number(s.zero) : 0.0;
  return {moved(s.x), s.scale, zero ? constant(module, type, *zero + by) : moved(s.zero)};
}

/// Returns zero * sum(weights), the zero point's share of each result, with the sizes `dims`; null if zero is 0.
Value zero_share(Module& module, const Steps& x, Value weight, std::vector<int64_t> axes, const Dims& dims) {
  if (splat_number(x.zero) == 0.0) return {};
  Value sums = reduce(module, ReduceFn::sum, convert(module, weight, DType::i32), std::move(axes), true);
  Value zero = convert(module, along(module, x.zero, -1, 0), DType::i32);
  return apply(module, Fn::mul, {reshape(module, sums, dims), zero});
}

Value without(Module& module, Value product, Value share) {
  return share ? apply(module, Fn::sub, {product, share}) : product;
}

int64_t group_of(Factors factors) { return factors == Factors::mixed_bytes ? 4 : 1; }
DType byte_type(Factors factors) { return factors == Factors::signed_bytes ? DType::i8 : DType::u8; }

/// Returns the integer product of a and b: a product of bytes if `factors` is not `shorts` and the operands allow it.
Value dot_of_integers(Module& module, const Steps& a, const Steps& b, Factors factors) {
  Value weight = as_weight(module, b);
  if (factors == Factors::shorts || a.axis >= 0 || weight.dtype() != DType::i8)
    return module.append(Dot{.type = DType::i32}, {without_zero(module, a), weight});
  Steps x = in_byte_type(module, a, byte_type(factors));
  int64_t rank = weight.rank();
  Dims dims = weight.dims();
  dims[rank - 2] = 1;
  // Computes the share before the product, so that the epilogue of the product can subtract the share.
  Value share = zero_share(module, x, weight, {rank - 2}, dims);
  return without(module, module.append(Dot{.type = DType::i32}, {x.x, weight}), share);
}

/// True if neither operand of a dot has a scale that varies along the summed axis.
bool keeps_sum(const Steps& a, const Steps& b, int64_t rank) {
  return (a.axis < 0 || a.axis == rank - 2) && (b.axis < 0 || b.axis == rank - 1);
}

template <Factors factors>
std::optional<Value> integer_dot(Module& module, Instruction& i) {
  const auto* op = i.as<Dot>();
  if (!op || op->type != DType::f32) return std::nullopt;
  auto a = steps_of(module, i.inputs[0]), b = steps_of(module, i.inputs[1]);
  if (!a || !b) return std::nullopt;
  int64_t rank = i.types[0].shape.rank();
  if (!keeps_sum(*a, *b, rank) || !fits_i32(module, *a, *b, i.inputs[0].dims().back())) return std::nullopt;
  Value product = dot_of_integers(module, *a, *b, factors);
  return scaled(module, product, product_scale(module, a->scale, a->axis, b->scale, b->axis, rank));
}

/// Returns the axis of output channels in the weights; -2 (no axis) for a grouped transposed convolution.
int64_t output_axis(const Convolution& op) { return op.transposed ? (op.groups == 1 ? 1 : -2) : 0; }

Dim terms_of_sum(const Convolution& op, const Dims& w) {
  Dim count = product({w.begin() + 2, w.end()});
  return op.transposed ? count * *exact_divide(w[0], op.groups) : count * w[1];
}

/// Pads the channels (axis 1) of x, an image or weights, to a multiple of `group` if there are few channels, so that
/// the kernel can read the image in place. `count`: channels of the weights, because the image's may be symbolic.
Value with_whole_channels(Module& module, Value x, const Dim& count, const Convolution& op, int64_t group) {
  auto channels = count.constant();
  constexpr int64_t few = 16;
  bool is_whole = !channels || *channels % group == 0 || *channels > few;
  if (is_whole || op.groups > 1 || op.transposed) return x;
  Pad pad{.before = Dims(x.dims().size(), 0), .after = Dims(x.dims().size(), 0)};
  pad.after[1] = group - *channels % group;
  return module.append(pad, {x, constant(module, x.dtype(), 0)});
}

/// Appends a convolution of bytes, which pads with x's zero point. Subtracts zero * sum(weights) from each result.
Value convolution_of_bytes(Module& module, const Convolution& op, const Steps& x, Value weight, int64_t group) {
  const Dims& dims = weight.dims();
  std::vector<int64_t> axes;
  for (int64_t axis = 1; axis < weight.rank(); ++axis) axes.push_back(axis);
  Dim count = dims[1];
  Dims channel(dims.size() - 1, 1);
  channel[0] = dims[0];
  Value share = zero_share(module, x, weight, axes, channel);
  auto whole = [&](Value value) { return with_whole_channels(module, value, count, op, group); };
  Value product = module.append(op, {whole(x.x), whole(weight), along(module, x.zero, -1, 0)});
  return without(module, product, share);
}

bool is_depthwise(const Convolution& op, const Dims& weight) { return known_equal(weight[1], 1) && op.groups > 1; }

Value convolution_of_integers(Module& module, Convolution op, const Steps& x, const Steps& w, Factors factors) {
  op.type = DType::i32;
  Value weight = as_weight(module, w);
  Dim channels = weight.dims()[1];
  auto whole = [&](Value value) { return with_whole_channels(module, value, channels, op, 2); };
  if (factors == Factors::shorts || weight.dtype() != DType::i8 || op.transposed || is_depthwise(op, weight.dims()))
    return module.append(op, {whole(without_zero(module, x)), whole(weight)});
  return convolution_of_bytes(module, op, in_byte_type(module, x, byte_type(factors)), weight, group_of(factors));
}

template <Factors factors>
std::optional<Value> integer_convolution(Module& module, Instruction& i) {
  const auto* op = i.as<Convolution>();
  bool fits = op && op->type == DType::f32 && op->layout == Layout::channels_first && i.inputs.size() == 2;
  if (!fits) return std::nullopt;
  auto x = steps_of(module, i.inputs[0]), w = steps_of(module, i.inputs[1]);
  if (!x || !w || x->axis >= 0 || (w->axis >= 0 && w->axis != output_axis(*op))) return std::nullopt;
  if (!fits_i32(module, *x, *w, terms_of_sum(*op, i.inputs[1].dims()))) return std::nullopt;
  Value product = convolution_of_integers(module, *op, *x, *w, factors);
  int64_t channel = w->axis < 0 ? -1 : 1;
  return scaled(module, product, product_scale(module, x->scale, -1, w->scale, channel, i.types[0].shape.rank()));
}

// --- 8-bit floats

std::optional<Value> float8_dot(Module& module, Instruction& i) {
  const auto* op = i.as<Dot>();
  if (!op || op->type != DType::f32) return std::nullopt;
  auto a = steps_of(module, i.inputs[0], is_float8), b = steps_of(module, i.inputs[1], is_float8);
  int64_t rank = i.types[0].shape.rank();
  if (!a || !b || has_zero_point(*a) || has_zero_point(*b) || !keeps_sum(*a, *b, rank)) return std::nullopt;
  return scaled(module, module.append(*op, {a->x, b->x}),
                product_scale(module, a->scale, a->axis, b->scale, b->axis, rank));
}

std::optional<Value> float8_convolution(Module& module, Instruction& i) {
  const auto* op = i.as<Convolution>();
  if (!op || op->type != DType::f32 || op->layout != Layout::channels_first || i.inputs.size() != 2)
    return std::nullopt;
  auto x = steps_of(module, i.inputs[0], is_float8), w = steps_of(module, i.inputs[1], is_float8);
  if (!x || !w || has_zero_point(*x) || has_zero_point(*w) || x->axis >= 0) return std::nullopt;
  if ((w->axis >= 0 && w->axis != output_axis(*op)) || is_depthwise(*op, i.inputs[1].dims())) return std::nullopt;
  return scaled(module, module.append(*op, {x->x, w->x}),
                product_scale(module, x->scale, -1, w->scale, w->axis < 0 ? -1 : 1, i.types[0].shape.rank()));
}

// --- integers that are bytes minus a zero point ----------------------------------------------------------------------

/// The value x - zero with x in 8 bits; zero is i32, one number or broadcastable to x. An absent zero counts as 0.
struct ByteOperand {
  Value x, zero;
};

/// Returns the zero point `value` in i32 without its broadcast; nothing unless it is a number or converted from `type`.
std::optional<Value> zero_of(Module& module, Value value, DType type) {
  if (auto known = splat_number(value)) return constant(module, DType::i32, *known);
  while (value.dtype() != type && (value.def->is<Convert>() || value.def->is<Broadcast>()))
    value = value.def->inputs[0];
  if (auto known = splat_number(value)) return constant(module, DType::i32, *known);
  return value.dtype() == type ? std::optional(convert(module, without_broadcast(value), DType::i32)) : std::nullopt;
}

/// Returns a constant value as i8 elements minus a zero point; nothing if it is no constant or spans over 256 integers.
std::optional<ByteOperand> moved_constant(Module& module, Value value) {
  if (!constant_behind(value)) return std::nullopt;
  StepBounds range = step_bounds(value);
  if (range.low >= -128 && range.high <= 127) return ByteOperand{convert(module, value, DType::i8), {}};
  if (range.high - range.low > 255) return std::nullopt;
  auto by = static_cast<double>(-128 - range.low);
  Value x = convert(module, apply(module, Fn::add, convert(module, value, DType::i32), by), DType::i8);
  return ByteOperand{x, constant(module, DType::i32, by)};
}

/// Returns an integer value as bytes minus a zero point; looks through views if the zero point is a single number.
std::optional<ByteOperand> bytes_of(Module& module, Value value) {
  if (is_byte(value.dtype())) return ByteOperand{value, {}};
  if (value.dtype() != DType::i16 && value.dtype() != DType::i32) return std::nullopt;
  Instruction& i = *value.def;
  // Looks through a broadcast first, because a constant with a symbolic size cannot be computed now.
  auto known = i.is<Broadcast>() ? std::nullopt : moved_constant(module, value);
  if (known) return known;
  if (i.is<Convert>()) return bytes_of(module, i.inputs[0]);
  if (as_fn(value, Fn::sub)) {
    auto x = bytes_of(module, i.inputs[0]);
    auto zero = x && !x->zero ? zero_of(module, i.inputs[1], x->x.dtype()) : std::nullopt;
    return zero ? std::optional(ByteOperand{x->x, *zero}) : std::nullopt;
  }
  if (!i.is<Reshape>() && !i.is<Transpose>() && !i.is<Broadcast>()) return std::nullopt;
  auto x = bytes_of(module, i.inputs[0]);
  if (!x || (x->zero && !known_equal(x->zero.shape().elements(), 1))) return std::nullopt;
  return ByteOperand{module.append(i.op, {x->x}), x->zero ? reshape(module, x->zero, {}) : Value{}};
}

/// Returns `value`, a difference of bytes x - zero, computed in 16 bits; nothing if it is no such difference.
std::optional<Value> short_difference(Module& module, Value value) {
  auto bytes = bytes_of(module, value);
  if (!bytes || !bytes->zero) return std::nullopt;
  auto known = splat_number(bytes->zero);
  if (known && std::abs(*known) > 255) return std::nullopt;
  Value x = convert(module, bytes->x, DType::i16), zero = convert(module, bytes->zero, DType::i16);
  return apply(module, Fn::sub, {x, zero});
}

/// Returns the i8, u8 or i16 value that `value` was converted from; looks through views. Narrows constants to i8 or i16
/// and differences of bytes to i16.
std::optional<Value> narrow_operand(Module& module, Value value) {
  Instruction& i = *value.def;
  if (is_view(i)) {
    auto narrow = narrow_operand(module, i.inputs[0]);
    return narrow ? std::optional(module.append(i.op, {*narrow})) : std::nullopt;
  }
  if (i.is<Constant>() && value.dtype() == DType::i32) {
    StepBounds range = step_bounds(value);
    for (DType type : {DType::i8, DType::i16})
      if (lowest_integer(type) <= range.low && range.high <= highest_integer(type)) return convert(module, value, type);
  }
  if (as_fn(value, Fn::sub) && value.dtype() == DType::i32) return short_difference(module, value);
  if (!i.is<Convert>() || value.dtype() != DType::i32) return std::nullopt;
  DType from = i.inputs[0].dtype();
  return is_byte(from) || from == DType::i16 ? std::optional(i.inputs[0]) : std::nullopt;
}

/// Returns the product or convolution with operands that are not converted to i32; sums stay i32.
std::optional<Value> narrowed(Module& module, Instruction& i) {
  const auto* dot = i.as<Dot>();
  const auto* convolution = i.as<Convolution>();
  bool sums_i32 = (dot && dot->type == DType::i32) || (convolution && convolution->type == DType::i32);
  if (!sums_i32 || i.inputs.size() != 2) return std::nullopt;
  auto a = narrow_operand(module, i.inputs[0]), b = a ? narrow_operand(module, i.inputs[1]) : std::nullopt;
  return b ? std::optional(module.append(i.op, {*a, *b})) : std::nullopt;
}

/// Converts b.x to the byte type `type` and shifts b.zero to match.
ByteOperand in_type(Module& module, const ByteOperand& b, DType type) {
  if (b.x.dtype() == type) return b;
  double by = type == DType::u8 ? 128 : -128;
  auto known = b.zero ? splat_number(b.zero) : 0.0;
  Value zero = known ? constant(module, DType::i32, *known + by) : apply(module, Fn::add, b.zero, by);
  return {in_byte_type(module, {b.x, {}, {}}, type).x, zero};
}

/// True if `i` may still become a product of bytes: on GPUs, if an operand is not i8; on CPUs, if an operand is i32.
template <Factors factors>
bool is_wide(const Instruction& i) {
  DType a = i.inputs[0].dtype(), b = i.inputs[1].dtype();
  if (factors == Factors::signed_bytes) return a != DType::i8 || b != DType::i8;
  return a == DType::i32 || b == DType::i32;
}

bool is_zero(Value value) { return !value || splat_number(value) == 0.0; }

/// True if the zero point is constant along axis `from_end`, counted back from the last axis.
bool is_same_along(Value zero, int64_t from_end) {
  return !zero || zero.rank() <= from_end || known_equal(zero.dims()[zero.rank() - 1 - from_end], 1);
}

/// Returns the sums of x along `axis`, in i32. If x is a broadcast along other axes, sums the operand of the broadcast.
Value sums_of(Module& module, Value x, int64_t axis) {
  if (x.def->is<Broadcast>()) {
    Value once = x.def->inputs[0];
    int64_t before = axis - (x.rank() - once.rank());
    bool has_axis = before >= 0 && known_equal(once.dims()[before], x.dims()[axis]);
    if (has_axis) return sums_of(module, once, before);
  }
  return reduce(module, ReduceFn::sum, convert(module, x, DType::i32), {axis}, true);
}

/// Computes (a - za)(b - zb), with zero points za and zb, as a b - za sums(b) - zb sums(a - za), where a b is a product
/// of bytes. The result is exact even if sums wrap.
template <Factors factors>
std::optional<Value> dot_of_bytes(Module& module, Instruction& i) {
  const auto* op = i.as<Dot>();
  if (!op || op->type != DType::i32 || !is_wide<factors>(i)) return std::nullopt;
  auto given_a = bytes_of(module, i.inputs[0]), given_b = given_a ? bytes_of(module, i.inputs[1]) : std::nullopt;
  if (!given_b || !is_same_along(given_a->zero, 0) || !is_same_along(given_b->zero, 1)) return std::nullopt;
  ByteOperand a = in_type(module, *given_a, byte_type(factors)), b = in_type(module, *given_b, DType::i8);
  int64_t rank = a.x.rank();
  Value share_a, share_b;  // computed before the product, so that the product's epilogue can subtract the shares
  if (!is_zero(b.zero)) {
    Value wide = convert(module, a.x, DType::i32);
    if (!is_zero(a.zero)) wide = apply(module, Fn::sub, {wide, a.zero});
    share_a = apply(module, Fn::mul, {sums_of(module, wide, rank - 1), b.zero});
  }
  if (!is_zero(a.zero)) share_b = apply(module, Fn::mul, {sums_of(module, b.x, rank - 2), a.zero});
  Value product = module.append(Dot{.type = DType::i32}, {a.x, b.x});
  return without(module, without(module, product, share_b), share_a);
}

/// Rewrites a convolution as dot_of_bytes rewrites a product, if the weights are i8 without a zero point.
template <Factors factors>
std::optional<Value> bytes_convolved(Module& module, Instruction& i) {
  const auto* op = i.as<Convolution>();
  bool fits = op && op->type == DType::i32 && i.inputs.size() == 2 && op->layout == Layout::channels_first;
  if (!fits || !is_wide<factors>(i) || op->transposed || is_depthwise(*op, i.inputs[1].dims())) return std::nullopt;
  auto x = bytes_of(module, i.inputs[0]), w = x ? bytes_of(module, i.inputs[1]) : std::nullopt;
  if (!w || w->x.dtype() != DType::i8 || !is_zero(w->zero)) return std::nullopt;
  if (x->zero && !known_equal(x->zero.shape().elements(), 1)) return std::nullopt;
  DType type = byte_type(factors);
  ByteOperand bytes = in_type(module, *x, type);
  auto known = bytes.zero ? splat_number(bytes.zero) : 0.0;
  if (known && (*known < lowest_integer(type) || *known > highest_integer(type))) return std::nullopt;
  Value zero = known ? constant(module, type, *known) : convert(module, bytes.zero, type);
  return convolution_of_bytes(module, *op, {bytes.x, {}, reshape(module, zero, {})}, w->x, group_of(factors));
}

// --- pools -----------------------------------------------------------------------------------------------------------

/// Applies a max pooling before the dequantize of its operand: a positive scale keeps the order of the elements.
std::optional<Value> integer_pool(Module& module, Instruction& i) {
  const auto* op = i.as<Pool>();
  if (!op || op->fn != PoolFn::max || op->indices) return std::nullopt;
  auto x = steps_of(module, i.inputs[0]);
  auto scale = x ? splat_number(x->scale) : std::nullopt;
  bool is_scalar = scale && x->scale.rank() == 0 && (!x->zero || x->zero.rank() == 0);
  if (!is_scalar || !(*scale > 0) || (x->zero && !splat_number(x->zero))) return std::nullopt;
  std::vector<Value> inputs{module.append(*op, {x->x}), x->scale};
  if (x->zero) inputs.push_back(x->zero);
  return module.append(Dequantize{}, inputs);
}

bool same_scalar(Value a, Value b) { return splat_number(a) && splat_number(a) == splat_number(b); }

/// quantize(dequantize x) -> x, if both have the same scalar scale and zero point.
std::optional<Value> unchanged(Module&, Instruction& i) {
  const auto* op = i.as<Quantize>();
  if (!op || op->block > 0) return std::nullopt;
  const Instruction& from = *i.inputs[0].def;
  if (!from.is<Dequantize>() || from.as<Dequantize>()->block > 0) return std::nullopt;
  if (from.inputs[0].dtype() != op->to || !is_byte(op->to) || !same_scalar(from.inputs[1], i.inputs[1]))
    return std::nullopt;
  auto zero = [](const Instruction& at) { return at.inputs.size() > 2 ? splat_number(at.inputs[2]) : 0.0; };
  if (!zero(from) || zero(from) != zero(i)) return std::nullopt;
  double scale = *splat_number(i.inputs[1]);
  return std::isnormal(static_cast<float>(scale)) && scale > 0 ? std::optional(from.inputs[0]) : std::nullopt;
}

/// Replaces u8 by i8 as the type between a quantize and the dequantize that reads the result.
std::optional<Value> signed_steps(Module& module, Instruction& i) {
  const auto* op = i.as<Dequantize>();
  const auto* made = op ? i.inputs[0].def->as<Quantize>() : nullptr;
  if (!made || made->to != DType::u8 || made->block > 0 || op->block > 0) return std::nullopt;
  Quantize quantize = *made;
  quantize.to = DType::i8;
  auto moved = [&](const Instruction& from, Value x) {
    Value zero = from.inputs.size() > 2 ? from.inputs[2] : Value{}, scale = from.inputs[1];
    Value signed_zero =
        in_byte_type(module, {zero ? zero : constant(module, DType::u8, 0), scale, zero}, DType::i8).zero;
    if (signed_zero.rank() != scale.rank()) signed_zero = broadcast(module, signed_zero, scale.dims());
    return std::vector<Value>{x, scale, signed_zero};
  };
  Instruction& source = *i.inputs[0].def;
  Value x = [&] {
    ReplaceScope scope(module, source);
    return module.append(quantize, moved(source, source.inputs[0]));
  }();
  return module.append(*op, moved(i, x));
}

// --- sums of scaled integers -----------------------------------------------------------------------------------------

/// A value sum(integer * factor) + offset; all terms have the same sizes.
struct Sum {
  struct Term {
    Value integer;
    AxisNumbers factor;
  };
  std::vector<Term> terms = {};
  AxisNumbers offset = {};
};

bool scale_by(Sum& sum, const AxisNumbers& factor) {
  auto times = [&](AxisNumbers& numbers) {
    auto product = combined(numbers, factor, std::multiplies{});
    if (product) numbers = *product;
    return product.has_value();
  };
  bool fine = times(sum.offset);
  for (Sum::Term& term : sum.terms) fine = fine && times(term.factor);
  return fine;
}

AxisNumbers reciprocals(AxisNumbers numbers) {
  for (double& x : numbers.values) x = 1 / x;
  return numbers;
}

std::optional<Sum> sum_of(Module& module, Value value, int depth);

bool has_offset(const Sum& sum) {
  return std::ranges::any_of(sum.offset.values, [](double x) { return x != 0; });
}

/// Returns the only term of a sum without offset, if the term's integers fit i16; else null.
const Sum::Term* short_term(const Sum& sum) {
  DType type = sum.terms.size() == 1 && !has_offset(sum) ? sum.terms[0].integer.dtype() : DType::i64;
  return bits(type) <= 16 && type != DType::u16 ? &sum.terms[0] : nullptr;
}

std::optional<Sum> product_of(Module& module, const Sum& a, const Sum& b) {
  const auto *x = short_term(a), *y = short_term(b);
  auto factor = x && y ? combined(x->factor, y->factor, std::multiplies{}) : std::nullopt;
  if (!factor) return std::nullopt;
  Value product =
      apply(module, Fn::mul, {convert(module, x->integer, DType::i32), convert(module, y->integer, DType::i32)});
  return Sum{{{product, *factor}}};
}

/// Reduces a Sum by sum or mean along axes of known sizes; nothing unless the Sum is one short term with one factor.
std::optional<Sum> reduced(Module& module, const Sum& sum, const Reduce& op) {
  const Sum::Term* x = short_term(sum);
  bool is_sum = op.fn == ReduceFn::sum || op.fn == ReduceFn::mean;
  if (!x || !is_sum || x->factor.axis >= 0) return std::nullopt;
  Dim count = 1;
  for (int64_t axis : op.axes) count = count * x->integer.dims()[axis];
  if (!count.is_constant() || count.value() < 1 || count.value() > 1 << 16) return std::nullopt;
  Value whole = reduce(module, ReduceFn::sum, convert(module, x->integer, DType::i32), op.axes, op.keep);
  double scale = x->factor.values[0] / (op.fn == ReduceFn::mean ? static_cast<double>(count.value()) : 1);
  return Sum{{{whole, {{scale}, -1}}}};
}

std::optional<Sum> sum_of_fn(Module& module, const Instruction& i, Fn fn, int depth) {
  if (fn != Fn::mul && fn != Fn::div && fn != Fn::add && fn != Fn::sub) return std::nullopt;
  auto a = sum_of(module, i.inputs[0], depth), b = a ? sum_of(module, i.inputs[1], depth) : std::nullopt;
  if (!a || !b) return std::nullopt;
  if (fn == Fn::mul && a->terms.empty()) std::swap(a, b);
  if (fn == Fn::mul && !b->terms.empty()) return product_of(module, *a, *b);
  if (fn == Fn::mul || fn == Fn::div) {
    if (!b->terms.empty()) return std::nullopt;
    bool fine = scale_by(*a, fn == Fn::mul ? b->offset : reciprocals(b->offset));
    return fine ? a : std::nullopt;
  }
  if (fn == Fn::sub) scale_by(*b, AxisNumbers{{-1}, -1});
  auto offset = combined(a->offset, b->offset, std::plus{});
  if (!offset) return std::nullopt;
  a->offset = *offset;
  a->terms.insert(a->terms.end(), b->terms.begin(), b->terms.end());
  return a;
}

/// Returns the result of a view as a Sum.
std::optional<Sum> sum_of_view(Module& module, const Instruction& view, int depth) {
  auto sum = sum_of(module, view.inputs[0], depth);
  if (!sum || !follow(sum->offset.axis, view)) return std::nullopt;
  for (Sum::Term& term : sum->terms) {
    if (!follow(term.factor.axis, view)) return std::nullopt;
    term.integer = module.append(view.op, {term.integer});
  }
  return sum;
}

/// Returns `value` as a sum of scaled integers; nothing for other values.
std::optional<Sum> sum_of(Module& module, Value value, int depth) {
  if (depth == 0 || value.dtype() != DType::f32) return std::nullopt;
  if (auto known = numbers_of(value)) return Sum{.offset = *known};
  if (const auto* op = value.def->as<Elementwise>()) return sum_of_fn(module, *value.def, op->fn, depth - 1);
  if (value.def->is<Convert>()) {
    DType from = value.def->inputs[0].dtype();
    bool is_integer_term = is_integer(from) && bits(from) <= 32;
    return is_integer_term ? std::optional(Sum{{{value.def->inputs[0], {{1}, -1}}}}) : std::nullopt;
  }
  if (const auto* op = value.def->as<Reduce>()) {
    auto sum = sum_of(module, value.def->inputs[0], depth - 1);
    return sum ? reduced(module, *sum, *op) : std::nullopt;
  }
  if (is_view(*value.def)) return sum_of_view(module, *value.def, depth - 1);
  auto steps = value.def->is<Dequantize>() ? steps_of(module, value) : std::nullopt;
  auto scale = steps ? splat_number(steps->scale) : std::nullopt;
  if (!scale) return std::nullopt;
  return Sum{{{without_zero(module, *steps), {{*scale}, -1}}}};
}

/// True if a term is a product or a sum of integers, which may need more bits than f32 has.
bool has_product(const Sum& sum) {
  return std::ranges::any_of(sum.terms, [](const Sum::Term& term) {
    auto behind = [](Value value) {
      while (is_view(*value.def)) value = value.def->inputs[0];
      return value;
    };
    Value whole = behind(term.integer);
    Instruction* corrected = as_fn(whole, Fn::sub);
    const Instruction& i = *(corrected ? behind(corrected->inputs[0]) : whole).def;
    return i.is<Dot>() || i.is<Convolution>() || i.is<Reduce>() || as_fn(whole, Fn::mul);
  });
}

Value written(Module& module, const Sum& sum, int64_t rank) {
  Value result = axis_constant(module, DType::f64, sum.offset, rank);
  bool is_plain = !has_offset(sum);
  for (const Sum::Term& term : sum.terms) {
    Value factor = axis_constant(module, DType::f64, term.factor, rank);
    Value part = apply(module, Fn::mul, {convert(module, before_widening(term.integer), DType::f64), factor});
    result = is_plain ? part : apply(module, Fn::add, {part, result});
    is_plain = false;
  }
  return result;
}

std::optional<Value> folded_scales(Module& module, Instruction& i) {
  const auto* op = i.as<Quantize>();
  auto scale = op && op->block == 0 ? splat_number(i.inputs[1]) : std::nullopt;
  bool is_fixed = scale && *scale > 0 && *scale != 1 && is_byte(op->to) && i.inputs[0].dtype() == DType::f32;
  if (!is_fixed) return std::nullopt;
  Value whole = without_bounds(i, *op);
  Instruction* clipped = as_fn(whole, Fn::relu);
  constexpr int depth = 12;
  auto sum = sum_of(module, clipped ? clipped->inputs[0] : whole, depth);
  if (!sum || !(has_product(*sum) || sum->terms.size() > 1) || !scale_by(*sum, {{1 / *scale}, -1})) return std::nullopt;
  std::vector<Value> inputs = i.inputs;
  inputs[0] = written(module, *sum, i.types[0].shape.rank());
  if (clipped) inputs[0] = apply(module, Fn::relu, {inputs[0]});
  inputs[1] = broadcast(module, constant(module, DType::f64, 1), i.inputs[1].dims());  // the sum includes the scale
  return module.append(*op, inputs);
}

template <Factors factors>
bool products_of(Module& module) {
  static constexpr Rewrite rewrites[] = {integer_dot<factors>, integer_convolution<factors>, narrowed, integer_pool,
                                         unchanged};
  static constexpr Rewrite to_bytes[] = {dot_of_bytes<factors>, bytes_convolved<factors>};
  bool changed = factors != Factors::shorts && factors != Factors::signed_bytes && rewrite_each(module, to_bytes);
  return rewrite_each(module, rewrites) || changed;
}

bool products_of_signed_bytes(Module& module) {
  static constexpr Rewrite to_signed[] = {signed_steps};
  static constexpr Rewrite to_bytes[] = {dot_of_bytes<Factors::signed_bytes>, bytes_convolved<Factors::signed_bytes>};
  bool changed = rewrite_each(module, to_signed);
  changed |= products_of<Factors::signed_bytes>(module);
  return rewrite_each(module, to_bytes) || changed;
}

}  // namespace

bool integer_products(Module& module, IntegerFactors factors) {
  switch (factors) {
    case Factors::shorts: return products_of<Factors::shorts>(module);
    case Factors::mixed_bytes: return products_of<Factors::mixed_bytes>(module);
    case Factors::tile_bytes: return products_of<Factors::tile_bytes>(module);
    case Factors::signed_bytes: return products_of_signed_bytes(module);
  }
  return false;
}

Value without_bounds(const Instruction& i, const Quantize& op) {
  Value x = i.inputs[0];
  auto scale = splat_number(i.inputs[1]), zero = i.inputs.size() == 3 ? splat_number(i.inputs[2]) : 0.0;
  if (!is_byte(op.to) || !scale || !(*scale > 0) || !zero) return x;
  double low = op.to == DType::i8 ? -128 : 0, high = low + 255;
  auto step = [&](double bound) { return std::nearbyint(bound / *scale) + *zero; };
  while (const auto* f = x.def->as<Elementwise>()) {
    const auto& in = x.def->inputs;
    auto bound = f->fn == Fn::relu ? 0.0 : in.size() == 2 ? splat_number(in[1]) : std::nullopt;
    bool is_low = (f->fn == Fn::relu || f->fn == Fn::max) && bound && step(*bound) <= low;
    bool is_high = f->fn == Fn::min && bound && step(*bound) >= high;
    if (!is_low && !is_high) return x;
    x = in[0];
  }
  return x;
}

bool float8_products(Module& module) {
  static constexpr Rewrite rewrites[] = {float8_dot, float8_convolution};
  return rewrite_each(module, rewrites);
}

bool fold_scales(Module& module) {
  static constexpr Rewrite rewrites[] = {folded_scales};
  return rewrite_each(module, rewrites);
}

}  // namespace weft
