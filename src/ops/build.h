// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <initializer_list>
#include <optional>

#include "ir/module.h"
#include "ops/dot.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "ops/views.h"

/// Short functions that append instructions, for frontends and passes.
///
///     Value y = apply(module, Fn::add, {x, constant(module, DType::f32, 1)});   // broadcasts by itself
namespace weft {

Value constant(Module& module, Tensor tensor);
Value constant(Module& module, DType type, double value);  ///< a scalar
Value sizes(Module& module, Dims dims);                    ///< i64[rank], a plain constant when all are numbers

/// NumPy's broadcasting of several shapes. Sizes that may or may not be equal are required to be (a guard).
Dims broadcast_dims(std::span<const Dims> shapes, std::string_view what);
Value broadcast(Module& module, Value x, const Dims& dims);  ///< x itself if it has these sizes

/// fn of operands that are broadcast against each other.
Value apply(Module& module, Fn fn, std::span<const Value> operands);
inline Value apply(Module& module, Fn fn, std::initializer_list<Value> operands) {
  return apply(module, fn, std::span(operands.begin(), operands.size()));
}
/// fn(x, number): the number takes x's type.
Value apply(Module& module, Fn fn, Value x, double y);

Value convert(Module& module, Value x, DType to);                            ///< x itself if it has that type
Value reshape(Module& module, Value x, Dims dims);                           ///< x itself if it has these sizes
Value transpose(Module& module, Value x, std::vector<int64_t> permutation);  ///< x itself for the identity
Value reduce(Module& module, ReduceFn fn, Value x, std::vector<int64_t> axes, bool keep);
/// Elements [start, start + size) of one axis.
Value slice_axis(Module& module, Value x, int64_t axis, const Dim& start, const Dim& size);
Value concat(Module& module, std::span<const Value> parts, int64_t axis);
/// NumPy's matmul: vectors, broadcast batches.
Value matmul(Module& module, Value a, Value b);

/// The elements of an i64 vector of known length as run-time symbols, each at least `least` (and at most `most`, one
/// for each or none). The same value gives the same symbols again.
Dims bind_sizes(Module& module, Value vector, int64_t least = 0, Dims most = {});
/// The elements of a small integer tensor as sizes. Elements that are not known while compiling are bound to run-time
/// symbols. Sums with constants stay sums.
Dims sizes_in(Module& module, Value value, int64_t least = 0);

/// The elements of a small integer tensor (rank 0 or 1) as size expressions, when they are known without running: a
/// constant, sizes, or a reshape or conversion of those.
std::optional<Dims> known_contents(Value value);
/// The same for each element of a concatenation; null for run-time elements.
std::vector<std::optional<Dim>> partly_known_contents(Value value);
/// Computes an integer instruction on known contents: returns the value as `sizes` (or a constant), otherwise `value`
/// itself. Frontends call it on new instructions, so that shape arithmetic stays symbolic.
Value fold_sizes(Module& module, Value value);

}  // namespace weft
