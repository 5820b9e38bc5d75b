// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/dim.h"
#include "base/dtype.h"

namespace weft {

/// Element type and sizes of a dense tensor. There are no strides: the IR speaks of values, and lowering chooses how
/// they lie in memory.
struct Shape {
  DType dtype = DType::f32;
  Dims dims = {};

  int64_t rank() const { return static_cast<int64_t>(dims.size()); }
  Dim elements() const { return product(dims); }
  bool is_static() const { return all_constant(dims); }
  bool operator==(const Shape&) const = default;
};

/// "f32[2,batch]"; a scalar prints as "f32[]".
std::string to_string(const Shape& shape);

/// The type of a value: a tensor, or one of ONNX's containers around other types.
struct Type {
  enum class Kind : uint8_t { tensor, sequence, optional, map };
  Kind kind = Kind::tensor;
  Shape shape = {};                               ///< tensor
  std::shared_ptr<const Type> element = nullptr;  ///< sequence, optional, map (the values)
  DType key = DType::i64;                         ///< map

  Type() = default;
  Type(Shape s) : shape(std::move(s)) {}  // NOLINT: a shape is a tensor type
  static Type sequence(Type element);
  static Type optional(Type element);
  static Type map(DType key, Type element);
  bool is_tensor() const { return kind == Kind::tensor; }
};
bool operator==(const Type& a, const Type& b);

/// "f32[2,3]", "sequence(f32[2])", "optional(...)", "map(string, f32[])".
std::string to_string(const Type& type);

}  // namespace weft
