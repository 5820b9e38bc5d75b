// SPDX-License-Identifier: Apache-2.0
// Operators that read or write at positions given by data.

#include "frontends/common/indexing.h"
#include "frontends/onnx/import/expr.h"

namespace weft::onnx {
namespace {

int64_t own_axis(Call& c) { return c.axis(c.integer("axis", 0), c.input(0).rank()); }

Values gather(Call& c) { return {gather(arg(c, 0), arg(c, 1), own_axis(c))}; }
Values gather_elements(Call& c) { return {gather_elements(arg(c, 0), arg(c, 1), own_axis(c))}; }
Values gather_nd(Call& c) { return {gather_nd(arg(c, 0), arg(c, 1), c.integer("batch_dims", 0))}; }

ScatterFn scatter_fn(Call& c) {
  std::string name = c.text("reduction", "none");
  if (name == "none") return ScatterFn::replace;
  if (name == "add") return ScatterFn::add;
  if (name == "mul") return ScatterFn::mul;
  if (name == "min") return ScatterFn::min;
  if (name == "max") return ScatterFn::max;
  c.fail("E145", cat("reduction '", printable(name), "' is not none, add, mul, min or max"));
}

Values scatter_elements(Call& c) {
  int64_t axis = own_axis(c);
  return {scatter_elements(arg(c, 0), arg(c, 1), arg(c, 2), axis, scatter_fn(c))};
}

Values scatter_nd(Call& c) { return {scatter_nd(arg(c, 0), arg(c, 1), arg(c, 2), scatter_fn(c))}; }

/// Writes `update` into a cache along `axis`, at a start for each batch element. Mode circular wraps around the end.
Values tensor_scatter(Call& c) {
  Expr cache = arg(c, 0), update = arg(c, 1);
  int64_t axis = c.axis(c.integer("axis", -2), cache.rank());
  std::string mode = c.text("mode", "linear");
  if (mode != "linear" && mode != "circular")
    c.fail("E145", cat("mode '", printable(mode), "' is not linear or circular"));
  Expr position = along(iota(c, update.dims()[axis]), axis, cache.rank());
  if (c.has_input(2)) position = position + along(convert(arg(c, 2), DType::i64), 0, cache.rank());
  if (mode == "circular") position = floor_mod(position, scalar(c, cache.dims()[axis]));
  return {scatter_elements(cache, broadcast(position, update.dims()), update, axis)};
}

constexpr Operator indexing_table[] = {
    {"", "Gather", gather},
    {"", "GatherElements", gather_elements},
    {"", "GatherND", gather_nd},
    {"com.microsoft", "GatherND", gather_nd},
    {"", "Scatter", scatter_elements},
    {"", "ScatterElements", scatter_elements},
    {"", "ScatterND", scatter_nd},
    {"", "TensorScatter", tensor_scatter},
};

}  // namespace

std::span<const Operator> indexing_operators() { return indexing_table; }

}  // namespace weft::onnx
