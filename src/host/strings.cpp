// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <cmath>
#include <unordered_set>

#include "base/numeric.h"
#include "base/text.h"
#include "host/functions.h"
#include "host/pattern.h"
#include "host/utf8.h"

namespace weft::host {
namespace {

const std::vector<std::string>& strings(const Tensor& tensor) { return *tensor.strings; }

template <class F>
Values each_text(const Tensor& x, F f) {
  std::vector<std::string> out;
  for (const std::string& text : strings(x)) out.push_back(f(text));
  return {make_string_tensor(x.dims, std::move(out))};
}

// --- numbers as strings ----------------------------------------------------------------------------------------------

std::string real_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value < 0 ? "-INF" : "INF";
  char text[64];
  return std::string(text, std::to_chars(text, text + sizeof text, value, std::chars_format::general, 8).ptr);
}

std::string upper_ascii(std::string_view text) {
  std::string upper(text);
  for (char& c : upper) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return upper;
}

// --- case ----------------------------------------------------------------------------------------------------------

enum class Case : uint8_t { keep, lower, upper };

std::string in_case(const std::string& text, Case to) {
  if (to == Case::keep) return text;
  std::string out;
  for (std::string_view rest = text; !rest.empty();) {
    auto [code, length] = decode_utf8(rest);
    if (code == WEOF) out += rest[0];
    else append_utf8(out, to == Case::lower ? to_lower(code) : to_upper(code));
    rest.remove_prefix(length);
  }
  return out;
}

// --- splitting -------------------------------------------------------------------------------------------------------

/// Splits at runs of white space; after `most` splits (-1: no limit), the rest is one piece.
std::vector<std::string> words(std::string_view text, int64_t most) {
  constexpr std::string_view space = " \t\n\r\f\v";
  std::vector<std::string> found;
  for (;;) {
    text.remove_prefix(std::min(text.find_first_not_of(space), text.size()));
    if (text.empty()) return found;
    size_t end = most >= 0 && std::ssize(found) >= most ? text.size() : text.find_first_of(space);
    found.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end, text.size()));
  }
}

// --- tokens ----------------------------------------------------------------------------------------------------------

int64_t characters(std::string_view text) {
  int64_t count = 0;
  for (; !text.empty(); ++count) text.remove_prefix(decode_utf8(text).second);
  return count;
}

/// Calls `visit` with the position and length of each longest non-empty match, from left to right.
template <class Visit>
void for_each_match(const Pattern& pattern, std::string_view text, const Visit& visit) {
  for (size_t at = 0; at < text.size();) {
    size_t length = pattern.longest(text, at);
    bool is_match = length != text.npos && length > 0;
    if (is_match) visit(at, length);
    at += is_match ? length : decode_utf8(text.substr(at)).second;
  }
}

/// Splits a text at the matches of the first pattern, then each piece at those of the next pattern, and so on.
std::vector<std::string> between(const std::vector<Pattern>& separators, const std::string& text) {
  std::vector<std::string> parts = {text};
  for (const Pattern& separator : separators) {
    std::vector<std::string> smaller;
    for (const std::string& part : parts) {
      size_t begin = 0;
      for_each_match(separator, part, [&](size_t at, size_t length) {
        smaller.push_back(part.substr(begin, at - begin));
        begin = at + length;
      });
      smaller.push_back(part.substr(begin));
    }
    parts = std::move(smaller);
  }
  return parts;
}

std::vector<std::string> single_characters(std::string_view text) {
  std::vector<std::string> all;
  while (!text.empty()) {
    size_t length = decode_utf8(text).second;
    all.emplace_back(text.substr(0, length));
    text.remove_prefix(length);
  }
  return all;
}

/// Returns rows of strings as a tensor of sizes [dims..., length of the longest row]; pads other rows with `filler`.
Tensor filled_up(std::vector<std::vector<std::string>> rows, std::vector<int64_t> dims, const std::string& filler) {
  size_t longest = 0;
  for (const auto& row : rows) longest = std::max(longest, row.size());
  std::vector<std::string> out;
  for (auto& row : rows) {
    row.resize(longest, filler);
    std::ranges::move(row, std::back_inserter(out));
  }
  dims.push_back(static_cast<int64_t>(longest));
  return make_string_tensor(std::move(dims), std::move(out));
}

}  // namespace

std::vector<std::string> pieces(std::string_view text, std::string_view delimiter, int64_t most) {
  if (delimiter.empty()) return words(text, most);
  std::vector<std::string> found;
  for (;;) {
    size_t end = most >= 0 && std::ssize(found) >= most ? text.npos : text.find(delimiter);
    found.emplace_back(text.substr(0, end));
    if (end == text.npos) return found;
    text.remove_prefix(end + delimiter.size());
  }
}

std::string text_of(const Tensor& tensor, int64_t index) {
  if (tensor.dtype == DType::string) return strings(tensor)[index];
  Tensor one = tensor;
  one.dims = {1};
  size_t width = bits(tensor.dtype) / 8;
  one.data = tensor.data.part(index * width, width);
  if (is_float(tensor.dtype)) return real_text(to_doubles(one)[0]);
  int64_t value = to_int64s(one)[0];
  return tensor.dtype == DType::u64 ? cat(static_cast<uint64_t>(value)) : cat(value);
}

double number_of(const std::string& text) {
  std::string_view rest = trim(text);
  bool is_signed = !rest.empty() && (rest[0] == '+' || rest[0] == '-');
  double sign = is_signed && rest[0] == '-' ? -1 : 1;
  if (is_signed) rest.remove_prefix(1);
  std::string word = upper_ascii(rest);
  if (word == "INF" || word == "INFINITY") return sign * INFINITY;
  if (word == "NAN") return NAN;
  double value = 0;
  auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  if (error == std::errc::result_out_of_range) return std::strtod(text.c_str(), nullptr);
  if (error != std::errc() || end != rest.data() + rest.size())
    refuse("E303", "the text '", printable(text), "' is not a number");
  return sign * value;
}

Values to_text(Operands in) {
  if (bits(in[0].dtype) < 8 && in[0].dtype != DType::string) refuse("E149", "strings of ", in[0].dtype);
  std::vector<std::string> out;
  for (int64_t i = 0; i < in[0].elements(); ++i) out.push_back(text_of(in[0], i));
  return {make_string_tensor(in[0].dims, std::move(out))};
}

Values from_text(const HostCall& call, Operands in) {
  auto type = static_cast<DType>(call.numbers.at(0));
  if (is_float(type)) {
    std::vector<double> values;
    for (const std::string& text : strings(in[0])) values.push_back(number_of(text));
    return {make_tensor(type, in[0].dims, std::span<const double>(values))};
  }
  std::vector<int64_t> values;
  for (const std::string& text : strings(in[0])) {
    std::string_view digits = trim(text);
    int64_t value = 0;
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    bool is_whole = error == std::errc() && end == digits.data() + digits.size();
    values.push_back(is_whole ? value : to_int64(number_of(text)));
    if (type == DType::boolean) values.back() = values.back() != 0;
  }
  return {make_tensor(type, in[0].dims, std::span<const int64_t>(values))};
}

Values concat_text(Operands in) {
  size_t at = 0;
  return each_text(in[0], [&](const std::string& text) { return text + strings(in[1])[at++]; });
}

/// Computes `split_text` by patterns. `numbers`: an unused value; 1 to add marks at both ends of each text; the minimum
/// characters of a token; 1 if the pattern matches tokens, 0 if separators. `strings`: the padding, then the patterns.
static Values tokens_of(const HostCall& call, Operands in) {
  bool marks = call.numbers.at(1) != 0, is_token = call.numbers.at(3) != 0;
  std::vector<Pattern> patterns;
  for (size_t i = 1; i < call.strings.size(); ++i) patterns.emplace_back(call.strings[i]);
  bool by_character = call.strings.size() == 2 && call.strings[1].empty();
  std::vector<std::vector<std::string>> rows;
  std::vector<int64_t> counts;
  for (const std::string& text : strings(in[0])) {
    std::vector<std::string> tokens;
    if (by_character) tokens = single_characters(text);
    else if (!is_token) tokens = between(patterns, text);
    else
      for_each_match(patterns.at(0), text,
                     [&](size_t at, size_t length) { tokens.push_back(text.substr(at, length)); });
    std::erase_if(tokens,
                  [&](const std::string& token) { return token.empty() || characters(token) < call.numbers.at(2); });
    if (marks) {
      tokens.insert(tokens.begin(), "\x02");
      tokens.emplace_back("\x03");
    }
    counts.push_back(std::ssize(tokens));
    rows.push_back(std::move(tokens));
  }
  return {boxed(filled_up(std::move(rows), in[0].dims, call.strings.at(0))),
          make_tensor(DType::i64, in[0].dims, std::span<const int64_t>(counts))};
}

Values split_text(const HostCall& call, Operands in) {
  if (call.numbers.size() > 1) return tokens_of(call, in);
  std::vector<std::vector<std::string>> rows;
  std::vector<int64_t> counts;
  for (const std::string& text : strings(in[0])) {
    rows.push_back(pieces(text, call.strings.at(0), call.numbers.at(0)));
    counts.push_back(std::ssize(rows.back()));
  }
  return {boxed(filled_up(std::move(rows), in[0].dims, "")),
          make_tensor(DType::i64, in[0].dims, std::span<const int64_t>(counts))};
}

Values normalize_text(const HostCall& call, Operands in) {
  auto to = static_cast<Case>(call.numbers.at(0));
  // Case-insensitive stopwords are compared after conversion to one case.
  Case compared = call.numbers.at(1) ? Case::keep : to == Case::keep ? Case::lower : to;
  std::unordered_set<std::string> stopwords;
  for (const std::string& word : call.strings) stopwords.insert(in_case(word, compared));
  std::vector<std::string> out;
  for (const std::string& text : strings(in[0])) {
    if (!stopwords.contains(in_case(text, compared))) out.push_back(in_case(text, to));
  }
  if (out.empty()) out.emplace_back();
  std::vector<int64_t> dims = in[0].dims;
  dims.back() = std::ssize(out);
  return {boxed(make_string_tensor(dims, std::move(out)))};
}

Values match_text(const HostCall& call, Operands in) {
  Pattern pattern(call.strings.at(0));
  std::vector<int64_t> matches;
  for (const std::string& text : strings(in[0])) matches.push_back(pattern.matches(text));
  return {make_tensor(DType::boolean, in[0].dims, std::span<const int64_t>(matches))};
}

}  // namespace weft::host

namespace weft {

void check_pattern(const std::string& pattern) { host::Pattern compiled(pattern); }

}  // namespace weft
