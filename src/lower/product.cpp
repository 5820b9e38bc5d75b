// SPDX-License-Identifier: Apache-2.0
#include "lower/product.h"

#include <algorithm>
#include <numeric>

#include "lower/gpu/products.h"
#include "ops/dot.h"

namespace weft {

Batch leading(const View& view, size_t count) {
  auto n = static_cast<std::ptrdiff_t>(count);
  return {{view.dims.begin(), view.dims.begin() + n}, {view.strides.begin(), view.strides.begin() + n}};
}

bool is_repeated(const Batch& batch) {
  for (size_t i = 0; i < batch.dims.size(); ++i) {
    if (!known_equal(batch.strides[i], 0) && !known_equal(batch.dims[i], 1)) return false;
  }
  return true;
}

std::string batch_offset(KernelBuilder& kernel, Batch batch, const std::string& at) {
  std::vector<Dims> strides{batch.strides};
  collapse_axes(batch.dims, strides);
  std::string text = "0", rest = at;
  for (size_t i = batch.dims.size(); i-- > 0;) {
    std::string stride = kernel.size(strides[0][i]), size = kernel.size(batch.dims[i]);
    std::string index = i == 0 ? rest : cat("(", rest, " % ", size, ")");
    if (stride != "0") text += cat(" + ", index, " * ", stride);
    rest = cat("(", rest, " / ", size, ")");
  }
  return text;
}

bool rows_are_even(const View& a) { return even_stride(a, 0, a.dims.size() - 1).has_value(); }

/// Permutes the row axes of A into memory order, if the rows then have one stride.
static void walk_as_stored(Product& p) {
  std::vector<size_t> order(p.a.dims.size());
  std::iota(order.begin(), order.end(), 0);
  auto is_before = [&](size_t a, size_t b) {
    int64_t first = typical_size(p.a.strides[a]), second = typical_size(p.a.strides[b]);
    return first != second ? first > second : a < b;
  };
  std::sort(order.begin(), order.end() - 1, is_before);
  View permuted_rows = permuted(p.a, order);
  if (!rows_are_even(permuted_rows)) return;
  p.a = std::move(permuted_rows);
  p.order = std::move(order);
}

Product as_product(Lowering& lowering, const Instruction& dot, Value rows) {
  Product p{.a = lowering.view_of(rows),
            .b = lowering.view_of(dot.inputs[1]),
            .batch_axes = 0,
            .batch = 1,
            .m = 1,
            .n = 0,
            .k = 0};
  size_t rank = p.a.dims.size();
  p.k = p.b.dims[rank - 2].is_constant() ? p.b.dims[rank - 2] : p.a.dims[rank - 1];  // B's k is constant more often
  p.n = p.b.dims[rank - 1];
  p.batch_axes = rank - 2;
  if (!dot.is<GroupedDot>() && is_repeated(leading(p.b, rank - 2))) {
    if (!rows_are_even(p.a) && lowering.on_gpu()) walk_as_stored(p);
    if (!rows_are_even(p.a)) p.a = lowering.contiguous_view_of(rows);
    p.batch_axes = 0;
  }
  for (size_t i = 0; i + 1 < rank; ++i) (i < p.batch_axes ? p.batch : p.m) *= p.a.dims[i];
  return p;
}

Dim row_stride(const Product& p) { return *even_stride(p.a, p.batch_axes, p.a.dims.size() - 1); }

Iteration result_iteration(const Dims& dims, size_t batch_axes) {
  Iteration iteration{.dims = dims, .group_begin = {batch_axes, dims.size() - 1}, .coordinates = {"row", "col"}};
  if (batch_axes == 0) return iteration;
  iteration.group_begin.insert(iteration.group_begin.begin(), 0);
  iteration.coordinates.insert(iteration.coordinates.begin(), "at");
  return iteration;
}

Iteration result_iteration(const Dims& dims, const Product& p) {
  Dims ordered;
  for (size_t axis : p.order) ordered.push_back(dims[axis]);
  Iteration iteration = result_iteration(p.order.empty() ? dims : ordered, p.batch_axes);
  iteration.stored = p.stored;
  return iteration;
}

}  // namespace weft
