// SPDX-License-Identifier: Apache-2.0
#include "frontends/torch/sympy.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "base/error.h"
#include "base/text.h"

namespace weft::torch {
namespace {

/// Parses name(argument, ...), where arguments are such terms, numbers, strings in quotes or name=value.
class Parser {
 public:
  Parser(std::string_view text, const std::function<Symbol(std::string_view)>& symbol_of)
      : text_(text), symbol_of_(symbol_of) {}

  Dim whole() {
    Dim result = term(0);
    if (at_ != text_.size()) fail("goes on where it should end");
    return result;
  }

 private:
  static constexpr int max_nesting = 64;

  [[noreturn]] void fail(std::string_view what) const {
    throw Error({.kind = ErrorKind::model,
                 .code = "E190",
                 .what = cat("size '", printable(text_.substr(0, 200)), "' ", what, " (character ", at_, ")")});
  }
  void skip_spaces() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(char c) {
    skip_spaces();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) fail(cat("lacks '", c, "'"));
  }
  std::string_view word() {
    skip_spaces();
    size_t begin = at_;
    auto is_part = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-'; };
    while (at_ < text_.size() && is_part(text_[at_])) ++at_;
    if (at_ == begin) fail("lacks a name or number");
    return text_.substr(begin, at_ - begin);
  }
  int64_t number(std::string_view digits) const {
    int64_t value = 0;
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size())
      fail(cat("has no number of 64 bits in '", digits, "'"));
    return value;
  }

  Dim symbol() {
    expect('\'');
    size_t end = text_.find('\'', at_);
    if (end == text_.npos) fail("has a name without end");
    std::string_view name = text_.substr(at_, end - at_);
    at_ = end + 1;
    while (take(',')) {  // its assumptions: integer=True
      word();
      expect('=');
      word();
    }
    expect(')');
    return Dim::symbol(symbol_of_(name));
  }

  Dim term(int depth) {
    if (depth > max_nesting) fail(cat("is nested more than ", max_nesting, " deep"));
    std::string_view name = word();
    expect('(');
    if (name == "Symbol") return symbol();
    if (name == "Integer") {
      Dim value = number(word());
      expect(')');
      return value;
    }
    std::vector<Dim> operands;
    do operands.push_back(term(depth + 1));
    while (take(','));
    expect(')');
    return computed(name, operands);
  }

  Dim computed(std::string_view name, const std::vector<Dim>& of) const {
    auto folded = [&](Dim (*join)(const Dim&, const Dim&)) {
      Dim all = of[0];
      for (size_t i = 1; i < of.size(); ++i) all = join(all, of[i]);
      return all;
    };
    if (name == "Add") return folded([](const Dim& a, const Dim& b) { return a + b; });
    if (name == "Mul") return folded([](const Dim& a, const Dim& b) { return a * b; });
    if (name == "Max") return folded([](const Dim& a, const Dim& b) { return max(a, b); });
    if (name == "Min") return folded([](const Dim& a, const Dim& b) { return min(a, b); });
    if (of.size() != 2) fail(cat("has ", name, " of ", of.size(), " operands, which Weft does not know"));
    if (name == "FloorDiv" || name == "CleanDiv") return floordiv(of[0], of[1]);
    if (name == "CeilDiv") return ceildiv(of[0], of[1]);
    if (name == "Mod" || name == "PythonMod") return mod(of[0], of[1]);
    if (name == "Pow" || name == "PowByNatural") return power(of[0], of[1]);
    fail(cat("has ", name, ", which Weft does not know"));
  }

  Dim power(const Dim& base, const Dim& exponent) const {
    constexpr int64_t most = 8;
    auto times = exponent.constant();
    if (!times || *times < 0 || *times > most) fail(cat("has a power of ", to_string(exponent)));
    Dim all = 1;
    for (int64_t i = 0; i < *times; ++i) all = all * base;
    return all;
  }

  std::string_view text_;
  const std::function<Symbol(std::string_view)>& symbol_of_;
  size_t at_ = 0;
};

/// Parses comparisons of integer expressions in Python's syntax.
class RelationParser {
 public:
  RelationParser(std::string_view text, const std::function<Dims(const std::string&)>& sizes_of)
      : text_(text), sizes_of_(sizes_of) {}

  Relation whole() {
    Relation result = comparison();
    skip_spaces();
    if (at_ != text_.size()) fail("goes on where it should end");
    return result;
  }

 private:
  static constexpr int max_nesting = 64;

  [[noreturn]] void fail(std::string_view what) const {
    throw Error({.kind = ErrorKind::unsupported,
                 .code = "E190",
                 .what = cat("guard '", printable(text_.substr(0, 200)), "' ", what, " (character ", at_, ")")});
  }
  void skip_spaces() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(std::string_view word) {
    skip_spaces();
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  void expect(std::string_view word) {
    if (!take(word)) fail(cat("lacks '", word, "'"));
  }

  Relation comparison() {
    using enum Relation::Kind;
    size_t begin = at_;
    if (take("(")) {  // the whole text may be in brackets
      try {
        Relation inner = comparison();
        expect(")");
        skip_spaces();
        if (at_ == text_.size()) return inner;
      } catch (const Error&) {  // an expression, not a comparison
      }
    }
    at_ = begin;
    Dim a = sum();
    if (take("==")) return {equal, a, sum()};
    if (take("!=")) return {different, a, sum()};
    if (take("<=")) return {less_equal, a, sum()};
    if (take(">=")) return {less_equal, sum(), a};
    if (take("<")) return {less_equal, a + 1, sum()};
    if (take(">")) return {less_equal, sum() + 1, a};
    fail("is not a comparison");
  }
  Dim sum() {
    Dim all = product();
    for (;;) {
      if (take("+")) all = all + product();
      else if (take("-")) all = all - product();
      else return all;
    }
  }
  Dim product() {
    Dim all = factor();
    for (;;) {
      if (take("//")) all = floordiv(all, factor());
      else if (take("*")) all = all * factor();
      else if (take("%")) all = mod(all, factor());
      else return all;
    }
  }
  Dim factor() {
    if (++depth_ > max_nesting) fail(cat("is nested more than ", max_nesting, " deep"));
    Dim value = plain_factor();
    --depth_;
    return value;
  }
  Dim plain_factor() {
    if (take("-")) return Dim(0) - factor();
    if (take("(")) {
      Dim inner = sum();
      expect(")");
      return inner;
    }
    bool is_max = take("max(");
    if (is_max || take("min(")) {
      Dim a = sum();
      while (take(",")) a = is_max ? max(a, sum()) : min(a, sum());
      expect(")");
      return a;
    }
    return take("L") ? size() : Dim(number());
  }
  int64_t number() {
    skip_spaces();
    int64_t value = 0;
    auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc()) fail("lacks a number");
    at_ = static_cast<size_t>(end - text_.data());
    return value;
  }
  /// Parses the size of an input's axis, as in ['ids'][0].size()[1].
  Dim size() {
    std::string input;
    while (take("[")) {
      if (!input.empty()) input += '_';
      if (take("'")) {
        size_t end = text_.find('\'', at_);
        if (end == text_.npos) fail("has a name without end");
        input += text_.substr(at_, end - at_);
        at_ = end + 1;
      } else {
        input += std::to_string(number());
      }
      expect("]");
    }
    expect(".size()[");
    int64_t axis = number();
    expect("]");
    Dims sizes = sizes_of_(input);
    if (axis < 0 || axis >= std::ssize(sizes)) fail(cat("reads axis ", axis, " of an input with ", sizes.size()));
    return sizes[static_cast<size_t>(axis)];
  }

  std::string_view text_;
  const std::function<Dims(const std::string&)>& sizes_of_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

Relation parse_relation(std::string_view text, const std::function<Dims(const std::string&)>& sizes_of) {
  return RelationParser(text, sizes_of).whole();
}

Dim parse_size(std::string_view text, const std::function<Symbol(std::string_view)>& symbol_of) {
  size_t bracket = text.find('(');
  bool is_term = bracket != text.npos && bracket > 0 && std::isalpha(static_cast<unsigned char>(text[0])) &&
                 std::ranges::all_of(text.substr(0, bracket), [](unsigned char c) { return std::isalnum(c); });
  return is_term ? Parser(text, symbol_of).whole() : parse_dim(text, symbol_of);
}

}  // namespace weft::torch
