// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/dim.h"
#include "base/dtype.h"

namespace weft {

/// Element type and sizes of a dense tensor. A shape has no strides: lowering chooses the layout in memory.
struct Shape {
  DType dtype = DType::f32;
  Dims dims = {};

  int64_t rank() const { return static_cast<int64_t>(dims.size()); }
  Dim elements() const { return product(dims); }
  bool is_static() const { return all_constant(dims); }
  bool operator==(const Shape&) const = default;
};

/// Returns the shape as text: "f32[2,batch]"; a scalar is "f32[]".
std::string to_string(const Shape& shape);

/// The type of a value: a tensor, or one of ONNX's containers around other types.
struct Type {
  enum class Kind : uint8_t { tensor, sequence, optional, map };
  Kind kind = Kind::tensor;
  Shape shape = {};                               ///< of a tensor
  std::shared_ptr<const Type> element = nullptr;  ///< of the items of a sequence or optional, or the values of a map
  DType key = DType::i64;                         ///< of the keys of a map

  Type() = default;
  Type(Shape s) : shape(std::move(s)) {}  // NOLINT: a shape is a tensor type
  static Type sequence(Type element);
  static Type optional(Type element);
  static Type map(DType key, Type element);
  bool is_tensor() const { return kind == Kind::tensor; }
};
bool operator==(const Type& a, const Type& b);

/// Returns the type as text: "f32[2,3]", "sequence(f32[2])", "optional(...)", "map(string, f32[])".
std::string to_string(const Type& type);

// The elements of one container may differ in their sizes. The element type then has the placeholder `_` for each size
// that differs or is not a number. If the ranks differ, its only size is `_rank`; if there is no element yet, `_none`.
// Nothing computes with these placeholders.

inline constexpr std::string_view any_size = "_", any_rank = "_rank", no_element = "_none";
inline bool is_placeholder(const Symbol& symbol) {
  return symbol.name == any_size || symbol.name == any_rank || symbol.name == no_element;
}
Dim placeholder(std::string_view name);
/// True if `dims` consists of this placeholder only.
bool is_placeholder(const Dims& dims, std::string_view name);
/// Returns the type as the element type of a container: sizes that are not numbers become `_`.
Type as_element(const Type& type);
/// Returns the most specific element type that covers both types; nothing if they differ in more than sizes.
std::optional<Type> common_element(const Type& a, const Type& b);
/// True if the two types, and the types inside them, differ in sizes only.
bool same_but_sizes(const Type& a, const Type& b);

}  // namespace weft
