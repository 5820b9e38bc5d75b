// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/common/expr.h"
#include "ops/indexed.h"

/// Reads and writes at indices that are data (i32 or i64). A negative index counts from the end; one out of range is an
/// error at run time (E301).
namespace weft::frontend {

/// Gathers slices along an axis: x[before..., n, after...] and index[places...] -> [before..., places..., after...].
inline Expr gather(Expr x, Expr index, int64_t axis = 0) {
  return {x.at, x.at->emit(Gather{.axis = axis}, {x, index})};
}
/// Gathers single elements along an axis; the result has the sizes of the index.
inline Expr gather_elements(Expr x, Expr index, int64_t axis) {
  return {x.at, x.at->emit(GatherElements{.axis = axis}, {x, index})};
}
/// Gathers x[batches..., n..., after...] at the coordinates in the last axis of index[batches..., places..., axes], for
/// the axes after the first `batch` ones. Returns [batches..., places..., after...].
inline Expr gather_nd(Expr x, Expr index, int64_t batch = 0) {
  return {x.at, x.at->emit(GatherNd{.batch = batch}, {x, index})};
}

/// Returns x with `updates` written, added ... at `index` along an axis; index and updates have the same sizes.
inline Expr scatter_elements(Expr x, Expr index, Expr updates, int64_t axis, ScatterFn fn = ScatterFn::replace) {
  return {x.at, x.at->emit(ScatterElements{.axis = axis, .fn = fn}, {x, index, updates})};
}
/// Returns x with slices updates[places..., after...] written at the coordinates in the last axis of index.
inline Expr scatter_nd(Expr x, Expr index, Expr updates, ScatterFn fn = ScatterFn::replace) {
  return {x.at, x.at->emit(ScatterNd{.fn = fn}, {x, index, updates})};
}

}  // namespace weft::frontend
