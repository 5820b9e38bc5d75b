// SPDX-License-Identifier: Apache-2.0
#include "ir/op.h"

#include "base/hash.h"
#include "ir/op_fields.h"

namespace weft {

/// Constants up to this many elements are printed in line.
constexpr int64_t inline_elements = 64;

static std::string print_values(const Tensor& tensor) {
  std::string text = "{";
  if (is_float(tensor.dtype)) {
    for (double value : to_doubles(tensor)) text += cat(text.size() > 1 ? ", " : "", value);
  } else {
    for (int64_t value : to_int64s(tensor)) text += cat(text.size() > 1 ? ", " : "", value);
  }
  return text + "}";
}

static bool is_number_type(DType type) { return type != DType::string && !is_complex(type); }

std::string_view Op::name() const { return info_->name; }

std::string_view display_name(const Op& op) { return op.info().display ? op.info().display(op) : op.name(); }

std::string to_string(const Op& op) {
  if (op.info().display) return std::string(display_name(op));
  std::string text;
  for (const Attribute& attribute : op.info().print(op, {})) {
    text += cat(text.empty() ? " {" : ", ", attribute.name, "=", attribute.text);
  }
  return cat(op.name(), text, text.empty() ? "" : "}");
}

}  // namespace weft

namespace weft::fields {

std::string print(const std::string& value, const PrintContext&) {
  std::string text = "\"";
  for (char c : value) {
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  return printable(text) + "\"";  // `printable` escapes bytes that are not UTF-8, but no backslashes
}

std::string print(const Tensor& value, const PrintContext& context) {
  if (value.dtype == DType::string) {
    PrintContext none;
    std::string text;
    for (const std::string& item : *value.strings) text += cat(text.empty() ? "" : ", ", print(item, none));
    return cat(value.shape(), "{", text, "}");
  }
  if (is_number_type(value.dtype) && value.elements() <= inline_elements)
    return cat(value.shape(), print_values(value));
  std::string blob = context.name_blob ? context.name_blob(value) : cat(hash128(value.data));
  return cat(value.shape(), "@", blob);
}

std::string print(const Type& value, const PrintContext&) { return to_string(value); }

void refuse(std::string_view text, std::string_view wanted) {
  throw Error({.kind = ErrorKind::model, .code = "E191", .what = cat("'", printable(text), "' is not ", wanted)});
}

std::vector<std::string_view> list_items(std::string_view text) {
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') refuse(text, "a list");
  text = text.substr(1, text.size() - 2);
  std::vector<std::string_view> items;
  int depth = 0;
  bool quoted = false;
  size_t begin = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '"' && (i == 0 || text[i - 1] != '\\')) quoted = !quoted;
    if (quoted) continue;
    if (c == '(' || c == '[' || c == '{') ++depth;
    if (c == ')' || c == ']' || c == '}') --depth;
    if (c != ',' || depth != 0) continue;
    items.push_back(trim(text.substr(begin, i - begin)));
    begin = i + 1;
  }
  if (!trim(text).empty()) items.push_back(trim(text.substr(begin)));
  return items;
}

void parse(std::string_view text, bool& out, const ParseContext&) {
  if (text != "true" && text != "false") refuse(text, "true or false");
  out = text == "true";
}

template <class T>
static void parse_number(std::string_view text, T& out) {
  auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (code != std::errc() || end != text.data() + text.size()) refuse(text, "a number");
}

void parse(std::string_view text, int64_t& out, const ParseContext&) { parse_number(text, out); }
void parse(std::string_view text, double& out, const ParseContext&) { parse_number(text, out); }

static int hex_digit(char c) { return c <= '9' ? c - '0' : c - 'a' + 10; }

void parse(std::string_view text, std::string& out, const ParseContext&) {
  if (text.size() < 2 || text.front() != '"' || text.back() != '"') refuse(text, "a quoted text");
  text = text.substr(1, text.size() - 2);
  out.clear();
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      out += text[i];
    } else if (i + 3 < text.size() && text[i + 1] == 'x') {
      out += static_cast<char>(hex_digit(text[i + 2]) * 16 + hex_digit(text[i + 3]));
      i += 3;
    } else if (++i < text.size()) {
      out += text[i];
    }
  }
}

void parse(std::string_view text, DType& out, const ParseContext&) {
  auto type = parse_dtype(text);
  if (!type) refuse(text, "a data type");
  out = *type;
}

void parse(std::string_view text, Dim& out, const ParseContext& context) { out = parse_dim(text, context.symbol_of); }

static Shape parse_shape(std::string_view text, const ParseContext& context) {
  size_t open = text.find('[');
  if (open == std::string_view::npos) refuse(text, "a shape");
  Shape shape;
  parse(text.substr(0, open), shape.dtype, context);
  parse(text.substr(open), shape.dims, context);
  return shape;
}

static std::vector<int64_t> fixed_dims(const Shape& shape) {
  std::vector<int64_t> dims;
  for (const Dim& dim : shape.dims) dims.push_back(dim.value());
  return dims;
}

void parse(std::string_view text, Tensor& out, const ParseContext& context) {
  size_t close = text.find(']');
  if (close == std::string_view::npos || close + 1 >= text.size()) refuse(text, "a tensor");
  Shape shape = parse_shape(text.substr(0, close + 1), context);
  if (!shape.is_static()) refuse(text, "a tensor of fixed size");
  std::string_view rest = text.substr(close + 1);
  if (rest.front() == '@') {
    if (!context.blob_of) refuse(text, "a tensor in line, and no large constants were given");
    out = context.blob_of(rest.substr(1));
    if (out.shape() != shape) refuse(text, cat("the constant ", out.shape()));
    return;
  }
  if (rest.front() != '{' || rest.back() != '}') refuse(text, "a tensor");
  std::string list = cat("[", rest.substr(1, rest.size() - 2), "]");
  std::vector<int64_t> dims = fixed_dims(shape);
  auto expect = [&](size_t count) {
    if (static_cast<int64_t>(count) != element_count(dims)) refuse(text, cat("a tensor with ", count, " values"));
  };
  if (shape.dtype == DType::string) {
    std::vector<std::string> values;
    parse(list, values, context);
    expect(values.size());
    out = {.dtype = DType::string, .dims = dims, .strings = std::make_shared<const std::vector<std::string>>(values)};
  } else if (is_float(shape.dtype)) {
    std::vector<double> values;
    parse(list, values, context);
    expect(values.size());
    out = make_tensor(shape.dtype, dims, values);
  } else {
    std::vector<int64_t> values;
    parse(list, values, context);
    expect(values.size());
    out = make_tensor(shape.dtype, dims, values);
  }
}

static Type parse_type(std::string_view text, const ParseContext& context, int depth) {
  constexpr int deepest = 64;
  if (depth > deepest) refuse(text.substr(0, 40), cat("a type: it is nested more than ", deepest, " deep"));
  auto inside = [&](std::string_view prefix) -> std::string_view {
    if (!text.starts_with(prefix) || text.back() != ')') return {};
    return text.substr(prefix.size(), text.size() - prefix.size() - 1);
  };
  if (auto part = inside("sequence("); !part.empty()) return Type::sequence(parse_type(part, context, depth + 1));
  if (auto part = inside("optional("); !part.empty()) return Type::optional(parse_type(part, context, depth + 1));
  if (auto part = inside("map("); !part.empty()) {
    size_t comma = std::min(part.find(','), part.size());
    DType key{};
    parse(trim(part.substr(0, comma)), key, context);
    return Type::map(key, parse_type(trim(part.substr(std::min(comma + 1, part.size()))), context, depth + 1));
  }
  return parse_shape(text, context);
}

void parse(std::string_view text, Type& out, const ParseContext& context) { out = parse_type(text, context, 0); }

}  // namespace weft::fields
