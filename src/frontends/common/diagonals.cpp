// SPDX-License-Identifier: Apache-2.0
#include "frontends/common/diagonals.h"

#include <algorithm>

#include "frontends/common/create.h"
#include "frontends/common/indexing.h"
#include "frontends/common/views.h"

namespace weft::frontend {

Expr diagonal(Expr x, const Dim& rows, const Dim& columns, int64_t offset) {
  const Builder& c = *x.at;
  Dim down = std::max<int64_t>(-offset, 0), right = std::max<int64_t>(offset, 0);
  Dim count = max(min(rows - down, columns - right), 0);
  Dims flat(x.dims().begin(), x.dims().end() - 2);
  flat.push_back(rows * columns);
  Expr places = (iota(c, count) + scalar(c, down)) * scalar(c, columns) + iota(c, count) + scalar(c, right);
  return gather(reshape(x, flat), places, x.rank() - 2);
}

Expr on_diagonal(Expr x, const Dim& rows, const Dim& columns, int64_t offset) {
  Dim size = offset >= 0 ? rows : columns;  // element i is in row i, or in column i if offset < 0
  Dims none(x.dims().size(), 0), behind = none;
  behind.back() = size - x.dims().back();
  x = pad(x, none, behind);
  Dims dims = x.dims(), all(x.dims().begin(), x.dims().end() - 1);
  dims.insert(offset >= 0 ? dims.end() : dims.end() - 1, 1);
  all.insert(all.end(), {rows, columns});
  return broadcast(reshape(x, dims), all);
}

Expr diagonal_of(Expr x, int64_t offset) {
  Dim rows = x.dims()[x.dims().size() - 2], columns = x.dims().back();
  return diagonal(x, rows, columns, offset);
}

Expr diagonal_matrix(Expr x, int64_t offset) {
  Dim size = x.dims().back() + Dim(std::abs(offset));
  Expr mask = eye(*x.at, size, size, DType::boolean, offset);
  return select(mask, on_diagonal(x, size, size, offset), like(x, 0));
}

Expr last_moved(Expr y, int64_t a, int64_t b) {
  std::vector<int64_t> order(y.dims().size(), -1);
  order[a] = y.rank() - 2, order[b] = y.rank() - 1;
  int64_t next = 0;
  for (int64_t& axis : order)
    if (axis < 0) axis = next++;
  return transpose(y, order);
}

}  // namespace weft::frontend
