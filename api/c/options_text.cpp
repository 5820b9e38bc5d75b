// SPDX-License-Identifier: Apache-2.0
#include "api/c/options_text.h"

#include <charconv>

#include "base/error.h"
#include "base/text.h"

namespace weft {
namespace {

[[noreturn]] void refuse(std::string what, std::string hint) {
  throw Error({.kind = ErrorKind::usage, .code = "E203", .what = std::move(what), .hint = std::move(hint)});
}

std::optional<int64_t> parsed_number(std::string_view text) {
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

[[noreturn]] void refuse_size(std::string_view size, std::string_view whole) {
  refuse(cat("'", printable(size), "' in '", printable(whole), "' is not a size"),
         "a size is a number (224), a range (1..8, or 1..8:4 with its usual value) or ? for the model's own:  "
         "x=1..8,3,224,224");
}

ShapeRequest::Size parse_size(std::string_view text, std::string_view whole) {
  text = trim(text);
  if (text == "?" || text == "-1") return {};
  size_t dots = text.find("..");
  auto low = parsed_number(text.substr(0, dots));
  size_t colon = dots == std::string_view::npos ? dots : text.find(':', dots);
  auto high = dots == std::string_view::npos ? low : parsed_number(text.substr(dots + 2, colon - dots - 2));
  auto best = colon == std::string_view::npos ? -1 : parsed_number(text.substr(colon + 1));
  if (!low || !high || !best || *low < 0 || *high < *low) refuse_size(text, whole);
  if (colon != std::string_view::npos && (*best < *low || *best > *high)) refuse_size(text, whole);
  return {*low, *high, *best};
}

ShapeRequest parse_one(std::string_view input, std::string_view sizes, char separator, std::string_view whole) {
  ShapeRequest request{.input = std::string(trim(input)), .sizes = {}};
  if (request.input.empty()) refuse(cat("'", printable(whole), "' names no input"), "write x=1,3,224,224");
  if (trim(sizes).empty()) return request;  // no sizes: a scalar
  if (trim(sizes).ends_with(separator)) refuse_size("", whole);
  for (std::string_view size : split(sizes, separator)) request.sizes.push_back(parse_size(size, whole));
  return request;
}

std::vector<ShapeRequest> parse_brackets(std::string_view text) {
  std::vector<ShapeRequest> requests;
  for (std::string_view rest = text; !rest.empty();) {
    size_t open = rest.find('['), close = rest.find(']');
    if (open == std::string_view::npos || close == std::string_view::npos || close < open)
      refuse(cat("'", printable(text), "' has unequal brackets"), "write x[1,3,224,224]");
    requests.push_back(parse_one(rest.substr(0, open), rest.substr(open + 1, close - open - 1), ',', text));
    rest.remove_prefix(close + 1);
    while (rest.starts_with(',') || rest.starts_with(' ')) rest.remove_prefix(1);
  }
  return requests;
}

std::vector<ShapeRequest> parse_colons(std::string_view text) {
  std::vector<ShapeRequest> requests;
  for (std::string_view piece : split(text, ',')) {
    size_t colon = piece.rfind(':');
    if (colon == std::string_view::npos) refuse(cat("'", printable(text), "' gives no sizes"), "write x=1,3,224,224");
    requests.push_back(parse_one(piece.substr(0, colon), piece.substr(colon + 1), 'x', text));
  }
  return requests;
}

}  // namespace

std::vector<ShapeRequest> parse_shapes(std::string_view text) {
  text = trim(text);
  if (text.empty()) refuse("a shape is empty", "write x=1,3,224,224");
  if (size_t equals = text.rfind('='); equals != std::string_view::npos)
    return {parse_one(text.substr(0, equals), text.substr(equals + 1), ',', text)};
  return text.ends_with(']') ? parse_brackets(text) : parse_colons(text);
}

std::pair<std::string, int64_t> parse_symbol(std::string_view text) {
  size_t equals = text.find('=');
  auto value = equals == std::string_view::npos ? std::nullopt : parsed_number(trim(text.substr(equals + 1)));
  if (!value || *value < 0 || equals == 0) refuse(cat("'", printable(text), "' is not NAME=SIZE"), "write batch=4");
  return {std::string(trim(text.substr(0, equals))), *value};
}

DonationRequest parse_donation(std::string_view text) {
  size_t equals = text.find('=');
  bool names_two = equals != std::string_view::npos && equals > 0 && equals + 1 < text.size();
  if (!names_two) refuse(cat("'", printable(text), "' is not INPUT=OUTPUT"), "write past=present");
  return {std::string(trim(text.substr(0, equals))), std::string(trim(text.substr(equals + 1)))};
}

Precision parse_precision(std::string_view text) {
  if (text == "f32" || text == "fp32" || text == "float32") return Precision::f32;
  if (text == "bf16" || text == "bfloat16") return Precision::bf16;
  if (text == "f16" || text == "fp16" || text == "float16" || text == "half") return Precision::f16;
  refuse(cat("'", printable(text), "' is not a precision"), "one of f32, bf16, f16");
}

std::string_view name(Precision precision) {
  constexpr std::string_view names[] = {"f32", "bf16", "f16"};
  return names[static_cast<size_t>(precision)];
}

int64_t parse_bytes(std::string_view text, std::string_view what) {
  constexpr std::pair<std::string_view, int64_t> units[] = {
      {"", 1},        {"B", 1},         {"k", 1 << 10},   {"K", 1 << 10},     {"M", 1 << 20},
      {"G", 1 << 30}, {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30},   {"TiB", int64_t{1} << 40},
      {"kB", 1000},   {"KB", 1000},     {"MB", 1000000},  {"GB", 1000000000}, {"TB", 1000000000000}};
  text = trim(text);
  size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  auto count = parsed_number(text.substr(0, digits));
  int64_t bytes = 0;
  for (auto [unit, scale] : units) {
    if (count && unit == trim(text.substr(digits)) && !__builtin_mul_overflow(*count, scale, &bytes)) return bytes;
  }
  refuse(cat(what, " is '", printable(text), "', which is not an amount of memory"), "write 4GiB, 512MB or 1048576");
}

int64_t parse_number(std::string_view text, std::string_view what) {
  auto value = parsed_number(trim(text));
  if (!value) refuse(cat(what, " is '", printable(text), "', which is not a whole number"), "");
  return *value;
}

}  // namespace weft
