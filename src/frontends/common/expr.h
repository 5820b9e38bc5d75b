// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/common/builder.h"
#include "ops/build.h"
#include "ops/elementwise.h"

/// Arithmetic on values, so that an operator is written as its formula: `x * tanh(log(exp(x) + 1))`. Each function
/// appends instructions to a program. Operands are broadcast, and a number takes the type of the other operand.
namespace weft::frontend {

struct Expr {
  const Builder* at;
  Value value;
  operator Value() const { return value; }
  DType dtype() const { return value.dtype(); }
  const Dims& dims() const { return value.dims(); }
  int64_t rank() const { return value.rank(); }
};

/// Applies fn to operands, which are broadcast. Arithmetic on symbolic sizes gives symbolic sizes (Builder::emit).
Expr apply(Fn fn, const Builder& at, Values operands);
inline Expr apply(Fn fn, Expr x) { return apply(fn, *x.at, {x.value}); }
inline Expr apply(Fn fn, Expr x, Expr y) { return apply(fn, *x.at, {x.value, y.value}); }
Expr number(const Builder& at, DType type, double value);
inline Expr like(Expr x, double value) { return number(*x.at, x.dtype(), value); }

#define WEFT_BINARY(name, fn)                                                 \
  inline Expr name(Expr x, Expr y) { return apply(Fn::fn, x, y); }            \
  inline Expr name(Expr x, double y) { return apply(Fn::fn, x, like(x, y)); } \
  inline Expr name(double x, Expr y) { return apply(Fn::fn, like(y, x), y); }
WEFT_BINARY(operator+, add)
WEFT_BINARY(operator-, sub)
WEFT_BINARY(operator*, mul)
WEFT_BINARY(operator/, div)
WEFT_BINARY(operator<, less)
WEFT_BINARY(operator<=, less_equal)
WEFT_BINARY(operator>, greater)
WEFT_BINARY(operator>=, greater_equal)
WEFT_BINARY(equal, equal)
WEFT_BINARY(min, min)
WEFT_BINARY(max, max)
WEFT_BINARY(pow, pow)
WEFT_BINARY(floor_mod, floor_mod)
#undef WEFT_BINARY

inline Expr operator-(Expr x) { return apply(Fn::neg, x); }
inline Expr operator&(Expr x, Expr y) { return apply(Fn::logical_and, x, y); }
inline Expr operator|(Expr x, Expr y) { return apply(Fn::logical_or, x, y); }
inline Expr operator!(Expr x) { return apply(Fn::logical_not, x); }

#define WEFT_UNARY(name) \
  inline Expr name(Expr x) { return apply(Fn::name, x); }
WEFT_UNARY(abs)
WEFT_UNARY(sign)
WEFT_UNARY(reciprocal)
WEFT_UNARY(sqrt)
WEFT_UNARY(rsqrt)
WEFT_UNARY(exp)
WEFT_UNARY(expm1)
WEFT_UNARY(log)
WEFT_UNARY(log1p)
WEFT_UNARY(sin)
WEFT_UNARY(cos)
WEFT_UNARY(tanh)
WEFT_UNARY(erf)
WEFT_UNARY(gelu)
WEFT_UNARY(tanh_gelu)
WEFT_UNARY(sigmoid)
WEFT_UNARY(relu)
WEFT_UNARY(floor)
WEFT_UNARY(ceil)
WEFT_UNARY(round)
WEFT_UNARY(is_nan)
#undef WEFT_UNARY

/// Returns log(1 + exp(x)) in a form that does not overflow.
inline Expr softplus(Expr x) { return log1p(exp(-abs(x))) + max(x, 0); }
Expr select(Expr condition, Expr yes, Expr no);
inline Expr select(Expr condition, Expr yes, double no) { return select(condition, yes, like(yes, no)); }
inline Expr select(Expr condition, double yes, Expr no) { return select(condition, like(no, yes), no); }

Expr convert(Expr x, DType to);
Expr reshape(Expr x, Dims dims);
Expr transpose(Expr x, std::vector<int64_t> permutation);
/// Returns the axes first, first + 1 ... rank - 1.
std::vector<int64_t> axes_from(int64_t first, int64_t rank);
std::vector<int64_t> inverse_of(const std::vector<int64_t>& permutation);
/// Transposes matrices (the last two axes); a vector stays unchanged.
Expr swap_last(Expr x);
Expr broadcast(Expr x, const Dims& dims);
Expr reduce(ReduceFn fn, Expr x, std::vector<int64_t> axes, bool keep = true);
Expr matmul(Expr a, Expr b);
Expr concat(const Builder& at, Values parts, int64_t axis);
/// Returns elements [start, start + size) of one axis.
Expr slice(Expr x, int64_t axis, const Dim& start, const Dim& size);
Expr reversed(Expr x, int64_t axis);
/// Adds leading axes of size 1 to x, up to this rank.
Expr with_rank(Expr x, int64_t rank);
/// Adds an axis of size 1 after the last one.
Expr with_last_axis(Expr x);
/// Reshapes a vector to a tensor of `rank` axes with its elements along `axis`: [n] -> [1, n, 1, 1].
Expr along(Expr x, int64_t axis, int64_t rank);
/// Returns the vector 0, 1, 2 ... of this size.
Expr iota(const Builder& at, const Dim& size, DType type = DType::i64);
/// Returns the sizes as a vector of i64.
Expr sizes(const Builder& at, Dims dims);
Expr scalar(const Builder& at, const Dim& size, DType type = DType::i64);
Expr full(const Builder& at, DType type, const Dims& dims, double value);

}  // namespace weft::frontend
