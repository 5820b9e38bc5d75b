// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/common/expr.h"

/// Random numbers: Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC
/// 2011), a function of a counter and a key, written with plain elementwise instructions, so that every target gives the
/// same. The counter of an element is its place, the stream and the trip of the loop around it.
namespace weft::frontend {

/// Where an operator's numbers come from.
struct RandomSource {
  Expr low, high;  ///< the key: two words of 32 bits, each in a u64
  int64_t stream;  ///< a number that no other random operator of the model has
};
/// The key comes from the run: different numbers at each run (base/random.h).
RandomSource random_source(const Builder& b, int64_t stream);
/// The same numbers at each run.
RandomSource random_source(const Builder& b, int64_t stream, uint64_t seed);

/// The type in which these functions compute random numbers of `type`; they return it unconverted.
inline DType random_type(DType type) { return type == DType::f64 ? DType::f64 : DType::f32; }
/// Uniform numbers in [0, 1) that `type` represents exactly: multiples of a power of 2, equally likely.
Expr uniform(const RandomSource& from, DType type, const Dims& dims);
/// Exponentially distributed numbers with mean 1.
Expr exponential(const RandomSource& from, DType type, const Dims& dims);
/// Normally distributed numbers with mean 0 and deviation 1.
Expr normal(const RandomSource& from, DType type, const Dims& dims);
/// shares[batch, classes], whose rows sum to 1 -> i64[batch, samples]: each class as often as its share says.
Expr drawn(const RandomSource& from, Expr shares, const Dim& samples);
/// Sampling without replacement: weights[batch, classes] -> i64[batch, samples].
Expr drawn_once(const RandomSource& from, Expr weights, const Dim& samples);

/// Dropout of training: each element of `places`, a size 1 or x's along each axis, is dropped with probability `share`.
struct Dropped {
  Expr values, kept;
};
/// The others are scaled up to keep the mean. `as_selu`: alpha dropout: dropped elements get selu's minimum; scale and
/// shift keep mean and deviation (Klambauer and others, "Self-normalizing neural networks", 2017).
Dropped dropped(const RandomSource& from, Expr x, double share, const Dims& places, bool as_selu);

}  // namespace weft::frontend
