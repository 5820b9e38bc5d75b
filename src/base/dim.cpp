// SPDX-License-Identifier: Apache-2.0
#include "base/dim.h"

#include <algorithm>
#include <cctype>
#include <numeric>

#include "base/dim_terms.h"
#include "base/error.h"
#include "base/text.h"

namespace weft {

enum class AtomKind : uint8_t { symbol, floordiv, min, max };

namespace {

constexpr int64_t unbounded_below = INT64_MIN;
constexpr int64_t unbounded_above = INT64_MAX;

/// The bounds of a size. INT64_MIN and INT64_MAX mean "no bound known".
struct Interval {
  int64_t low = unbounded_below;
  int64_t high = unbounded_above;
};

}  // namespace

/// A factor that cannot be split further: a symbol or floordiv, min or max of `a` and `b`. Atoms are compared by `key`,
/// their canonical text. `range` is stored because atoms nest: recomputing it at each use would take 2^depth steps.
struct DimAtom {
  AtomKind kind;
  Symbol symbol;
  Dim a, b;
  std::string key;
  Interval range = {};
};
using Atom = std::shared_ptr<const DimAtom>;

/// coefficient * factors[0] * factors[1] ..., with the factors sorted by key. A term of a Dim has at least one factor.
struct DimTerm {
  int64_t coefficient;
  std::vector<Atom> factors;
  std::string key;
};

struct DimTerms {
  std::vector<DimTerm> terms;  // in the order of `leads`, with different keys and no zero coefficients
};

namespace {

/// Limits on the characters of an expression and the factors of a term. Real models need a few hundred characters.
/// Without a limit, a few nodes that square a size repeatedly would make expressions grow without end.
constexpr size_t longest_expression = 16'384, max_factors = 512;

[[noreturn]] void overflow() {
  throw Error({.kind = ErrorKind::model, .code = "E146", .what = "a size overflows 64 bits"});
}

int64_t add(int64_t a, int64_t b) {
  int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) overflow();
  return sum;
}

int64_t multiply(int64_t a, int64_t b) {
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) overflow();
  return product;
}

int64_t floor_divide(int64_t a, int64_t b) {
  if (b == 0)
    throw Error({.kind = ErrorKind::usage, .code = "E311", .what = cat("size expression divides ", a, " by 0")});
  if (b == -1) return multiply(a, -1);
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

bool is_infinite(int64_t x) { return x == unbounded_below || x == unbounded_above; }

int64_t bound_add(int64_t a, int64_t b) {
  if (is_infinite(a)) return a;
  if (is_infinite(b)) return b;
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? (a < 0 ? unbounded_below : unbounded_above) : sum;
}

int64_t bound_multiply(int64_t a, int64_t b) {
  if (a == 0 || b == 0) return 0;
  int64_t limit = (a < 0) != (b < 0) ? unbounded_below : unbounded_above;
  int64_t product = 0;
  if (is_infinite(a) || is_infinite(b) || __builtin_mul_overflow(a, b, &product)) return limit;
  return product;
}

int64_t bound_divide(int64_t a, int64_t b) {
  return is_infinite(a) ? a : is_infinite(b) ? ((a < 0) ? -1 : 0) : floor_divide(a, b);
}

Interval operator+(Interval a, Interval b) { return {bound_add(a.low, b.low), bound_add(a.high, b.high)}; }

Interval operator*(Interval a, Interval b) {
  auto [low, high] = std::minmax({bound_multiply(a.low, b.low), bound_multiply(a.low, b.high),
                                  bound_multiply(a.high, b.low), bound_multiply(a.high, b.high)});
  return {low, high};
}

Interval bounds(const Dim& dim) { return {dim.lower_bound(), dim.upper_bound()}; }

Interval bounds(AtomKind kind, Interval a, Interval b) {
  if (kind == AtomKind::min) return {std::min(a.low, b.low), std::min(a.high, b.high)};
  if (kind == AtomKind::max) return {std::max(a.low, b.low), std::max(a.high, b.high)};
  if (b.low <= 0) return {};
  auto [low, high] = std::minmax({bound_divide(a.low, b.low), bound_divide(a.low, b.high), bound_divide(a.high, b.low),
                                  bound_divide(a.high, b.high)});
  return {low, high};
}

int64_t known_divisor(const DimAtom& atom) { return atom.kind == AtomKind::symbol ? atom.symbol.multiple_of : 1; }

std::string key_of(const std::vector<Atom>& factors) {
  std::string key;
  for (const Atom& factor : factors) {
    if (!key.empty()) key += '*';
    key += factor->key;
  }
  return key;
}

/// True if `a` comes before `b`: terms of higher degree are first, so that a polynomial begins with its leading term.
bool leads(const DimTerm& a, const DimTerm& b) {
  if (a.factors.size() != b.factors.size()) return a.factors.size() > b.factors.size();
  return a.key < b.key;
}

}  // namespace

/// Arithmetic on canonical forms.
struct DimAlgebra {
  static const std::vector<DimTerm>& terms(const Dim& dim) {
    static const std::vector<DimTerm> none;
    return dim.terms_ ? dim.terms_->terms : none;
  }

  static int64_t constant_term(const Dim& dim) { return dim.constant_; }

  /// Returns the canonical form of a sum: sorts terms, merges terms with equal factors, drops zeros. Throws E146 for
  /// long sums.
  static Dim make(int64_t constant, std::vector<DimTerm> terms) {
    std::ranges::sort(terms, leads);
    std::vector<DimTerm> merged;
    for (DimTerm& term : terms) {
      if (!merged.empty() && merged.back().key == term.key)
        merged.back().coefficient = add(merged.back().coefficient, term.coefficient);
      else merged.push_back(std::move(term));
      if (merged.back().coefficient == 0) merged.pop_back();
    }
    size_t length = 0, factors = 0;
    for (const DimTerm& term : merged) length += term.key.size(), factors += term.factors.size();
    if (length > longest_expression || factors > max_factors)
      throw Error({.kind = ErrorKind::unsupported,
                   .code = "E146",
                   .what = cat("the expression of a size has ", factors, " factors and ", length, " characters; ",
                               max_factors, " and ", longest_expression, " are the most"),
                   .hint = "give the sizes of the inputs: --shape x=..."});
    Dim dim(constant);
    if (!merged.empty()) dim.terms_ = std::make_shared<const DimTerms>(DimTerms{std::move(merged)});
    return dim;
  }

  static Dim of(Atom atom) {
    std::string key = atom->key;
    return make(0, {DimTerm{1, {std::move(atom)}, std::move(key)}});
  }

  static Dim of(AtomKind kind, std::string_view name, const Dim& a, const Dim& b) {
    std::string key = cat(name, "(", a, ", ", b, ")");
    Interval range = bounds(kind, bounds(a), bounds(b));
    return of(std::make_shared<const DimAtom>(DimAtom{kind, {}, a, b, std::move(key), range}));
  }

  static DimTerm multiply_terms(const DimTerm& a, const DimTerm& b) {
    DimTerm term{multiply(a.coefficient, b.coefficient), a.factors, {}};
    term.factors.insert(term.factors.end(), b.factors.begin(), b.factors.end());
    std::ranges::sort(term.factors, {}, [](const Atom& atom) -> const std::string& { return atom->key; });
    term.key = key_of(term.factors);
    return term;
  }

  static Dim scale(const Dim& a, int64_t factor) {
    std::vector<DimTerm> scaled = terms(a);
    for (DimTerm& term : scaled) term.coefficient = multiply(term.coefficient, factor);
    return make(multiply(a.constant_, factor), std::move(scaled));
  }

  /// Replaces b * floordiv(a, b) by a if the constant b divides a.
  static Dim restore_exact(const Dim& sum) {
    for (const DimTerm& term : terms(sum)) {
      for (size_t i = 0; i < term.factors.size(); ++i) {
        const DimAtom& atom = *term.factors[i];
        auto divisor = atom.kind == AtomKind::floordiv ? atom.b.constant() : std::nullopt;
        if (!divisor || !divides(*divisor, term.coefficient) || !atom.a.is_multiple_of(*divisor)) continue;
        DimTerm others{term.coefficient / *divisor, term.factors, {}};
        others.factors.erase(others.factors.begin() + static_cast<std::ptrdiff_t>(i));
        others.key = key_of(others.factors);
        return (sum - make(0, {term})) + of_term(others) * atom.a;
      }
    }
    return sum;
  }

  /// True if b divides a. False where the division would trap (models may contain any number).
  static bool divides(int64_t b, int64_t a) {
    return b != 0 && (b != -1 || a != std::numeric_limits<int64_t>::min()) && a % b == 0;
  }

  /// Returns numerator / denominator if the quotient is a term with an integer coefficient.
  static std::optional<DimTerm> divide_terms(const DimTerm& numerator, const DimTerm& denominator) {
    if (!divides(denominator.coefficient, numerator.coefficient)) return std::nullopt;
    DimTerm quotient{numerator.coefficient / denominator.coefficient, numerator.factors, {}};
    for (const Atom& factor : denominator.factors) {
      auto found = std::ranges::find(quotient.factors, factor->key, [](const Atom& atom) { return atom->key; });
      if (found == quotient.factors.end()) return std::nullopt;
      quotient.factors.erase(found);
    }
    quotient.key = key_of(quotient.factors);
    return quotient;
  }

  static Dim of_term(const DimTerm& term) { return term.factors.empty() ? Dim(term.coefficient) : make(0, {term}); }

  /// Returns the term of highest degree, or the constant term if there is no other term.
  static DimTerm leading(const Dim& dim) { return dim.terms_ ? terms(dim).front() : DimTerm{dim.constant_, {}, {}}; }

  /// Returns the quotient of two polynomials; nothing if there is a remainder, or if 64 steps do not suffice.
  static std::optional<Dim> divide(Dim a, const Dim& b) {
    Dim quotient = 0;
    for (int step = 0; step < 64; ++step) {
      if (a == Dim(0)) return quotient;
      DimTerm divisor = leading(b);
      if (divisor.coefficient == 0) return std::nullopt;
      auto term = divide_terms(leading(a), divisor);
      if (!term) return std::nullopt;
      quotient = quotient + of_term(*term);
      a = a - of_term(*term) * b;
    }
    return std::nullopt;
  }

  /// Returns {whole, rest} with a = divisor * whole + rest. Coefficients in `rest` are not multiples of the divisor.
  static std::pair<Dim, Dim> split_multiples(const Dim& a, int64_t divisor) {
    std::vector<DimTerm> whole, rest;
    for (DimTerm term : terms(a)) {
      bool divides = term.coefficient % divisor == 0;
      if (divides) term.coefficient /= divisor;
      (divides ? whole : rest).push_back(std::move(term));
    }
    int64_t quotient = floor_divide(a.constant_, divisor);
    return {make(quotient, std::move(whole)), make(a.constant_ - quotient * divisor, std::move(rest))};
  }

  static int64_t common_divisor(const Dim& a) {
    int64_t divisor = std::abs(a.constant_);
    for (const DimTerm& term : terms(a)) divisor = std::gcd(divisor, term.coefficient);
    return divisor;
  }

  /// Splits `a` into the terms that are multiples of the divisor for all values of their symbols, and the rest. Returns
  /// the sum of these terms divided by the divisor, and the rest. If `a` is a single term, all of `a` is the rest.
  static std::pair<Dim, Dim> split_symbolic_multiples(const Dim& a, int64_t divisor) {
    Dim whole = 0, rest = a.constant_;
    bool is_alone = terms(a).size() == 1 && a.constant_ == 0;
    for (const DimTerm& term : terms(a)) {
      Dim part = of_term(term);
      if (!is_alone && part.is_multiple_of(divisor)) whole = whole + floordiv_constant(part, divisor);
      else rest = rest + part;
    }
    return {whole, rest};
  }

  static Dim floordiv_constant(const Dim& dividend, int64_t divisor) {
    auto [parts, a] = split_symbolic_multiples(dividend, divisor);
    return parts + floordiv_rest(a, divisor);
  }

  static Dim floordiv_rest(const Dim& a, int64_t divisor) {
    auto [whole, rest] = split_multiples(a, divisor);
    if (rest.is_constant()) return whole + Dim(floor_divide(rest.constant_, divisor));
    int64_t common = std::gcd(common_divisor(rest), divisor);
    if (common > 1) {
      rest = split_multiples(rest, common).first;
      divisor /= common;
    }
    Interval range = bounds(rest);
    if (range.low >= 0 && range.high < divisor) return whole;
    if (const DimTerm* only = single_atom(rest); only && only->factors[0]->kind == AtomKind::floordiv) {
      if (auto inner = only->factors[0]->b.constant(); inner && *inner > 0) {
        return whole + floordiv(only->factors[0]->a, Dim(multiply(*inner, divisor)));
      }
    }
    return whole + of(AtomKind::floordiv, "floordiv", rest, divisor);
  }

  static const DimTerm* single_atom(const Dim& dim) {
    if (dim.constant_ != 0 || terms(dim).size() != 1) return nullptr;
    const DimTerm& term = terms(dim)[0];
    return term.coefficient == 1 && term.factors.size() == 1 ? &term : nullptr;
  }

  static int64_t evaluate(const DimAtom& atom, const std::function<int64_t(const Symbol&)>& value_of) {
    if (atom.kind == AtomKind::symbol) return value_of(atom.symbol);
    int64_t a = atom.a.evaluate(value_of), b = atom.b.evaluate(value_of);
    if (atom.kind == AtomKind::floordiv) return floor_divide(a, b);
    return atom.kind == AtomKind::min ? std::min(a, b) : std::max(a, b);
  }

  static Dim substitute(const DimAtom& atom, const std::function<Dim(const Symbol&)>& replace) {
    if (atom.kind == AtomKind::symbol) return replace(atom.symbol);
    Dim a = atom.a.substitute(replace), b = atom.b.substitute(replace);
    if (atom.kind == AtomKind::floordiv) return floordiv(a, b);
    return atom.kind == AtomKind::min ? min(a, b) : max(a, b);
  }

  static std::string print(const DimTerm& term) {
    if (term.coefficient == 1) return term.key;
    if (term.coefficient == -1) return cat("-", term.key);
    return cat(term.coefficient, "*", term.key);
  }
};

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_name_part(char c) { return is_letter(c) || is_digit(c) || c == '_' || c == '.' || c == '$' || c == ':'; }

static std::string escaped(char c) {
  constexpr const char* digits = "0123456789abcdef";
  auto byte = static_cast<unsigned char>(c);
  return {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
}

std::string symbol_text(std::string_view name) {
  bool is_plain = !name.empty() && !is_digit(name[0]) && std::ranges::all_of(name, is_name_part);
  if (is_plain) return std::string(name);
  const bool is_readable = printable(name) == name;  // false: not UTF-8, or with control characters
  std::string text = "\"";
  for (char c : name) {
    bool is_shown = is_name_part(c) || c == ' ' || (static_cast<unsigned char>(c) >= 0x80 && is_readable);
    text += is_shown ? std::string(1, c) : escaped(c);
  }
  return text + "\"";
}

std::string symbol_name(std::string_view text) {
  if (!text.starts_with('"')) return std::string(text);
  auto value = [](char c) { return is_digit(c) ? c - '0' : c - 'a' + 10; };
  std::string name;
  for (size_t i = 1; i + 1 < text.size(); ++i) {
    bool is_escaped = text[i] == '\\' && i + 4 < text.size();
    name += is_escaped ? static_cast<char>(value(text[i + 2]) * 16 + value(text[i + 3])) : text[i];
    if (is_escaped) i += 3;
  }
  return name;
}

Dim Dim::symbol(Symbol symbol) {
  if (symbol.min == symbol.max) return symbol.min;
  std::string key = symbol_text(symbol.name);
  Interval range{symbol.min, symbol.max};
  return DimAlgebra::of(
      std::make_shared<const DimAtom>(DimAtom{AtomKind::symbol, std::move(symbol), {}, {}, std::move(key), range}));
}

std::optional<int64_t> Dim::constant() const { return terms_ ? std::nullopt : std::optional(constant_); }

int64_t Dim::value() const {
  if (terms_) internal_error(cat("the size ", *this, " is used as a number"));
  return constant_;
}

const Symbol* Dim::as_symbol() const {
  const DimTerm* only = DimAlgebra::single_atom(*this);
  return only && only->factors[0]->kind == AtomKind::symbol ? &only->factors[0]->symbol : nullptr;
}

int64_t Dim::evaluate(const std::function<int64_t(const Symbol&)>& value_of) const {
  int64_t sum = constant_;
  for (const DimTerm& term : DimAlgebra::terms(*this)) {
    int64_t value = term.coefficient;
    for (const Atom& factor : term.factors) value = multiply(value, DimAlgebra::evaluate(*factor, value_of));
    sum = add(sum, value);
  }
  return sum;
}

Dim Dim::substitute(const std::function<Dim(const Symbol&)>& replace) const {
  Dim sum = constant_;
  for (const DimTerm& term : DimAlgebra::terms(*this)) {
    Dim value = term.coefficient;
    for (const Atom& factor : term.factors) value = value * DimAlgebra::substitute(*factor, replace);
    sum = sum + value;
  }
  return sum;
}

void Dim::visit_symbols(const std::function<void(const Symbol&)>& visit) const {
  for (const DimTerm& term : DimAlgebra::terms(*this)) {
    for (const Atom& factor : term.factors) {
      if (factor->kind == AtomKind::symbol) visit(factor->symbol);
      factor->a.visit_symbols(visit);
      factor->b.visit_symbols(visit);
    }
  }
}

static Interval interval_of(const Dim& dim, int64_t constant) {
  Interval sum{constant, constant};
  for (const DimTerm& term : DimAlgebra::terms(dim)) {
    Interval value{term.coefficient, term.coefficient};
    for (const Atom& factor : term.factors) value = value * factor->range;
    sum = sum + value;
  }
  return sum;
}

int64_t Dim::lower_bound() const { return interval_of(*this, constant_).low; }
int64_t Dim::upper_bound() const { return interval_of(*this, constant_).high; }

bool Dim::is_multiple_of(int64_t divisor) const {
  auto is_multiple = [&](const DimTerm& term) {
    int64_t rest = divisor / std::gcd(divisor, term.coefficient);
    for (const Atom& factor : term.factors) rest /= std::gcd(rest, known_divisor(*factor));
    return rest == 1;
  };
  return DimAlgebra::divides(divisor, constant_) && std::ranges::all_of(DimAlgebra::terms(*this), is_multiple);
}

bool Dim::operator==(const Dim& other) const {
  const auto &mine = DimAlgebra::terms(*this), &theirs = DimAlgebra::terms(other);
  auto same = [](const DimTerm& a, const DimTerm& b) { return a.coefficient == b.coefficient && a.key == b.key; };
  return constant_ == other.constant_ && (terms_ == other.terms_ || std::ranges::equal(mine, theirs, same));
}

Dim operator+(const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) return add(a.constant_, b.constant_);
  std::vector<DimTerm> terms = DimAlgebra::terms(a);
  const auto& more = DimAlgebra::terms(b);
  terms.insert(terms.end(), more.begin(), more.end());
  return DimAlgebra::restore_exact(DimAlgebra::make(add(a.constant_, b.constant_), std::move(terms)));
}

Dim operator-(const Dim& a, const Dim& b) { return a + DimAlgebra::scale(b, -1); }

Dim operator*(const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) return multiply(a.constant_, b.constant_);
  if (b.is_constant()) return DimAlgebra::restore_exact(DimAlgebra::scale(a, b.constant_));
  if (a.is_constant()) return b * a;
  std::vector<DimTerm> terms;
  for (const DimTerm& x : DimAlgebra::terms(a)) {
    for (const DimTerm& y : DimAlgebra::terms(b)) terms.push_back(DimAlgebra::multiply_terms(x, y));
  }
  Dim sum = DimAlgebra::make(0, std::move(terms));
  return sum + DimAlgebra::scale(a - Dim(a.constant_), b.constant_) +
         DimAlgebra::scale(b - Dim(b.constant_), a.constant_) + Dim(multiply(a.constant_, b.constant_));
}

Dim floordiv(const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) return floor_divide(a.constant_, b.constant_);
  if (b == Dim(1)) return a;
  if (b.is_constant() && b.constant_ > 0) return DimAlgebra::floordiv_constant(a, b.constant_);
  if (b.lower_bound() > 0) {
    if (auto quotient = DimAlgebra::divide(a, b)) return *quotient;
  }
  return DimAlgebra::of(AtomKind::floordiv, "floordiv", a, b);
}

Dim ceildiv(const Dim& a, const Dim& b) { return floordiv(a + b - Dim(1), b); }
Dim mod(const Dim& a, const Dim& b) { return a - b * floordiv(a, b); }

Dim min(const Dim& a, const Dim& b) {
  if (known_less_equal(a, b)) return a;
  if (known_less_equal(b, a)) return b;
  return to_string(a) < to_string(b) ? DimAlgebra::of(AtomKind::min, "min", a, b)
                                     : DimAlgebra::of(AtomKind::min, "min", b, a);
}

Dim max(const Dim& a, const Dim& b) {
  if (known_less_equal(a, b)) return b;
  if (known_less_equal(b, a)) return a;
  return to_string(a) < to_string(b) ? DimAlgebra::of(AtomKind::max, "max", a, b)
                                     : DimAlgebra::of(AtomKind::max, "max", b, a);
}

std::optional<Dim> exact_divide(const Dim& a, const Dim& b) {
  if (b == Dim(0)) return std::nullopt;
  if (auto quotient = DimAlgebra::divide(a, b)) return quotient;
  if (auto divisor = b.constant(); divisor && *divisor > 0 && a.is_multiple_of(*divisor)) return floordiv(a, b);
  return std::nullopt;
}

bool known_equal(const Dim& a, const Dim& b) { return a == b || a - b == Dim(0); }

bool known_different(const Dim& a, const Dim& b) {
  Dim difference = a - b;
  return difference.lower_bound() > 0 || difference.upper_bound() < 0;
}

/// True if `dim` is proved to be >= 0 by replacing one term max(a, b) by a or b, or one term -min(a, b) by -a or -b.
/// This is valid because the replacement never increases `dim`.
static bool is_positive_without_choice(const Dim& dim) {
  for (const DimTerm& term : DimAlgebra::terms(dim)) {
    if (term.factors.size() != 1) continue;
    const DimAtom& atom = *term.factors[0];
    bool is_greatest = atom.kind == AtomKind::max && term.coefficient == 1,
         is_least_off = atom.kind == AtomKind::min && term.coefficient == -1;
    if (!is_greatest && !is_least_off) continue;
    Dim choice = DimAlgebra::of(atom.kind, is_greatest ? "max" : "min", atom.a, atom.b);
    Dim rest = is_greatest ? dim - choice : dim + choice;
    for (const Dim& one : {atom.a, atom.b}) {
      if ((is_greatest ? rest + one : rest - one).lower_bound() >= 0) return true;
    }
  }
  return false;
}

bool known_less_equal(const Dim& a, const Dim& b) {
  return (a - b).upper_bound() <= 0 || is_positive_without_choice(b - a);
}

std::string to_string(const Dim& dim) {
  std::string text;
  for (const DimTerm& term : DimAlgebra::terms(dim)) {
    std::string piece = DimAlgebra::print(term);
    if (text.empty()) text = std::move(piece);
    else if (piece[0] == '-') text += cat(" - ", piece.substr(1));
    else text += cat(" + ", piece);
  }
  if (text.empty()) return cat(dim.constant_);
  if (dim.constant_ > 0) text += cat(" + ", dim.constant_);
  if (dim.constant_ < 0) text += cat(" - ", cat(dim.constant_).substr(1));
  return text;
}

std::vector<DimProduct> terms_of(const Dim& dim) {
  constexpr std::string_view functions[] = {"", "floordiv", "min", "max"};  // indexed by AtomKind
  std::vector<DimProduct> terms;
  for (const DimTerm& term : DimAlgebra::terms(dim)) {
    DimProduct& added = terms.emplace_back(DimProduct{.coefficient = term.coefficient});
    for (const Atom& atom : term.factors)
      added.factors.push_back({.symbol = atom->kind == AtomKind::symbol ? &atom->symbol : nullptr,
                               .function = functions[static_cast<size_t>(atom->kind)],
                               .a = atom->a,
                               .b = atom->b});
  }
  if (int64_t rest = DimAlgebra::constant_term(dim); rest != 0) terms.push_back({.coefficient = rest});
  return terms;
}

void no_such_dimension(int64_t index, size_t rank) {
  throw Error({.kind = ErrorKind::model,
               .code = "E151",
               .what = cat("dimension ", index, " of a tensor of rank ", rank, " is needed")});
}

Dim product(const Dims& dims) {
  Dim total = 1;
  for (const Dim& dim : dims) total = total * dim;
  return total;
}

bool all_constant(const Dims& dims) { return std::ranges::all_of(dims, &Dim::is_constant); }

namespace {

/// A recursive-descent parser for `sum := term (+|- term)*`, `term := factor (*|/ factor)*`, with a limit on the depth.
class DimParser {
 public:
  DimParser(std::string_view text, const std::function<Symbol(std::string_view)>& symbol_of)
      : text_(text), symbol_of_(symbol_of) {}

  Dim parse() {
    Dim dim = sum();
    skip_space();
    if (at_ != text_.size()) refuse("unexpected text");
    return dim;
  }

 private:
  [[noreturn]] void refuse(std::string_view why) {
    throw Error({.kind = ErrorKind::model,
                 .code = "E190",
                 .what = cat("size expression '", printable(text_), "': ", why, " at ", at_)});
  }

  void skip_space() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }

  bool take(char c) {
    skip_space();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  Dim sum() {
    if (++depth_ > 64) refuse("nested too deeply");
    Dim total = term();
    for (;;) {
      if (take('+')) total = total + term();
      else if (take('-')) total = total - term();
      else break;
    }
    --depth_;
    return total;
  }

  Dim term() {
    Dim total = factor();
    for (;;) {
      if (take('*')) total = total * factor();
      else if (take('/')) total = floordiv(total, factor());
      else return total;
    }
  }

  Dim factor() {
    if (take('-')) return negated();
    if (take('(')) {
      Dim inside = sum();
      if (!take(')')) refuse("missing )");
      return inside;
    }
    skip_space();
    return at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) ? number() : name_or_call();
  }

  Dim negated() {
    if (++depth_ > 64) refuse("nested too deeply");
    Dim inside = factor();
    --depth_;
    return Dim(0) - inside;
  }

  Dim number() {
    int64_t value = 0;
    auto [end, code] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (code != std::errc()) refuse("number out of range");
    at_ = end - text_.data();
    return value;
  }

  Dim quoted_name() {
    size_t end = text_.find('"', at_ + 1);
    if (end == text_.npos) refuse("missing \"");
    std::string name = symbol_name(text_.substr(at_, end + 1 - at_));
    at_ = end + 1;
    return Dim::symbol(symbol_of_(name));
  }

  Dim name_or_call() {
    constexpr std::string_view ends = " +-*/(),]";
    if (text_.substr(at_).starts_with('"')) return quoted_name();
    size_t end = std::min(text_.find_first_of(ends, at_), text_.size());
    std::string_view name = text_.substr(at_, end - at_);
    if (name.empty()) refuse("a name or number is missing");
    at_ = end;
    if (!take('(')) return Dim::symbol(symbol_of_(name));
    Dim a = sum();
    if (!take(',')) refuse("missing ,");
    Dim b = sum();
    if (!take(')')) refuse("missing )");
    return call(name, a, b);
  }

  Dim call(std::string_view name, const Dim& a, const Dim& b) {
    if (name == "floordiv") return floordiv(a, b);
    if (name == "ceildiv") return ceildiv(a, b);
    if (name == "mod") return mod(a, b);
    if (name == "min") return min(a, b);
    if (name == "max") return max(a, b);
    refuse(cat("unknown function ", name));
  }

  std::string_view text_;
  const std::function<Symbol(std::string_view)>& symbol_of_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

Dim parse_dim(std::string_view text, const std::function<Symbol(std::string_view)>& symbol_of) {
  return DimParser(text, symbol_of).parse();
}

}  // namespace weft
