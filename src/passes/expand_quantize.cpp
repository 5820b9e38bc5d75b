// SPDX-License-Identifier: Apache-2.0
#include "passes/expand_quantize.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "ops/build.h"
#include "ops/quantize.h"
#include "passes/integer_products.h"
#include "passes/match.h"

namespace weft {
namespace {

/// Broadcasts a scale or zero point to `dims`: one number, a list along `axis`, or numbers for `block` elements each.
Value spread(Module& module, Value scale, const Dims& dims, int64_t axis, int64_t block) {
  if (block > 0) {
    // [.., blocks, ..] -> [.., blocks, 1, ..] -> [.., blocks, block, ..] -> [.., blocks * block, ..]
    Dims split = scale.dims(), repeated;
    split.insert(split.begin() + axis + 1, 1);
    repeated = split;
    repeated[axis + 1] = block;
    Dims joined = scale.dims();
    joined[axis] = joined[axis] * Dim(block);
    Value all = reshape(module, broadcast(module, reshape(module, scale, split), repeated), joined);
    return slice_axis(module, all, axis, 0, dims[axis]);
  }
  if (scale.rank() == 1 && !known_equal(scale.dims()[0], 1)) {
    Dims shape(dims.size(), 1);
    shape[axis] = scale.dims()[0];
    return broadcast(module, reshape(module, scale, shape), dims);
  }
  return broadcast(module, reshape(module, scale, {}), dims);
}

double limit(DType type, bool low) {
  int width = bits(type);
  if (is_signed_integer(type)) return low ? -std::ldexp(1, width - 1) : std::ldexp(1, width - 1) - 1;
  return low ? 0 : std::ldexp(1, width) - 1;
}

/// The steps x - zero of a quantised x, in i16. Quantising computes x = steps + zero, so that x itself is stored only
/// if an instruction reads x and not the steps.
struct QuantizedSteps {
  Value steps;
  double zero;
  int products;  ///< number of products before x
};

class Expansion {
 public:
  explicit Expansion(Module& module) : module_(module) {}

  bool run() {
    bool changed = false;
    for (Instruction& i : module_) {
      products_ += is_product(i);
      ReplaceScope scope(module_, i);
      Value better = rewritten(i);
      if (!better) continue;
      module_.replace({&i, 0}, better);
      changed = true;
    }
    return changed;
  }

 private:
  static bool is_product(const Instruction& i) { return i.is<Dot>() || i.is<Convolution>(); }

  Value rewritten(Instruction& i) {
    if (const auto* op = i.as<Quantize>()) return expand(i, *op);
    if (const auto* op = i.as<Dequantize>()) return expand(i, *op);
    if (const auto* op = i.as<Pool>()) return pooled(i, *op);
    if (as_fn(i.result(), Fn::sub) && i.inputs[0].def->is<Convert>() && i.types[0].shape.dtype == DType::i16)
      return known_steps(i.inputs[0].def->inputs[0], splat_number(i.inputs[1]));
    const auto* op = i.as<Convert>();
    return op && op->to == DType::i16 ? known_steps(i.inputs[0], 0) : Value{};
  }

  /// Returns x - zero if x was quantised with this zero point or is a view of a value that was; else null. Also null
  /// after a later product: its kernel reads x from memory, and bytes take half the memory of their steps.
  Value known_steps(Value x, std::optional<double> zero) {
    auto found = steps_.find(x.def);
    if (found != steps_.end()) {
      bool is_known = found->second.zero == zero && found->second.products == products_;
      return is_known ? found->second.steps : Value{};
    }
    Instruction& i = *x.def;
    if (!i.is<Reshape>() && !i.is<Transpose>() && !i.is<Broadcast>()) return {};
    Value behind = known_steps(i.inputs[0], zero);
    return behind ? module_.append(i.op, {behind}) : Value{};
  }

  /// Returns the max pooling of x computed from the steps x - zero, which have their maximum at the same element.
  /// Returns null for other poolings, if products read the pooled bytes, or if the steps are unknown.
  Value pooled(Instruction& i, const Pool& op) {
    auto found = steps_.find(i.inputs[0].def);
    if (op.fn != PoolFn::max || op.indices || found == steps_.end() || is_multiplied(i)) return {};
    QuantizedSteps steps{module_.append(op, {found->second.steps}), found->second.zero, products_};
    return quantized(i, steps, i.types[0].shape.dtype);
  }

  /// True if a product or convolution reads the result of `i`. If so, all readers use the result, not the steps.
  static bool is_multiplied(const Instruction& i) {
    return std::ranges::any_of(i.users, [](const Instruction* u) { return is_product(*u); });
  }

  Value quantized(const Instruction& i, const QuantizedSteps& steps, DType to) {
    Value moved = steps.zero == 0 ? steps.steps : apply(module_, Fn::add, steps.steps, steps.zero);
    Value x = convert(module_, moved, to);
    if (!is_multiplied(i)) steps_[x.def] = steps;
    return x;
  }

  Value expand(Instruction& i, const Dequantize& op) {
    const Dims& dims = i.inputs[0].dims();
    DType wide = i.inputs[1].dtype() == DType::f64 ? DType::f64 : DType::f32;
    Value scale = convert(module_, spread(module_, i.inputs[1], dims, op.axis, op.block), wide);
    Value steps = known_steps(i.inputs[0], i.inputs.size() == 3 ? splat_number(i.inputs[2]) : 0);
    if (steps) return convert(module_, apply(module_, Fn::mul, {convert(module_, steps, wide), scale}), op.to);
    Value x = convert(module_, i.inputs[0], wide);
    if (i.inputs.size() == 3)
      x = apply(module_, Fn::sub, {x, convert(module_, spread(module_, i.inputs[2], dims, op.axis, op.block), wide)});
    return convert(module_, apply(module_, Fn::mul, {x, scale}), op.to);
  }

  /// Returns x / scale, where x is the operand without redundant bounds (see without_bounds).
  Value scaled(Instruction& i, const Quantize& op) {
    DType wide = i.inputs[0].dtype() == DType::f64 ? DType::f64 : DType::f32;
    Value x = convert(module_, without_bounds(i, op), wide);
    if (splat_number(i.inputs[1]) == 1.0) return x;
    Value scale = convert(module_, spread(module_, i.inputs[1], i.inputs[0].dims(), op.axis, op.block), wide);
    return apply(module_, Fn::div, {x, scale});
  }

  /// Rounds y to the nearest integers in [low, high], of type `to`. Types of 8 to 16 bits use the operator Nearest.
  Value nearest(Value y, double low, double high, DType to) {
    if (bits(to) < 8 || bits(to) > 16)
      return convert(module_,
                     apply(module_, Fn::max, apply(module_, Fn::min, apply(module_, Fn::round, {y}), high), low), to);
    auto limit = [&](double number) { return broadcast(module_, constant(module_, DType::i32, number), y.dims()); };
    Value from = limit(low);
    return module_.append(Nearest{.to = to}, {y, from, limit(high)});
  }

  Value expand(Instruction& i, const Quantize& op) {
    Value y = scaled(i, op);
    if (is_float(op.to)) return module_.append(Convert{.to = op.to, .saturate = op.saturate}, {y});
    auto zero = i.inputs.size() == 3 ? splat_number(i.inputs[2]) : std::optional(0.0);
    double low = limit(op.to, true), high = limit(op.to, false);
    if (zero && is_byte(op.to))
      return quantized(i, {nearest(y, low - *zero, high - *zero, DType::i16), *zero, products_}, op.to);
    if (i.inputs.size() == 3) {
      Value spread_zero = spread(module_, i.inputs[2], i.inputs[0].dims(), op.axis, op.block);
      Value none = broadcast(module_, constant(module_, y.dtype(), 0), y.dims());
      y = apply(module_, Fn::select, {apply(module_, Fn::is_nan, {y}), none, apply(module_, Fn::round, {y})});
      y = apply(module_, Fn::add, {y, convert(module_, spread_zero, y.dtype())});
    }
    return nearest(y, low, high, op.to);
  }

  Module& module_;
  int products_ = 0;                                              // products so far
  std::unordered_map<const Instruction*, QuantizedSteps> steps_;  // key: quantised value
};

}  // namespace

bool expand_quantize(Module& module) { return Expansion(module).run(); }

}  // namespace weft
