// SPDX-License-Identifier: Apache-2.0
// Operators that read or write at positions given by data.
#include <algorithm>

#include "frontends/onnx/expr.h"
#include "ops/indexed.h"

namespace weft::onnx {
namespace {

size_t at(int64_t i) { return static_cast<size_t>(i); }

Values gather(Call& c) {
  int64_t axis = c.axis(c.integer("axis", 0), c.input(0).rank());
  return {c.emit(Gather{.axis = axis}, {c.input(0), c.input(1)})};
}

Values gather_elements(Call& c) {
  int64_t axis = c.axis(c.integer("axis", 0), c.input(0).rank());
  return {c.emit(GatherElements{.axis = axis}, {c.input(0), c.input(1)})};
}

Values gather_nd(Call& c) { return {c.emit(GatherNd{.batch = c.integer("batch_dims", 0)}, {c.input(0), c.input(1)})}; }

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
  int64_t axis = c.axis(c.integer("axis", 0), c.input(0).rank());
  return {c.emit(ScatterElements{.axis = axis, .fn = scatter_fn(c)}, {c.input(0), c.input(1), c.input(2)})};
}

Values scatter_nd(Call& c) { return {c.emit(ScatterNd{.fn = scatter_fn(c)}, {c.input(0), c.input(1), c.input(2)})}; }

/// Writes `update` into a cache along `axis`, for each batch from its own position on; circular wraps around the end.
Values tensor_scatter(Call& c) {
  Expr cache = arg(c, 0), update = arg(c, 1);
  int64_t axis = c.axis(c.integer("axis", -2), cache.rank());
  std::string mode = c.text("mode", "linear");
  if (mode != "linear" && mode != "circular")
    c.fail("E145", cat("mode '", printable(mode), "' is not linear or circular"));
  Expr position = along(iota(c, update.dims()[at(axis)]), axis, cache.rank());
  if (c.has_input(2)) position = position + along(convert(arg(c, 2), DType::i64), 0, cache.rank());
  if (mode == "circular") position = floor_mod(position, scalar(c, cache.dims()[at(axis)]));
  return {c.emit(ScatterElements{.axis = axis}, {cache, broadcast(position, update.dims()), update})};
}

constexpr Operator table[] = {
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

std::span<const Operator> indexing_operators() { return table; }

}  // namespace weft::onnx
