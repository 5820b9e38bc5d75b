// SPDX-License-Identifier: Apache-2.0
#include "frontends/common/expr.h"

#include <algorithm>

#include "ops/indexed.h"
#include "ops/views.h"

namespace weft::frontend {

Expr apply(Fn fn, const Builder& at, Values operands) {
  std::vector<Dims> shapes;
  for (const Value& operand : operands) shapes.push_back(operand.dims());
  GuardCollector guards(at.module());
  Dims dims = broadcast_dims(shapes, info(fn).name);
  for (Value& operand : operands) operand = broadcast({&at, operand}, dims);
  return {&at, at.emit(Elementwise{.fn = fn}, std::move(operands))};
}

Expr number(const Builder& at, DType type, double value) {
  if (type == DType::string || is_complex(type))
    at.fail("E141", cat("computes with numbers, and an input is of ", type));
  return {&at, constant(at.module(), type, value)};
}

Expr select(Expr condition, Expr yes, Expr no) {
  return apply(Fn::select, *yes.at, {condition.value, yes.value, no.value});
}

Expr convert(Expr x, DType to) {
  if (x.dtype() == to) return x;
  return {x.at, x.at->emit(Convert{.to = to}, {x.value})};
}

Expr reshape(Expr x, Dims dims) {
  if (x.dims() == dims) return x;
  return {x.at, x.at->emit(Reshape{.dims = std::move(dims)}, {x.value})};
}

Expr transpose(Expr x, std::vector<int64_t> permutation) {
  if (std::ranges::is_sorted(permutation)) return x;
  return {x.at, x.at->emit(Transpose{.permutation = std::move(permutation)}, {x.value})};
}

std::vector<int64_t> axes_from(int64_t first, int64_t rank) {
  std::vector<int64_t> axes;
  for (int64_t a = first; a < rank; ++a) axes.push_back(a);
  return axes;
}

std::vector<int64_t> inverse_of(const std::vector<int64_t>& permutation) {
  std::vector<int64_t> back(permutation.size());
  for (size_t k = 0; k < back.size(); ++k) back[permutation[k]] = static_cast<int64_t>(k);
  return back;
}

Expr swap_last(Expr x) {
  auto order = axes_from(0, x.rank());
  if (order.size() > 1) std::swap(order[order.size() - 1], order[order.size() - 2]);
  return transpose(x, order);
}

Expr broadcast(Expr x, const Dims& dims) {
  if (x.dims() == dims) return x;
  return {x.at, x.at->emit(Broadcast{.dims = dims}, {with_ones(x.at->module(), x.value, dims)})};
}

Expr reduce(ReduceFn fn, Expr x, std::vector<int64_t> axes, bool keep) {
  std::ranges::sort(axes);
  return {x.at, x.at->emit(Reduce{.fn = fn, .axes = std::move(axes), .keep = keep}, {x.value})};
}

Expr matmul(Expr a, Expr b) { return {a.at, weft::matmul(a.at->module(), a.value, b.value)}; }

Expr concat(const Builder& at, Values parts, int64_t axis) {
  if (parts.size() == 1) return {&at, parts[0]};
  return {&at, at.emit(Concat{.axis = axis}, std::move(parts))};
}

Expr slice(Expr x, int64_t axis, const Dim& start, const Dim& size) {
  if (axis < 0 || axis >= x.rank()) x.at->fail("E140", cat("needs axis ", axis, ", has ", x.value.shape()));
  Slice op{.starts = Dims(x.dims().size(), 0), .sizes = x.dims(), .steps = std::vector<int64_t>(x.dims().size(), 1)};
  op.starts[axis] = start;
  op.sizes[axis] = size;
  if (op.sizes == x.dims() && start == Dim(0)) return x;
  return {x.at, x.at->emit(std::move(op), {x.value})};
}

Expr reversed(Expr x, int64_t axis) {
  if (axis < 0 || axis >= x.rank()) x.at->fail("E140", cat("needs axis ", axis, ", has ", x.value.shape()));
  Slice op{.starts = Dims(x.dims().size(), 0), .sizes = x.dims(), .steps = std::vector<int64_t>(x.dims().size(), 1)};
  op.starts[axis] = x.dims()[axis] - 1;
  op.steps[axis] = -1;
  return {x.at, x.at->emit(std::move(op), {x.value})};
}

Expr with_rank(Expr x, int64_t rank) {
  Dims dims(std::max<int64_t>(rank - x.rank(), 0), 1);
  dims.insert(dims.end(), x.dims().begin(), x.dims().end());
  return reshape(x, dims);
}

Expr with_last_axis(Expr x) {
  Dims dims = x.dims();
  dims.push_back(1);
  return reshape(x, dims);
}

Expr along(Expr x, int64_t axis, int64_t rank) {
  Dims dims(rank, 1);
  dims[x.at->axis(axis, rank)] = x.value.shape().elements();
  return reshape(x, dims);
}

Expr iota(const Builder& at, const Dim& size, DType type) {
  return {&at, at.emit(Iota{.dims = {size}, .axis = 0, .type = type}, {})};
}

Expr sizes(const Builder& at, Dims dims) { return {&at, weft::sizes(at.module(), std::move(dims))}; }

Expr scalar(const Builder& at, const Dim& size, DType type) { return convert(reshape(sizes(at, {size}), {}), type); }

Expr full(const Builder& at, DType type, const Dims& dims, double value) {
  return broadcast(number(at, type, value), dims);
}

}  // namespace weft::frontend
