// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Symbolic sizes. A `Dim` is a number or an expression over named symbols:
///
///     Dim batch = Dim::symbol({.name = "batch", .min = 1, .max = 64});
///     Dim rows = batch * 128;                      // "128*batch"
///     known_equal(floordiv(rows, 128), batch)      // true: proved
///     rows.evaluate([](auto&) { return 3; })       // 384
///
/// Expressions are stored in a canonical form, so that equal sums compare equal however they were built: a polynomial
/// with integer coefficients over atoms (symbols, floordiv, min, max). `mod` and `ceildiv` are written with floordiv.
/// The functions known_... return false for a relation that cannot be proved.
namespace weft {

struct Symbol {
  std::string name;
  int64_t min = 0;
  int64_t max = INT64_MAX;  ///< INT64_MAX: no upper bound known
  int64_t multiple_of = 1;
};

struct DimTerms;
struct DimAtom;

class Dim {
 public:
  Dim(int64_t value = 0) : constant_(value) {}  // NOLINT: numbers are sizes
  static Dim symbol(Symbol symbol);

  bool is_constant() const { return terms_ == nullptr; }
  /// Returns the number if the size is constant.
  std::optional<int64_t> constant() const;
  /// Returns the number; throws an internal error if the size is not constant.
  int64_t value() const;
  /// Returns the symbol if the expression is a single symbol, otherwise null.
  const Symbol* as_symbol() const;

  /// Returns the value, with each symbol's value from `value_of`. Throws E146 on overflow, E311 on a division by zero.
  int64_t evaluate(const std::function<int64_t(const Symbol&)>& value_of) const;
  /// Returns the size with every symbol `s` replaced by `replace(s)`.
  Dim substitute(const std::function<Dim(const Symbol&)>& replace) const;
  /// Calls `visit` for each occurrence of a symbol.
  void visit_symbols(const std::function<void(const Symbol&)>& visit) const;

  /// Return bounds that hold for every allowed value of the symbols; INT64_MIN or INT64_MAX if no bound is known.
  int64_t lower_bound() const;
  int64_t upper_bound() const;
  /// True if every value is proved to be a multiple of `divisor`.
  bool is_multiple_of(int64_t divisor) const;

  /// True if both sizes have the same canonical form. known_equal also proves other expressions equal.
  bool operator==(const Dim& other) const;

  friend Dim operator+(const Dim& a, const Dim& b);
  friend Dim operator-(const Dim& a, const Dim& b);
  friend Dim operator*(const Dim& a, const Dim& b);
  friend Dim floordiv(const Dim& a, const Dim& b);
  friend Dim min(const Dim& a, const Dim& b);
  friend Dim max(const Dim& a, const Dim& b);
  friend std::string to_string(const Dim& dim);
  friend struct DimAlgebra;

 private:
  int64_t constant_ = 0;                   // the constant term
  std::shared_ptr<const DimTerms> terms_;  // the other terms; null for a plain number
};

Dim operator+(const Dim& a, const Dim& b);
Dim operator-(const Dim& a, const Dim& b);
Dim operator*(const Dim& a, const Dim& b);
Dim floordiv(const Dim& a, const Dim& b);  ///< rounds towards minus infinity
Dim ceildiv(const Dim& a, const Dim& b);   ///< rounds towards plus infinity
Dim mod(const Dim& a, const Dim& b);       ///< a - b * floordiv(a, b)
Dim min(const Dim& a, const Dim& b);
Dim max(const Dim& a, const Dim& b);
inline Dim& operator+=(Dim& a, const Dim& b) { return a = a + b; }
inline Dim& operator*=(Dim& a, const Dim& b) { return a = a * b; }

/// Returns a / b if it can be proved to be an integer for all values of the symbols.
std::optional<Dim> exact_divide(const Dim& a, const Dim& b);

bool known_equal(const Dim& a, const Dim& b);       ///< proved equal
bool known_different(const Dim& a, const Dim& b);   ///< proved never equal
bool known_less_equal(const Dim& a, const Dim& b);  ///< proved a <= b

/// Returns a symbol's name as it is written in a program's text: quoted and escaped unless it consists of letters,
/// digits and "_.$:" and does not start with a digit. symbol_name does the reverse.
std::string symbol_text(std::string_view name);
std::string symbol_name(std::string_view text);

/// Prints a size: "3", "batch", "2*batch + 1", "floordiv(seq + 1, 2)", "max(a, b)". parse_dim reads this text.
std::string to_string(const Dim& dim);
/// Parses what to_string prints (also `/` for floordiv, `ceildiv` and `mod`). `symbol_of` returns the symbol, with its
/// bounds, for a name. Throws E190 with the position in the text.
Dim parse_dim(std::string_view text, const std::function<Symbol(std::string_view)>& symbol_of);

/// Throws E151: a tensor of this rank has no dimension with that number.
[[noreturn]] void no_such_dimension(int64_t index, size_t rank);

/// Sizes of a tensor, outermost first. operator[] checks the index and throws E151 if it is outside, because a model
/// may name a dimension that does not exist.
class Dims : public std::vector<Dim> {
 public:
  using std::vector<Dim>::vector;

  Dim& operator[](int64_t index) { return data()[checked(index)]; }
  const Dim& operator[](int64_t index) const { return data()[checked(index)]; }
  Dim& front() { return (*this)[0]; }
  const Dim& front() const { return (*this)[0]; }
  Dim& back() { return (*this)[std::ssize(*this) - 1]; }
  const Dim& back() const { return (*this)[std::ssize(*this) - 1]; }

 private:
  int64_t checked(int64_t index) const {
    if (index < 0 || index >= std::ssize(*this)) no_such_dimension(index, size());
    return index;
  }
};

Dim product(const Dims& dims);
bool all_constant(const Dims& dims);

}  // namespace weft
