// SPDX-License-Identifier: Apache-2.0
#pragma once
/// Functions that print and parse fields of operators and replace symbols in them, with an overload for each type.
#include <concepts>
#include <type_traits>

#include "ir/op.h"

namespace weft::fields {

// An enumeration prints by name if its namespace has `std::span<const std::string_view> names(MyEnum)`.
template <class T>
concept NamedEnum = std::is_enum_v<T> && requires(T value) {
  { names(value) } -> std::convertible_to<std::span<const std::string_view>>;
};

inline std::string print(bool value, const PrintContext&) { return value ? "true" : "false"; }
inline std::string print(int64_t value, const PrintContext&) { return cat(value); }
inline std::string print(double value, const PrintContext&) { return cat(value); }
std::string print(const std::string& value, const PrintContext&);  ///< in quotes
inline std::string print(DType value, const PrintContext&) { return cat(value); }
inline std::string print(const Dim& value, const PrintContext&) { return cat(value); }
std::string print(const Tensor& value, const PrintContext&);
std::string print(const Type& value, const PrintContext&);
template <NamedEnum E>
std::string print(E value, const PrintContext&) {
  return std::string(enum_name(value));
}
template <class T>
std::string print(const std::vector<T>& values, const PrintContext& context) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i) text += (i ? ", " : "") + print(static_cast<const T&>(values[i]), context);
  return text + "]";
}

[[noreturn]] void refuse(std::string_view text, std::string_view wanted);
/// Splits "[a, b(c, d), e]" into its items.
std::vector<std::string_view> list_items(std::string_view text);

void parse(std::string_view text, bool& out, const ParseContext&);
void parse(std::string_view text, int64_t& out, const ParseContext&);
void parse(std::string_view text, double& out, const ParseContext&);
void parse(std::string_view text, std::string& out, const ParseContext&);
void parse(std::string_view text, DType& out, const ParseContext&);
void parse(std::string_view text, Dim& out, const ParseContext&);
void parse(std::string_view text, Tensor& out, const ParseContext&);
void parse(std::string_view text, Type& out, const ParseContext&);
template <NamedEnum E>
void parse(std::string_view text, E& out, const ParseContext&) {
  auto known = names(out);
  for (size_t i = 0; i < known.size(); ++i) {
    if (known[i] == text) return void(out = static_cast<E>(i));
  }
  refuse(text, cat("one of ", known));
}
template <class T>
void parse(std::string_view text, std::vector<T>& out, const ParseContext& context) {
  out.clear();
  for (std::string_view item : list_items(text)) {
    T value{};
    parse(item, value, context);
    out.push_back(std::move(value));
  }
}

template <class T>
void substitute(T&, const std::function<Dim(const Symbol&)>&) {}
inline void substitute(Dim& dim, const std::function<Dim(const Symbol&)>& replace) { dim = dim.substitute(replace); }
inline void substitute(Dims& dims, const std::function<Dim(const Symbol&)>& replace) {
  for (Dim& dim : dims) dim = dim.substitute(replace);
}
inline void substitute(Type& type, const std::function<Dim(const Symbol&)>& replace) {
  substitute(type.shape.dims, replace);
}
inline void substitute(Types& types, const std::function<Dim(const Symbol&)>& replace) {
  for (Type& type : types) substitute(type, replace);
}

}  // namespace weft::fields
