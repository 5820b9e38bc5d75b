// SPDX-License-Identifier: Apache-2.0
#include "base/shape.h"

#include "base/text.h"

namespace weft {

std::string to_string(const Shape& shape) {
  std::string text = cat(shape.dtype, "[");
  for (size_t i = 0; i < shape.dims.size(); ++i) text += cat(i ? "," : "", shape.dims[i]);
  return text + "]";
}

Type Type::sequence(Type element) {
  Type type;
  type.kind = Kind::sequence;
  type.element = std::make_shared<const Type>(std::move(element));
  return type;
}

Type Type::optional(Type element) {
  Type type = sequence(std::move(element));
  type.kind = Kind::optional;
  return type;
}

Type Type::map(DType key, Type element) {
  Type type = sequence(std::move(element));
  type.kind = Kind::map;
  type.key = key;
  return type;
}

bool operator==(const Type& a, const Type& b) {
  if (a.kind != b.kind) return false;
  if (a.is_tensor()) return a.shape == b.shape;
  return (a.kind != Type::Kind::map || a.key == b.key) && *a.element == *b.element;
}

std::string to_string(const Type& type) {
  switch (type.kind) {
    case Type::Kind::tensor:
      return to_string(type.shape);
    case Type::Kind::sequence:
      return cat("sequence(", *type.element, ")");
    case Type::Kind::optional:
      return cat("optional(", *type.element, ")");
    case Type::Kind::map:
      return cat("map(", type.key, ", ", *type.element, ")");
  }
  return {};
}

}  // namespace weft
