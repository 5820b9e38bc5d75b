// SPDX-License-Identifier: Apache-2.0
#include "passes/expand_quantize.h"

#include <cmath>

#include "ops/build.h"
#include "ops/quantize.h"

namespace weft {
namespace {

/// A scale or zero point with the sizes of x: scalars and blocks as they are, lists along the axis.
Value spread(Module& module, Value scale, const Dims& dims, int64_t axis, int64_t block) {
  if (block > 0) {
    // [.., n / block, ..] -> [.., n / block, 1, ..] -> [.., n / block, block, ..] -> [.., n, ..]
    auto at = static_cast<size_t>(axis);
    Dims split = scale.dims(), repeated;
    split.insert(split.begin() + axis + 1, 1);
    repeated = split;
    repeated[at + 1] = block;
    Dims joined = scale.dims();
    joined[at] = joined[at] * Dim(block);
    Value all = reshape(module, broadcast(module, reshape(module, scale, split), repeated), joined);
    return slice_axis(module, all, axis, 0, dims[at]);
  }
  if (scale.rank() == 1 && !known_equal(scale.dims()[0], 1)) {
    Dims shape(dims.size(), 1);
    shape[static_cast<size_t>(axis)] = scale.dims()[0];
    return broadcast(module, reshape(module, scale, shape), dims);
  }
  return broadcast(module, reshape(module, scale, {}), dims);
}

double limit(DType type, bool low) {
  int width = bits(type);
  if (is_signed_integer(type)) return low ? -std::ldexp(1, width - 1) : std::ldexp(1, width - 1) - 1;
  return low ? 0 : std::ldexp(1, width) - 1;
}

class Expansion {
 public:
  explicit Expansion(Module& module) : module_(module) {}

  bool run() {
    bool changed = false;
    for (Instruction& i : module_) {
      const auto* quantize = i.as<Quantize>();
      const auto* dequantize = i.as<Dequantize>();
      if (!quantize && !dequantize) continue;
      ReplaceScope scope(module_, i);
      module_.replace({&i, 0}, quantize ? expand(i, *quantize) : expand(i, *dequantize));
      changed = true;
    }
    return changed;
  }

 private:
  Value expand(Instruction& i, const Dequantize& op) {
    const Dims& dims = i.inputs[0].dims();
    DType wide = i.inputs[1].dtype() == DType::f64 ? DType::f64 : DType::f32;
    Value x = convert(module_, i.inputs[0], wide);
    if (i.inputs.size() == 3)
      x = apply(module_, Fn::sub, {x, convert(module_, spread(module_, i.inputs[2], dims, op.axis, op.block), wide)});
    Value scale = convert(module_, spread(module_, i.inputs[1], dims, op.axis, op.block), wide);
    return convert(module_, apply(module_, Fn::mul, {x, scale}), op.to);
  }

  Value expand(Instruction& i, const Quantize& op) {
    const Dims& dims = i.inputs[0].dims();
    DType wide = i.inputs[0].dtype() == DType::f64 ? DType::f64 : DType::f32;
    Value x = convert(module_, i.inputs[0], wide);
    Value scale = convert(module_, spread(module_, i.inputs[1], dims, op.axis, op.block), wide);
    Value y = apply(module_, Fn::div, {x, scale});
    if (is_float(op.to)) return module_.append(Convert{.to = op.to, .saturate = op.saturate}, {y});
    y = apply(module_, Fn::round, {y});
    if (i.inputs.size() == 3)
      y = apply(module_, Fn::add, {y, convert(module_, spread(module_, i.inputs[2], dims, op.axis, op.block), wide)});
    y = apply(module_, Fn::max, apply(module_, Fn::min, y, limit(op.to, false)), limit(op.to, true));
    return convert(module_, y, op.to);
  }

  Module& module_;
};

}  // namespace

bool expand_quantize(Module& module) { return Expansion(module).run(); }

}  // namespace weft
