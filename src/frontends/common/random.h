// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/common/expr.h"

/// Random numbers by Philox4x32-10, a function of a counter and a key (Salmon, Moraes, Dror and Shaw, "Parallel random
/// numbers: as easy as 1, 2, 3", SC 2011). Philox needs only elementwise instructions, so every target draws the same
/// integers. An element's counter consists of its index, the stream and the trip number of the enclosing loop.
namespace weft::frontend {

/// The key and stream of an operator's random numbers.
struct RandomSource {
  Expr low, high;  ///< the key: two words of 32 bits, each in a u64
  int64_t stream;  ///< a number that no other random operator of the model has
};
/// Returns a source with the run's seed (base/random.h) as its key, so that each run gives different numbers.
RandomSource random_source(const Builder& b, int64_t stream);
/// Returns a source with `seed` as its key, so that each run gives the same numbers.
RandomSource random_source(const Builder& b, int64_t stream, uint64_t seed);

/// Returns the type in which the functions below compute numbers of `type`: f64 for f64, else f32.
inline DType random_type(DType type) { return type == DType::f64 ? DType::f64 : DType::f32; }
/// Returns uniform numbers in [0, 1) that `type` represents exactly: equally likely multiples of a power of 2.
Expr uniform(const RandomSource& from, DType type, const Dims& dims);
/// Returns exponentially distributed numbers with mean 1.
Expr exponential(const RandomSource& from, DType type, const Dims& dims);
/// Returns normally distributed numbers with mean 0 and standard deviation 1.
Expr normal(const RandomSource& from, DType type, const Dims& dims);
/// Draws classes with replacement: i64[batch, samples]. Each row of shares[batch, classes] holds probabilities.
Expr drawn(const RandomSource& from, Expr shares, const Dim& samples);
/// Draws classes without replacement, with probabilities proportional to weights[batch, classes]: i64[batch, samples].
Expr drawn_once(const RandomSource& from, Expr weights, const Dim& samples);

/// The result of a dropout, and bool[places] that is true for the kept elements.
struct Dropped {
  Expr values, kept;
};
/// Drops elements with probability `share` and scales the others to keep the mean. `places` are the sizes of the mask,
/// which is broadcast to x. `as_selu`: alpha dropout sets dropped elements to selu's minimum, then scales and shifts x
/// to keep mean and standard deviation (Klambauer and others, "Self-normalizing neural networks", 2017).
Dropped dropped(const RandomSource& from, Expr x, double share, const Dims& places, bool as_selu);

}  // namespace weft::frontend
