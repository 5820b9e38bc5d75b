// SPDX-License-Identifier: Apache-2.0
#include "frontends/common/create.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ir/core_ops.h"
#include "ops/indexed.h"

namespace weft::frontend {

constexpr int64_t max_steps = int64_t{1} << 40;

static int64_t count_steps(const Builder& c, double start, double limit, double delta) {
  if (delta == 0) c.fail("E156", "has a step of 0");
  double count = std::max(std::ceil((limit - start) / delta), 0.0);
  if (!(count < static_cast<double>(max_steps)))
    c.fail("E156", cat("from ", start, " to ", limit, " by ", delta, " has too many elements"));
  return static_cast<int64_t>(count);
}

/// Builds a range with a number of elements that is computed at run time.
static Expr range_by_data(Expr start, Expr limit, Expr delta) {
  const Builder& c = *start.at;
  auto wide = [](Expr x) { return convert(x, DType::f64); };
  Expr steps = max(ceil((wide(limit) - wide(start)) / wide(delta)), 0);
  Dim count = c.sizes_or_bound(reshape(convert(steps, DType::i64), {1}), {std::nullopt}, {max_steps})[0];
  start = reshape(start, {}), limit = reshape(limit, {}), delta = reshape(delta, {});
  DType own = start.dtype(), type = own == DType::f64 ? DType::f64 : is_float(own) ? DType::f32 : DType::i64;
  return convert(convert(iota(c, count), type) * convert(delta, type) + convert(start, type), own);
}

static std::optional<double> constant_number(Expr x) {
  const auto* op = x.value.def->as<Constant>();
  return op ? std::optional(to_doubles(op->tensor).at(0)) : std::nullopt;
}

Expr range(Expr start, Expr limit, Expr delta) {
  const Builder& c = *start.at;
  DType type = start.dtype();
  for (Expr x : {start, limit, delta}) {
    if (known_different(x.value.shape().elements(), 1))
      c.fail("E140", cat("needs single numbers, has ", x.value.shape()));
  }
  auto from = constant_number(start), to = constant_number(limit), by = constant_number(delta);
  if (is_float(type) && from && to && by)
    return convert(convert(iota(c, count_steps(c, *from, *to, *by)), DType::f64) * *by + *from, type);
  if (is_float(type) || !known_contents(delta)) return range_by_data(start, limit, delta);
  if (!is_integer(type)) c.unsupported(cat("of ", type, " is not supported"));
  auto size = [&](Expr x, int64_t least) { return sizes_in(c.module(), x, least).at(0); };
  Dim first = size(start, INT64_MIN), last = size(limit, INT64_MIN), step = size(delta, 0);
  if (known_equal(step, 0)) c.fail("E156", "has a step of 0");
  if (step.lower_bound() <= 0 && step.upper_bound() >= 0) return range_by_data(start, limit, delta);
  Dim count = max(step.upper_bound() < 0 ? ceildiv(first - last, Dim(0) - step) : ceildiv(last - first, step), 0);
  Expr steps = iota(c, count);
  if (!(step == Dim(1))) steps = steps * scalar(c, step);
  if (!(first == Dim(0))) steps = steps + scalar(c, first);
  return convert(steps, type);
}

Expr triangle(const Dim& rows, const Dim& columns, Expr offset, bool upper) {
  const Builder& c = *offset.at;
  Expr row = along(iota(c, rows), 0, 2), column = along(iota(c, columns), 1, 2);
  return upper ? row + offset <= column : column <= row + offset;
}

Expr triangle_of(Expr x, Expr offset, bool upper) {
  if (x.rank() < 2) x.at->fail("E140", cat("needs rank 2 or more, has ", x.value.shape()));
  Expr keeps = triangle(x.dims()[x.dims().size() - 2], x.dims().back(), offset, upper);
  return select(keeps, x, full(*x.at, x.dtype(), {}, 0));
}

Expr eye(const Builder& b, const Dim& rows, const Dim& columns, DType type, int64_t offset) {
  Expr row = along(iota(b, rows), 0, 2), column = along(iota(b, columns), 1, 2);
  return convert(equal(row + static_cast<double>(offset), column), type);
}

}  // namespace weft::frontend
