// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <charconv>
#include <concepts>
#include <cstdint>
#include <ranges>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

/// Builds text without <format>, which libstdc++ 12 lacks: `cat("axis ", axis, " is outside [", lo, ", ", hi, "]")`.
namespace weft {

inline void append(std::string& out, std::string_view text) { out += text; }
inline void append(std::string& out, const char* text) { out += text; }
inline void append(std::string& out, const std::string& text) { out += text; }
inline void append(std::string& out, char c) { out += c; }
inline void append(std::string& out, bool value) { out += value ? "true" : "false"; }

template <std::integral T>
void append(std::string& out, T value) {
  char digits[24];
  auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  out.append(digits, end);
}

/// Appends the shortest decimal form that reads back as the same value.
template <std::floating_point T>
void append(std::string& out, T value) {
  char digits[64];
  auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  out.append(digits, end);
}

/// Appends any type that has a function `std::string to_string(x)` in its namespace.
template <class T>
  requires(!std::is_arithmetic_v<T>) && requires(const T& x) {
    { to_string(x) } -> std::convertible_to<std::string>;
  }
void append(std::string& out, const T& value) {
  out += to_string(value);
}

/// Returns the name of an enumerator. The enum must have a function `names(value)` that lists the names in order.
template <class Enum>
std::string_view enum_name(Enum value) {
  return names(value)[static_cast<size_t>(value)];
}

/// Appends a range as `[a, b, c]`.
template <std::ranges::range R>
  requires(!std::convertible_to<R, std::string_view>)
void append(std::string& out, const R& items) {
  out += '[';
  bool first = true;
  for (const auto& item : items) {
    if (!first) out += ", ";
    first = false;
    append(out, item);
  }
  out += ']';
}

template <class... Args>
std::string cat(const Args&... args) {
  std::string out;
  (append(out, args), ...);
  return out;
}

/// Returns `text` with control bytes and invalid UTF-8 as \xNN, so that a model's names are safe to show on a terminal.
std::string printable(std::string_view text);

/// Returns at most `limit` likely spellings of `name` among `names`, joined by commas, nearest by edit distance first.
std::string nearest_names(std::string_view name, const std::vector<std::string>& names, size_t limit = 3);

/// Splits at each `separator`; an empty rest at the end is not a piece.
std::vector<std::string_view> split(std::string_view text, char separator);
std::string_view trim(std::string_view text);

}  // namespace weft
