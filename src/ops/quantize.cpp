// SPDX-License-Identifier: Apache-2.0
#include "ops/quantize.h"

#include "ops/check.h"

namespace weft {

using namespace shape_rule;

namespace {

/// Checks the sizes of a scale (or zero point) against x: a scalar, one value per index of the axis, or blocks.
void check_scale(std::string_view op, const Shape& x, const Shape& scale, int64_t axis, int64_t block) {
  if (block > 0) {
    axis_in_range(op, axis, x.rank());
    if (scale.rank() != x.rank()) refuse("E151", op, ": blocked scale ", scale, " needs the rank of ", x);
    require_equal(scale.dims[static_cast<size_t>(axis)], ceildiv(x.dims[static_cast<size_t>(axis)], block),
                  cat(op, ": blocks of axis ", axis));
    return;
  }
  if (scale.rank() == 0 || (scale.rank() == 1 && known_equal(scale.dims[0], 1))) return;
  if (scale.rank() != 1) refuse("E151", op, ": scale ", scale, " must be a scalar or have one axis");
  axis_in_range(op, axis, x.rank());
  require_equal(scale.dims[0], x.dims[static_cast<size_t>(axis)], cat(op, ": scales for axis ", axis, " of ", x));
}

const Shape& check_operands(std::string_view op, Operands in, int64_t axis, int64_t block) {
  operand_count(op, in, 2, 3);
  const Shape& x = tensor(op, in, 0);
  check_scale(op, x, tensor(op, in, 1), axis, block);
  if (in.size() == 3) same_dims(op, tensor(op, in, 1), tensor(op, in, 2));
  return x;
}

}  // namespace

Types Quantize::infer(Operands in) const {
  const Shape& x = check_operands(name, in, axis, block);
  if (in.size() == 3 && in[2].shape.dtype != to)
    refuse("E141", "quantize: zero point is ", in[2].shape.dtype, ", not ", to);
  return {Shape{to, x.dims}};
}

Types Dequantize::infer(Operands in) const {
  const Shape& x = check_operands(name, in, axis, block);
  if (in.size() == 3) same_type(name, x, in[2].shape);
  return {Shape{to, x.dims}};
}

}  // namespace weft
