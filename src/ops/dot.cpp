// SPDX-License-Identifier: Apache-2.0
#include "ops/dot.h"

#include "ops/check.h"

namespace weft {

using namespace shape_rule;

std::span<const std::string_view> names(Layout) {
  static constexpr std::string_view list[] = {"channels_first", "channels_last"};
  return list;
}

std::span<const std::string_view> names(PoolFn) {
  static constexpr std::string_view list[] = {"max", "average", "lp"};
  return list;
}

Types Dot::infer(Operands in) const {
  operand_count(name, in, 2, 2);
  const Shape &a = tensor(name, in, 0), &b = tensor(name, in, 1);
  if (a.rank() < 2 || a.rank() != b.rank())
    refuse("E151", "dot: ranks of ", a, " and ", b, " must be equal and at least 2");
  size_t rank = a.dims.size();
  for (size_t i = 0; i + 2 < rank; ++i)
    require_equal(a.dims[i], b.dims[i], cat("dot: batch axis ", i, " of ", a, " and ", b));
  require_equal(a.dims[rank - 1], b.dims[rank - 2], cat("dot: inner sizes of ", a, " and ", b));
  Shape result{type, a.dims};
  result.dims[rank - 1] = b.dims[rank - 1];
  return {result};
}

namespace {

/// The index of spatial axis i in a tensor of `rank` axes.
size_t spatial_axis(Layout layout, size_t i) { return layout == Layout::channels_first ? i + 2 : i + 1; }
size_t channel_axis(Layout layout, size_t rank) { return layout == Layout::channels_first ? 1 : rank - 1; }

void check_window(std::string_view op, size_t spatial, const std::vector<int64_t>& strides,
                  const std::vector<int64_t>& dilations, const Dims& pads_begin, const Dims& pads_end) {
  auto rank = static_cast<int64_t>(spatial);
  length_is(op, "strides", strides.size(), rank);
  length_is(op, "dilations", dilations.size(), rank);
  length_is(op, "pads_begin", pads_begin.size(), rank);
  length_is(op, "pads_end", pads_end.size(), rank);
  for (int64_t stride : strides) {
    if (stride < 1) refuse("E145", op, ": stride ", stride, " must be at least 1");
  }
  for (int64_t dilation : dilations) {
    if (dilation < 1) refuse("E145", op, ": dilation ", dilation, " must be at least 1");
  }
}

void check_output(std::string_view op, size_t axis, const Dim& size) {
  if (size.upper_bound() < 0) refuse("E144", op, ": output size of spatial axis ", axis, " is ", size);
}

Dim convolved(const Convolution& c, size_t i, const Dim& in, const Dim& kernel) {
  Dim reach = Dim(c.dilations[i]) * (kernel - 1);
  Dim pads = c.pads_begin[i] + c.pads_end[i];
  if (!c.transposed) return floordiv(in + pads - reach - 1, c.strides[i]) + 1;
  Dim extra = c.output_padding.empty() ? 0 : c.output_padding[i];
  return (in - 1) * Dim(c.strides[i]) + reach + 1 + extra - pads;
}

}  // namespace

Types Convolution::infer(Operands in) const {
  operand_count(name, in, 2, 2);
  const Shape &x = tensor(name, in, 0), &w = tensor(name, in, 1);
  if (x.rank() < 3 || x.rank() != w.rank())
    refuse("E151", "convolution: ranks of ", x, " and ", w, " must be equal and at least 3");
  size_t spatial = x.dims.size() - 2;
  check_window(name, spatial, strides, dilations, pads_begin, pads_end);
  if (groups < 1) refuse("E145", "convolution: groups ", groups, " must be at least 1");
  size_t channel = channel_axis(layout, x.dims.size());
  const Dim& in_channels = x.dims[channel];
  Dim wanted = transposed ? w.dims[0] : w.dims[1] * Dim(groups);
  require_equal(in_channels, wanted, cat("convolution: channels of ", x, " and weight ", w, " in ", groups, " groups"));
  if (!transposed && !mod(w.dims[0], groups).is_constant())
    refuse("E145", "convolution: ", w.dims[0], " outputs in ", groups, " groups");
  if (!transposed && mod(w.dims[0], groups) != Dim(0))
    refuse("E145", "convolution: ", w.dims[0], " outputs cannot be split in ", groups, " groups");
  Shape result{type, x.dims};
  result.dims[channel] = transposed ? w.dims[1] * Dim(groups) : w.dims[0];
  for (size_t i = 0; i < spatial; ++i) {
    size_t axis = spatial_axis(layout, i);
    result.dims[axis] = convolved(*this, i, x.dims[axis], w.dims[i + 2]);
    check_output(name, i, result.dims[axis]);
  }
  return {result};
}

Types Pool::infer(Operands in) const {
  operand_count(name, in, 1, 1);
  const Shape& x = tensor(name, in, 0);
  if (x.rank() < 3) refuse("E151", "pool: ", x, " needs a batch, a channel and a spatial axis");
  size_t spatial = x.dims.size() - 2;
  check_window(name, spatial, strides, dilations, pads_begin, pads_end);
  length_is(name, "kernel", kernel.size(), static_cast<int64_t>(spatial));
  Shape result = x;
  for (size_t i = 0; i < spatial; ++i) {
    size_t axis = spatial_axis(layout, i);
    Dim room = x.dims[axis] + pads_begin[i] + pads_end[i] - Dim(dilations[i] * (kernel[i] - 1) + 1);
    Dim size = (round_up ? ceildiv(room, strides[i]) : floordiv(room, strides[i])) + 1;
    // The last window must start inside the input or the padding before it.
    if (round_up) size = min(size, ceildiv(x.dims[axis] + pads_begin[i], strides[i]));
    check_output(name, i, size);
    result.dims[axis] = size;
  }
  if (!indices) return {result};
  return {result, Shape{DType::i64, result.dims}};
}

Types Attention::infer(Operands in) const {
  operand_count(name, in, 3, 4);
  const Shape &q = tensor(name, in, 0), &k = tensor(name, in, 1), &v = tensor(name, in, 2);
  for (const Shape* s : {&q, &k, &v}) {
    if (s->rank() != 4) refuse("E151", "attention: ", *s, " must have the axes batch, head, row, column");
  }
  require_equal(q.dims[0], k.dims[0], "attention: batch of q and k");
  require_equal(q.dims[0], v.dims[0], "attention: batch of q and v");
  require_equal(k.dims[1], v.dims[1], "attention: heads of k and v");
  require_equal(q.dims[3], k.dims[3], "attention: head size of q and k");
  require_equal(k.dims[2], v.dims[2], "attention: rows of k and v");
  if (!exact_divide(q.dims[1], k.dims[1]))
    refuse("E151", "attention: ", q.dims[1], " heads are no multiple of ", k.dims[1], " key heads");
  return {Shape{q.dtype, {q.dims[0], q.dims[1], q.dims[2], v.dims[3]}}};
}

}  // namespace weft
