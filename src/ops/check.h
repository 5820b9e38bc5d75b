// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "base/error.h"
#include "ir/module.h"

/// Checks for shape rules. The errors show the operands' shapes; Module::append adds the node.
namespace weft::shape_rule {

/// Throws a model error with the concatenated `args` as text.
template <class... Args>
[[noreturn]] void refuse(const char* code, const Args&... args) {
  throw Error({.kind = ErrorKind::model, .code = code, .what = cat(args...)});
}

inline void operand_count(std::string_view op, Operands in, size_t low, size_t high) {
  if (in.size() < low || in.size() > high) {
    refuse("E140", op, " needs ", low, low == high ? "" : cat("-", high), " inputs, has ", in.size());
  }
}

inline const Shape& tensor(std::string_view op, Operands in, size_t index) {
  if (!in[index].is_tensor()) refuse("E141", op, ": input ", index, " is ", in[index], ", not a tensor");
  return in[index].shape;
}

/// Returns the shape of operand `index`; throws for strings, which have no arithmetic.
inline const Shape& numbers(std::string_view op, Operands in, size_t index) {
  const Shape& x = tensor(op, in, index);
  if (x.dtype == DType::string) refuse("E141", op, " is not defined for ", x);
  return x;
}

/// Throws unless 0 <= axis < rank; frontends have resolved negative axes.
inline void axis_in_range(std::string_view op, int64_t axis, int64_t rank) {
  if (axis < 0 || axis >= rank) refuse("E143", op, ": axis ", axis, " is outside [0, ", rank - 1, "]");
}

inline void same_type(std::string_view op, const Shape& a, const Shape& b) {
  if (a.dtype != b.dtype) refuse("E141", op, ": element types differ: ", a, " and ", b);
}

inline void real(std::string_view op, const Shape& x) {
  if (!is_float(x.dtype)) refuse("E141", op, ": ", x, " must hold floats");
}

/// Throws unless `small` broadcasts to `large`: aligned at the last axis, each size of `small` is 1 or equal.
inline void broadcasts_to(std::string_view op, const Shape& small, std::span<const Dim> large) {
  if (small.dims.size() > large.size()) refuse("E151", op, ": ", small, " has more axes than ", large.size());
  size_t added = large.size() - small.dims.size();
  for (size_t i = 0; i < small.dims.size(); ++i) {
    if (!known_equal(small.dims[i], 1))
      require_equal(small.dims[i], large[added + i], cat(op, ": axis ", i, " of ", small));
  }
}

inline void length_is(std::string_view op, std::string_view what, size_t length, int64_t rank) {
  if (static_cast<int64_t>(length) != rank) refuse("E141", op, ": ", what, " has ", length, " entries for rank ", rank);
}

inline void same_dims(std::string_view op, const Shape& a, const Shape& b) {
  if (a.rank() != b.rank()) refuse("E151", op, ": ranks differ: ", a, " and ", b);
  for (size_t i = 0; i < a.dims.size(); ++i)
    require_equal(a.dims[i], b.dims[i], cat(op, ": axis ", i, " of ", a, " and ", b));
}

}  // namespace weft::shape_rule
