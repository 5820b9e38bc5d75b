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
    case Type::Kind::tensor: return to_string(type.shape);
    case Type::Kind::sequence: return cat("sequence(", *type.element, ")");
    case Type::Kind::optional: return cat("optional(", *type.element, ")");
    case Type::Kind::map: return cat("map(", type.key, ", ", *type.element, ")");
  }
  return {};
}

Dim placeholder(std::string_view name) { return Dim::symbol({.name = std::string(name)}); }

bool is_placeholder(const Dims& dims, std::string_view name) {
  return dims.size() == 1 && dims[0].as_symbol() && dims[0].as_symbol()->name == name;
}

Type as_element(const Type& type) {
  Type element = type;
  if (!type.is_tensor()) return element;
  for (Dim& dim : element.shape.dims) {
    bool stays = dim.is_constant() || (dim.as_symbol() && is_placeholder(*dim.as_symbol()));
    if (!stays) dim = placeholder(any_size);
  }
  return element;
}

/// Returns `a` with `_` where `b` has another size, or `_rank` if the ranks differ or are unknown. If one list is
/// `_none`, returns the other list.
static Dims common_sizes(const Dims& a, const Dims& b) {
  if (is_placeholder(a, no_element)) return b;
  if (is_placeholder(b, no_element)) return a;
  bool is_open = is_placeholder(a, any_rank) || is_placeholder(b, any_rank) || a.size() != b.size();
  if (is_open) return {placeholder(any_rank)};
  Dims dims = a;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (!(a[i] == b[i])) dims[i] = placeholder(any_size);
  }
  return dims;
}

std::optional<Type> common_element(const Type& a, const Type& b) {
  if (!same_but_sizes(a, b)) return std::nullopt;
  Type common = as_element(a);
  if (a.is_tensor()) {
    common.shape.dims = common_sizes(common.shape.dims, as_element(b).shape.dims);
    return common;
  }
  auto element = common_element(*a.element, *b.element);
  if (!element) return std::nullopt;
  common.element = std::make_shared<const Type>(*element);
  return common;
}

bool same_but_sizes(const Type& a, const Type& b) {
  if (a.kind != b.kind) return false;
  if (a.is_tensor()) return a.shape.dtype == b.shape.dtype;
  return (a.kind != Type::Kind::map || a.key == b.key) && same_but_sizes(*a.element, *b.element);
}

}  // namespace weft
