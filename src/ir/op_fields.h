// SPDX-License-Identifier: Apache-2.0
#pragma once
/// The templates that make an OpInfo out of an operator's fields(). ops/registry.cpp instantiates them for every
/// operator, so that no other file has to.
#include <concepts>
#include <tuple>
#include <type_traits>

#include "ir/op.h"

namespace weft::fields {

// Enumerations of operators print by name: `std::span<const std::string_view> names(MyEnum)` is found beside the enum.
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
  return std::string(names(value)[static_cast<size_t>(value)]);
}
template <class T>
std::string print(const std::vector<T>& values, const PrintContext& context) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i) text += (i ? ", " : "") + print(static_cast<const T&>(values[i]), context);
  return text + "]";
}

[[noreturn]] void refuse(std::string_view text, std::string_view wanted);
/// The items of "[a, b(c, d), e]".
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

template <class T>
std::vector<Attribute> print_all(const Op& op, const PrintContext& context) {
  std::vector<Attribute> attributes;
  auto print_one = [&](const auto& field) {
    attributes.push_back({field.name, print(op.as<T>()->*field.member, context)});
  };
  std::apply([&](const auto&... field) { (print_one(field), ...); }, T::fields());
  return attributes;
}

template <class T>
bool parse_one(T& op, const Attribute& attribute, const ParseContext& context) {
  auto matches = [&](const auto& field) {
    if (field.name != attribute.name) return false;
    parse(attribute.text, op.*field.member, context);
    return true;
  };
  return std::apply([&](const auto&... field) { return (matches(field) || ...); }, T::fields());
}

template <class T>
Op parse_all(std::span<const Attribute> attributes, const ParseContext& context) {
  T op;
  for (const Attribute& attribute : attributes) {
    if (!parse_one(op, attribute, context)) refuse(attribute.name, cat("a field of ", T::name));
  }
  return op;
}

template <class T>
Op substitute_all(const Op& op, const std::function<Dim(const Symbol&)>& replace) {
  T copy = *op.as<T>();
  std::apply([&](const auto&... field) { (substitute(copy.*field.member, replace), ...); }, T::fields());
  return copy;
}

template <class T>
constexpr auto evaluator() -> std::vector<Wide> (*)(const Op&, std::span<const Wide>) {
  if constexpr (requires(const T& op, std::span<const Wide> in) { op.evaluate(in); }) {
    return [](const Op& op, std::span<const Wide> in) { return op.as<T>()->evaluate(in); };
  } else {
    return nullptr;
  }
}

template <class T>
constexpr auto displayer() -> std::string_view (*)(const Op&) {
  if constexpr (requires(const T& op) { op.display_name(); }) {
    return [](const Op& op) { return op.as<T>()->display_name(); };
  } else {
    return nullptr;
  }
}

template <class T>
constexpr OpInfo make_info() {
  return {.name = T::name,
          .infer = [](const Op& op, Operands in) { return Types(op.as<T>()->infer(in)); },
          .evaluate = evaluator<T>(),
          .print = &print_all<T>,
          .parse = &parse_all<T>,
          .equal = [](const Op& a, const Op& b) { return *a.as<T>() == *b.as<T>(); },
          .substitute = &substitute_all<T>,
          .display = displayer<T>(),
          .has_side_effects = requires {T::has_side_effects;
}
};  // namespace weft::fields
}

}  // namespace weft::fields

namespace weft {

template <class T>
const OpInfo& op_info() {
  static constexpr OpInfo info = fields::make_info<T>();
  return info;
}

template <class T>
  requires requires { T::fields(); }
Op::Op(T op) : info_(&op_info<T>()), data_(std::make_shared<const T>(std::move(op))) {}

}  // namespace weft
