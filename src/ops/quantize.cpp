// SPDX-License-Identifier: Apache-2.0
#include "ops/quantize.h"

#include <algorithm>
#include <cmath>

#include "ir/module.h"
#include "ops/check.h"
#include "ops/wide.h"

namespace weft {

using namespace shape_rule;

/// Throws unless the sizes of a scale or zero point match x: a scalar, a value per index of the axis, or per block.
static void check_scale(std::string_view op, const Shape& x, const Shape& scale, int64_t axis, int64_t block) {
  if (block > 0) {
    axis_in_range(op, axis, x.rank());
    if (scale.rank() != x.rank()) refuse("E151", op, ": blocked scale ", scale, " needs the rank of ", x);
    for (size_t i = 0; i < x.dims.size(); ++i) {
      bool is_blocked = static_cast<int64_t>(i) == axis;
      require_equal(scale.dims[i], is_blocked ? ceildiv(x.dims[i], block) : x.dims[i], cat(op, ": blocks of axis ", i));
    }
    return;
  }
  if (scale.rank() == 0 || (scale.rank() == 1 && known_equal(scale.dims[0], 1))) return;
  if (scale.rank() != 1) refuse("E151", op, ": scale ", scale, " must be a scalar or have one axis");
  axis_in_range(op, axis, x.rank());
  require_equal(scale.dims[0], x.dims[axis], cat(op, ": scales for axis ", axis, " of ", x));
}

static const Shape& check_operands(std::string_view op, Operands in, int64_t axis, int64_t block) {
  operand_count(op, in, 2, 3);
  const Shape& x = tensor(op, in, 0);
  check_scale(op, x, tensor(op, in, 1), axis, block);
  real(op, tensor(op, in, 1));
  if (in.size() == 3) same_dims(op, tensor(op, in, 1), tensor(op, in, 2));
  return x;
}

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

Types Nearest::infer(Operands in) const {
  operand_count(name, in, 3, 5);
  const Shape& x = tensor(name, in, 0);
  real(name, x);
  for (size_t at = 1; at < in.size(); ++at) {
    same_dims(name, x, tensor(name, in, at));
    same_type(name, Shape{at < 3 ? DType::i32 : DType::f32, {}}, in[at].shape);
  }
  if (!is_integer(to)) refuse("E141", name, ": ", to, " is not an integer type");
  return {Shape{to, x.dims}};
}

namespace {

/// The mapping from the index of an element of x to the index of its scale.
class ScaleIndex {
 public:
  ScaleIndex(const Wide& x, const Wide& scale, int64_t axis, int64_t block)
      : block_(block), is_scalar_(block == 0 && scale.elements() == 1) {
    if (is_scalar_) return;
    Rows rows(x.dims, axis);
    size_ = rows.size;
    inner_ = rows.inner;
    blocks_ = block > 0 ? (size_ + block - 1) / block : 0;
  }

  size_t operator()(size_t element) const {
    if (is_scalar_) return 0;
    auto i = static_cast<int64_t>(element);
    int64_t at = i / inner_ % size_;
    if (block_ == 0) return at;
    return (i / inner_ / size_ * blocks_ + at / block_) * inner_ + i % inner_;
  }

 private:
  int64_t block_, size_ = 1, inner_ = 1, blocks_ = 0;
  bool is_scalar_;
};

double number(const Wide& x, size_t i) {
  return x.is_real() ? x.as<double>()[i] : to_real(x.dtype, x.as<int64_t>()[i]);
}

/// Divides x by scale in f64 if `type` is f64 or x is not an f32 number, else in f32. The reference does not round
/// between operators, so x may be more precise than f32. Rounding such an x could move a quotient near half a step to
/// the wrong side.
double scaled_down(double x, double scale, DType type) {
  if (type == DType::f64 || static_cast<double>(static_cast<float>(x)) != x) return x / scale;
  return static_cast<double>(static_cast<float>(x) / static_cast<float>(scale));
}

}  // namespace

std::vector<Wide> Quantize::evaluate(std::span<const Wide> in) const {
  const Wide &x = in[0], &scale = in[1];
  ScaleIndex index(x, scale, axis, block);
  auto zero = [&](size_t i) { return in.size() > 2 ? number(in[2], index(i)) : 0.0; };
  auto quotient = [&](size_t i) { return scaled_down(number(x, i), scale.as<double>()[index(i)], x.dtype); };
  size_t count = x.elements();
  if (is_float(to)) {
    std::vector<double> out(count);
    for (size_t i = 0; i < count; ++i) out[i] = round_to(to, quotient(i) + zero(i), saturate);
    return {make_wide(to, x.dims, std::move(out))};
  }
  std::vector<int64_t> out(count);
  for (size_t i = 0; i < count; ++i) {
    double steps = std::nearbyint(quotient(i));
    out[i] = to_integer(to, (std::isnan(steps) ? 0 : steps) + zero(i));
  }
  return {make_wide(to, x.dims, std::move(out))};
}

std::vector<Wide> Dequantize::evaluate(std::span<const Wide> in) const {
  const Wide &x = in[0], &scale = in[1];
  ScaleIndex index(x, scale, axis, block);
  std::vector<double> out(x.elements());
  for (size_t i = 0; i < out.size(); ++i) {
    double zero = in.size() > 2 ? number(in[2], index(i)) : 0;
    out[i] = (number(x, i) - zero) * scale.as<double>()[index(i)];
  }
  return {make_wide(to, x.dims, std::move(out))};
}

std::vector<Wide> Nearest::evaluate(std::span<const Wide> in) const {
  std::span<const double> x = in[0].as<double>();
  std::span<const int64_t> low = in[1].as<int64_t>(), high = in[2].as<int64_t>();
  std::vector<int64_t> out(x.size());
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = std::max(std::min(to_integer(DType::i32, std::nearbyint(x[i])), high[i]), low[i]);
  return {make_wide(to, in[0].dims, std::move(out))};
}

bool is_quantized_weight(const Instruction& i) {
  if (!i.is<Dequantize>()) return false;
  const Shape& x = i.inputs[0].shape();
  return x.dtype == DType::i32 ? x.rank() >= 1 : bits(x.dtype) <= 8 && x.rank() >= 2;
}

}  // namespace weft
