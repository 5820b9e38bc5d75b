// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <initializer_list>
#include <optional>

#include "ir/module.h"
#include "ops/dot.h"
#include "ops/elementwise.h"
#include "ops/reduce.h"
#include "ops/views.h"

/// Helpers that append instructions, for frontends and passes.
///
///     Value y = apply(module, Fn::add, {x, constant(module, DType::f32, 1)});   // broadcasts the constant
namespace weft {

Value constant(Module& module, Tensor tensor);
Value constant(Module& module, DType type, double value);  ///< a scalar
Value sizes(Module& module, Dims dims);                    ///< an i64 vector; a constant if all sizes are numbers

/// Returns the NumPy broadcast of the shapes. If sizes must be equal but cannot be proved equal, adds a guard.
Dims broadcast_dims(std::span<const Dims> shapes, std::string_view what);
/// Returns x, with size 1 on each axis of open size that is assumed to be 1 when x is broadcast to `dims`.
Value with_ones(Module& module, Value x, const Dims& dims);
Value broadcast(Module& module, Value x, const Dims& dims);  ///< x itself if it has these sizes

/// Appends fn of the operands, which are broadcast against each other.
Value apply(Module& module, Fn fn, std::span<const Value> operands);
inline Value apply(Module& module, Fn fn, std::initializer_list<Value> operands) {
  return apply(module, fn, std::span(operands.begin(), operands.size()));
}
/// Appends fn(x, y), where y becomes a constant of x's type.
Value apply(Module& module, Fn fn, Value x, double y);

Value convert(Module& module, Value x, DType to);                            ///< x itself if it has that type
Value reshape(Module& module, Value x, Dims dims);                           ///< x itself if it has these sizes
Value transpose(Module& module, Value x, std::vector<int64_t> permutation);  ///< x itself for the identity
Value reduce(Module& module, ReduceFn fn, Value x, std::vector<int64_t> axes, bool keep);
/// Appends a slice: elements [start, start + size) of one axis.
Value slice_axis(Module& module, Value x, int64_t axis, const Dim& start, const Dim& size);
Value concat(Module& module, std::span<const Value> parts, int64_t axis);
/// Appends a matrix product by NumPy's rules, which allow vectors and broadcast batches.
Value matmul(Module& module, Value a, Value b);

/// Returns the elements of an i64 vector of known length as run-time symbols, each at least `least` and at most its
/// entry in `most` (empty: no limits). Repeated calls with equal arguments return the same symbols.
Dims bind_sizes(Module& module, Value vector, int64_t least = 0, Dims most = {});
/// Returns the elements of a small integer tensor as sizes. Binds elements that are not known while compiling to
/// run-time symbols; a sum of a symbol and a constant stays a sum.
Dims sizes_in(Module& module, Value value, int64_t least = 0);

/// Returns the elements of a small integer tensor (rank 0 or 1) as size expressions if it is a constant, `sizes`, or a
/// reshape or conversion of these; otherwise nothing.
std::optional<Dims> known_contents(Value value);
/// Returns the elements that known_contents can find, also in a concatenation; nothing for elements that the run
/// computes. Throws E122 for too many elements.
std::vector<std::optional<Dim>> partly_known_contents(Value value);
/// Evaluates integer arithmetic on operands with known_contents. Returns the result as `sizes` or a constant, else
/// `value` itself. Frontends call this on each new instruction, so that shape arithmetic stays symbolic.
Value fold_sizes(Module& module, Value value);

}  // namespace weft
