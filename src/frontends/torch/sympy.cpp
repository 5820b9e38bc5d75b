// SPDX-License-Identifier: Apache-2.0
#include "frontends/torch/sympy.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <numeric>
#include <variant>

#include "base/error.h"
#include "base/text.h"

namespace weft::torch {
namespace {

/// Scans a text from left to right; the base of the parsers of sympy's and Python's notation.
class Scanner {
 protected:
  static constexpr int max_nesting = 64;

  Scanner(std::string_view text, ErrorKind kind, std::string_view what) : text_(text), kind_(kind), what_(what) {}

  [[noreturn]] void fail(std::string_view why) const {
    throw Error({.kind = kind_,
                 .code = "E190",
                 .what = cat(what_, " '", printable(text_.substr(0, 200)), "' ", why, " (character ", at_, ")")});
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
  void expect_end() {
    skip_spaces();
    if (at_ != text_.size()) fail("goes on where it should end");
  }
  int64_t number() {
    skip_spaces();
    int64_t value = 0;
    auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc()) fail("lacks a number of 64 bits");
    at_ = end - text_.data();
    return value;
  }
  /// Returns the text up to the next quote, and skips this quote.
  std::string_view quoted() {
    size_t begin = at_, end = text_.find('\'', at_);
    if (end == text_.npos) fail("has a name without end");
    at_ = end + 1;
    return text_.substr(begin, end - begin);
  }

  std::string_view text_;
  size_t at_ = 0;

 private:
  ErrorKind kind_;
  std::string_view what_;
};

/// Parses sympy's notation. A term is Integer(number), Symbol('name', key=value, ...) or name(term, ...).
class Parser : Scanner {
 public:
  Parser(std::string_view text, const std::function<Symbol(std::string_view)>& symbol_of)
      : Scanner(text, ErrorKind::model, "size"), symbol_of_(symbol_of) {}

  Dim whole() {
    Dim result = term(0);
    expect_end();
    return result;
  }

 private:
  std::string_view word() {
    skip_spaces();
    size_t begin = at_;
    auto is_part = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
    while (at_ < text_.size() && is_part(text_[at_])) ++at_;
    if (at_ == begin) fail("lacks a name");
    return text_.substr(begin, at_ - begin);
  }

  Dim symbol() {
    expect("'");
    std::string_view name = quoted();
    while (take(",")) {  // its assumptions: integer=True
      word();
      expect("=");
      word();
    }
    expect(")");
    return Dim::symbol(symbol_of_(name));
  }

  Dim term(int depth) {
    if (depth > max_nesting) fail(cat("is nested more than ", max_nesting, " deep"));
    std::string_view name = word();
    expect("(");
    if (name == "Symbol") return symbol();
    if (name == "Integer") {
      Dim value = number();
      expect(")");
      return value;
    }
    std::vector<Dim> operands;
    do operands.push_back(term(depth + 1));
    while (take(","));
    expect(")");
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
    return size_power(base, *times);
  }

  const std::function<Symbol(std::string_view)>& symbol_of_;
};

/// Parses comparisons of integer expressions, joined by "and", "or" and "not", in Python's syntax.
class RelationParser : Scanner {
 public:
  RelationParser(std::string_view text, const std::function<Dims(const std::string&)>& sizes_of)
      : Scanner(text, ErrorKind::unsupported, "guard"), sizes_of_(sizes_of) {}

  Relation whole() {
    Relation result = condition(disjunction());
    expect_end();
    return result;
  }

 private:
  using Term = std::variant<Dim, Relation>;

  Dim value(const Term& term) const {
    if (const auto* dim = std::get_if<Dim>(&term)) return *dim;
    fail("computes with a comparison");
  }
  Relation condition(const Term& term) const {
    if (const auto* relation = std::get_if<Relation>(&term)) return *relation;
    fail("is not a comparison");
  }
  /// Returns a size expression that is at most 0 exactly where the condition holds.
  Dim excess(const Term& term) const {
    auto [kind, a, b] = condition(term);
    if (kind == Relation::Kind::less_equal) return a - b;
    Dim distance = max(a - b, b - a);
    return kind == Relation::Kind::equal ? distance : 1 - distance;
  }

  Term disjunction() {
    Term all = conjunction();
    while (take("or ")) all = Relation{Relation::Kind::less_equal, min(excess(all), excess(conjunction())), 0};
    return all;
  }
  Term conjunction() {
    Term all = negation();
    while (take("and ")) all = Relation{Relation::Kind::less_equal, max(excess(all), excess(negation())), 0};
    return all;
  }
  Term negation() {
    bool is_negated = false;
    while (take("not ")) is_negated = !is_negated;
    Term term = comparison();
    return is_negated ? Relation{Relation::Kind::less_equal, 1, excess(term)} : term;
  }
  Term comparison() {
    using enum Relation::Kind;
    Term a = sum();
    auto other = [&] { return value(sum()); };
    if (take("==")) return Relation{equal, value(a), other()};
    if (take("!=")) return Relation{different, value(a), other()};
    if (take("<=")) return Relation{less_equal, value(a), other()};
    if (take(">=")) return Relation{less_equal, other(), value(a)};
    if (take("<")) return Relation{less_equal, value(a) + 1, other()};
    if (take(">")) return Relation{less_equal, other() + 1, value(a)};
    return a;
  }
  Term sum() {
    Term all = product();
    for (;;) {
      if (take("+")) all = value(all) + value(product());
      else if (take("-")) all = value(all) - value(product());
      else return all;
    }
  }
  Term product() {
    Term all = factor();
    for (;;) {
      if (take("//")) all = floordiv(value(all), value(factor()));
      else if (take("*")) all = value(all) * value(factor());
      else if (take("%")) all = mod(value(all), value(factor()));
      else return all;
    }
  }
  Term factor() {
    if (++depth_ > max_nesting) fail(cat("is nested more than ", max_nesting, " deep"));
    Term term = plain_factor();
    --depth_;
    return term;
  }
  Term plain_factor() {
    if (take("-")) return 0 - value(factor());
    if (take("(")) {
      Term inner = disjunction();
      expect(")");
      return inner;
    }
    if (take("math.trunc(")) return scaled_size();
    bool is_max = take("max(");
    if (is_max || take("min(")) {
      Dim a = value(sum());
      while (take(",")) a = is_max ? max(a, value(sum())) : min(a, value(sum()));
      expect(")");
      return a;
    }
    return take("L") ? size() : Dim(number());
  }
  /// Parses the size of a resized picture, as in 0.5*torch.sym_float(size)). The factor is rounded up to a fraction: the
  /// result is exact for sizes below 2^20, but where torch's own product in f64 falls below a whole number.
  Dim scaled_size() {
    constexpr int64_t one = 1 << 20;
    skip_spaces();
    double factor = 0;
    auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), factor);
    if (error != std::errc() || !(factor > 0) || factor > 1e6) fail("lacks a factor in (0, 1e6]");
    at_ = end - text_.data();
    expect("*torch.sym_float(");
    Dim size = value(sum());
    expect("))");
    auto over = static_cast<int64_t>(std::ceil(factor * one)), common = std::gcd(over, one);
    return floordiv(size * Dim(over / common), one / common);
  }
  /// Parses the size of an input's axis, as in ['ids'][0].size()[1].
  Dim size() {
    std::string input;
    while (take("[")) {
      if (!input.empty()) input += '_';
      input += take("'") ? std::string(quoted()) : std::to_string(number());
      expect("]");
    }
    expect(".size()[");
    int64_t axis = number();
    expect("]");
    Dims sizes = sizes_of_(input);
    if (axis < 0 || axis >= std::ssize(sizes)) fail(cat("reads axis ", axis, " of an input with ", sizes.size()));
    return sizes[axis];
  }

  const std::function<Dims(const std::string&)>& sizes_of_;
  int depth_ = 0;
};

}  // namespace

Dim size_power(const Dim& base, int64_t exponent) {
  Dim result = 1;
  for (int64_t i = 0; i < exponent; ++i) result = result * base;
  return result;
}

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
