// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/common/expr.h"
#include "ops/indexed.h"

/// Gathers and scatters. A negative index counts from the end; an index out of range is a run-time error (E301).
namespace weft::frontend {

/// Gathers slices along an axis: x[before..., n, after...] and index[places...] -> [before..., places..., after...].
inline Expr gather(Expr x, Expr index, int64_t axis = 0) {
  return {x.at, x.at->emit(Gather{.axis = axis}, {x, index})};
}
/// Gathers single elements along an axis; the result has the sizes of the index.
inline Expr gather_elements(Expr x, Expr index, int64_t axis) {
  return {x.at, x.at->emit(GatherElements{.axis = axis}, {x, index})};
}
/// Gathers slices of x[batches..., n..., after...] to [batches..., places..., after...]. The last axis of
/// index[batches..., places..., axes] holds coordinates along the axes n..., which follow the first `batch` axes.
inline Expr gather_nd(Expr x, Expr index, int64_t batch = 0) {
  return {x.at, x.at->emit(GatherNd{.batch = batch}, {x, index})};
}

/// Returns x with `updates` written, or combined by `fn`, at `index` along an axis. `updates` has the index's sizes.
inline Expr scatter_elements(Expr x, Expr index, Expr updates, int64_t axis, ScatterFn fn = ScatterFn::replace) {
  return {x.at, x.at->emit(ScatterElements{.axis = axis, .fn = fn}, {x, index, updates})};
}
/// Returns x with slices replaced by updates[places..., after...], or combined with these by `fn`. index[places...,
/// axes] holds coordinates along x's first `axes` axes.
inline Expr scatter_nd(Expr x, Expr index, Expr updates, ScatterFn fn = ScatterFn::replace) {
  return {x.at, x.at->emit(ScatterNd{.fn = fn}, {x, index, updates})};
}

}  // namespace weft::frontend
