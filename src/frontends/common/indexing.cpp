// SPDX-License-Identifier: Apache-2.0
#include "frontends/common/indexing.h"

namespace weft::frontend {

Expr gather(Expr x, Expr index, int64_t axis) { return {x.at, x.at->emit(Gather{.axis = axis}, {x, index})}; }

Expr gather_elements(Expr x, Expr index, int64_t axis) {
  return {x.at, x.at->emit(GatherElements{.axis = axis}, {x, index})};
}

Expr gather_nd(Expr x, Expr index, int64_t batch) { return {x.at, x.at->emit(GatherNd{.batch = batch}, {x, index})}; }

Expr scatter_elements(Expr x, Expr index, Expr updates, int64_t axis, ScatterFn fn) {
  return {x.at, x.at->emit(ScatterElements{.axis = axis, .fn = fn}, {x, index, updates})};
}

Expr scatter_nd(Expr x, Expr index, Expr updates, ScatterFn fn) {
  return {x.at, x.at->emit(ScatterNd{.fn = fn}, {x, index, updates})};
}

}  // namespace weft::frontend
