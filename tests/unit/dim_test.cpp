// SPDX-License-Identifier: Apache-2.0
// Symbolic sizes: random expressions against plain numbers, canonical form, bounds, proofs.
#include <doctest/doctest.h>

#include <random>

#include "base/dim.h"
#include "base/dim_terms.h"
#include "base/error.h"
#include "base/text.h"

using namespace weft;

namespace {

const Symbol a_symbol{.name = "a"};
const Symbol b_symbol{.name = "b", .min = 1, .max = 64};
const Symbol c_symbol{.name = "c", .min = 4, .max = 400, .multiple_of = 4};
const Dim a = Dim::symbol(a_symbol), b = Dim::symbol(b_symbol), c = Dim::symbol(c_symbol);

struct Point {
  int64_t a, b, c;
  int64_t operator()(const Symbol& symbol) const { return symbol.name == "a" ? a : symbol.name == "b" ? b : c; }
};

int64_t floor_div(int64_t x, int64_t y) { return x / y - (x % y != 0 && (x < 0) != (y < 0)); }

/// A symbolic expression, and a function that computes the same with numbers.
struct Pair {
  Dim dim;
  std::function<int64_t(const Point&)> value;
};

class Maker {
 public:
  explicit Maker(uint32_t seed) : random_(seed) {}
  int64_t number(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }
  Point point() { return {number(0, 300), number(1, 64), 4 * number(1, 100)}; }

  Pair leaf() {
    switch (number(0, 3)) {
      case 0: return {a, [](const Point& p) { return p.a; }};
      case 1: return {b, [](const Point& p) { return p.b; }};
      case 2: return {c, [](const Point& p) { return p.c; }};
      default: {
        int64_t n = number(-5, 12);
        return {n, [n](const Point&) { return n; }};
      }
    }
  }

  Pair expression(int depth) {
    if (depth == 0) return leaf();
    Pair x = expression(depth - 1), y = expression(static_cast<int>(number(0, depth - 1)));
    auto with = [&](Dim dim, auto f) {
      return Pair{std::move(dim), [x, y, f](const Point& p) { return f(x.value(p), y.value(p)); }};
    };
    switch (number(0, 6)) {
      case 0: return with(x.dim + y.dim, [](int64_t u, int64_t v) { return u + v; });
      case 1: return with(x.dim - y.dim, [](int64_t u, int64_t v) { return u - v; });
      case 2: return with(x.dim * y.dim, [](int64_t u, int64_t v) { return u * v; });
      case 3: return with(min(x.dim, y.dim), [](int64_t u, int64_t v) { return std::min(u, v); });
      case 4: return with(max(x.dim, y.dim), [](int64_t u, int64_t v) { return std::max(u, v); });
      case 5: {
        int64_t n = number(0, 3) == 0 ? number(-3, -1) : number(1, 6);
        return with(floordiv(x.dim, n), [n](int64_t u, int64_t) { return floor_div(u, n); });
      }
      default: {
        int64_t n = number(1, 6);
        return with(mod(x.dim, n), [n](int64_t u, int64_t) { return u - n * floor_div(u, n); });
      }
    }
  }

 private:
  std::mt19937 random_;
};

Symbol symbol_of(std::string_view name) { return name == "a" ? a_symbol : name == "b" ? b_symbol : c_symbol; }

}  // namespace

TEST_CASE("dim: random expressions equal plain arithmetic, keep their bounds and read back") {
  Maker make(7);
  for (int round = 0; round < 2000; ++round) {
    Pair x = make.expression(1 + round % 4);
    CAPTURE(to_string(x.dim));
    CHECK(parse_dim(to_string(x.dim), symbol_of) == x.dim);
    Dim same = x.dim.substitute([](const Symbol& symbol) { return Dim::symbol(symbol); });
    CHECK(same == x.dim);
    for (int i = 0; i < 8; ++i) {
      Point p = make.point();
      int64_t value = x.value(p);
      REQUIRE(x.dim.evaluate(p) == value);
      REQUIRE(value >= x.dim.lower_bound());
      REQUIRE(value <= x.dim.upper_bound());
      for (int64_t divisor : {2, 3, 4}) {
        if (x.dim.is_multiple_of(divisor)) REQUIRE(value % divisor == 0);
      }
      Dim number = x.dim.substitute([&](const Symbol& symbol) { return Dim(p(symbol)); });
      REQUIRE(number == Dim(value));
    }
  }
}

TEST_CASE("dim: each proved condition holds for random values") {
  Maker make(11);
  int equal = 0, less = 0, different = 0, divided = 0;
  for (int round = 0; round < 3000; ++round) {
    Pair x = make.expression(1 + round % 3), y = make.expression(1 + round % 2);
    CAPTURE(to_string(x.dim));
    CAPTURE(to_string(y.dim));
    bool is_equal = known_equal(x.dim, y.dim), is_less = known_less_equal(x.dim, y.dim);
    bool is_different = known_different(x.dim, y.dim);
    auto quotient = exact_divide(x.dim, y.dim);
    equal += is_equal, less += is_less, different += is_different, divided += quotient.has_value();
    for (int i = 0; i < 6; ++i) {
      Point p = make.point();
      int64_t u = x.value(p), v = y.value(p);
      if (is_equal) REQUIRE(u == v);
      if (is_less) REQUIRE(u <= v);
      if (is_different) REQUIRE(u != v);
      if (quotient && v != 0) REQUIRE(quotient->evaluate(p) * v == u);
    }
  }
  // The proofs must succeed for enough of the 3,000 pairs.
  CHECK(equal > 20);
  CHECK(less > 200);
  CHECK(different > 200);
  CHECK(divided > 200);
}

TEST_CASE("dim: equal sums are one expression, however they were built") {
  Maker make(3);
  for (int round = 0; round < 500; ++round) {
    Dim x = make.expression(2).dim, y = make.expression(2).dim, z = make.expression(1).dim;
    CAPTURE(to_string(x));
    CAPTURE(to_string(y));
    CHECK(x + y == y + x);
    CHECK(x * y == y * x);
    CHECK((x + y) - y == x);
    CHECK((x + y) + z == x + (y + z));
    CHECK(z * (x + y) == z * x + z * y);
    CHECK(min(x, y) == min(y, x));
  }
}

TEST_CASE("dim: sizes as models use them") {
  CHECK(to_string(Dim(2) * b + 1) == "2*b + 1");
  CHECK(b * 128 - b * 128 == Dim(0));
  CHECK(floordiv(b * 12 * 64, 64) == b * 12);
  CHECK(*exact_divide(b * a * 768, Dim(64) * b) == a * 12);
  CHECK_FALSE(exact_divide(a, 2).has_value());
  CHECK(floordiv(c, 4) * 4 == c);
  CHECK(c.is_multiple_of(4));
  CHECK(mod(c, 2) == Dim(0));
  // The output size of a convolution (kernel 3, stride 2, padding 1) over an even size c.
  CHECK(floordiv(c + 2 - 3, 2) + 1 == floordiv(c, 2));
  CHECK(floordiv(floordiv(a, 2), 3) == floordiv(a, 6));
  CHECK(known_less_equal(b, 64));
  CHECK(known_less_equal(Dim(1), b));
  CHECK(known_different(b, 0));
  CHECK_FALSE(known_different(a, 0));
  CHECK(min(b, 100) == b);
  CHECK(max(a, -3) == a);
  CHECK(ceildiv(Dim(7), 2) == Dim(4));
  CHECK(floordiv(Dim(-7), 2) == Dim(-4));
  CHECK(a.as_symbol()->name == "a");
  CHECK((a + 1).as_symbol() == nullptr);
}

TEST_CASE("dim: overflow, division by zero and text that is not a size are errors") {
  CHECK_THROWS_WITH_AS(Dim(INT64_MAX) + 1, doctest::Contains("E146"), Error);
  CHECK_THROWS_WITH_AS((a * INT64_MAX).evaluate([](auto&) { return 2; }), doctest::Contains("E146"), Error);
  CHECK_THROWS_WITH_AS(floordiv(Dim(1), a).evaluate([](auto&) { return 0; }), doctest::Contains("E311"), Error);
  for (int64_t divisor : {0, -1}) {  // a damaged model may contain any number
    Dim quotient = floordiv(a * b, divisor), product = quotient * INT64_MIN + quotient * 6;
    if (divisor == 0) CHECK_THROWS_WITH_AS(product.evaluate([](auto&) { return 3; }), doctest::Contains("E311"), Error);
    CHECK(product.substitute([](const Symbol& symbol) { return Dim::symbol(symbol); }) == product);
  }
  for (const char* text : {"", "2*", "(a", "a)", "f(a, b)", "99999999999999999999", "a b"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(parse_dim(text, symbol_of), Error);
  }
  CHECK(parse_dim("ceildiv(a, 2) * (b - 1) + mod(c, 3)", symbol_of) == ceildiv(a, 2) * (b - 1) + mod(c, 3));
  CHECK(parse_dim("a / 2", symbol_of) == floordiv(a, 2));
}

TEST_CASE("dim: a maximum is at least each of its operands, a minimum at most") {
  Dim p = Dim::symbol({.name = "p"}), q = Dim::symbol({.name = "q"}), r = Dim::symbol({.name = "r"});
  CHECK(known_less_equal(p, max(p, q)));
  CHECK(known_less_equal(p + r, max(p, q) + r));
  CHECK(known_less_equal(min(p, q), q));
  CHECK_FALSE(known_less_equal(max(p, q), p));
  CHECK_FALSE(known_less_equal(r, max(p, q)));
  CHECK(max(p, max(p, q)) == max(p, q));
}

TEST_CASE("dim: an expression that is squared again and again ends in an error") {
  auto squared = [](bool is_divided) {
    Dim size = a;
    for (int i = 0; i < 60; ++i) size = is_divided ? floordiv(size * size + 1, 3) : size * size;
  };
  CHECK_THROWS_WITH_AS(squared(false), doctest::Contains("E146"), Error);
  CHECK_THROWS_WITH_AS(squared(true), doctest::Contains("E146"), Error);
}

TEST_CASE("dim: bounds of a deep expression are computed once") {
  Dim deep = a;
  for (int i = 0; i < 200; ++i) deep = floordiv(deep + 1, 3);
  CHECK(deep.lower_bound() == 0);
}

TEST_CASE("dim: control characters of a name are escaped") {
  for (const char* name : {"\xff", "n\xc2\x9bJ", "\x1b[2J", "gr\xc3\xb6\xc3\x9f", "a\xc3"}) {
    CAPTURE(name);
    std::string text = symbol_text(name);
    CHECK(printable(text) == text);
    CHECK(symbol_name(text) == name);
  }
}

TEST_CASE("bytes that are not UTF-8 are escaped: overlong forms, surrogates, numbers above 10ffff") {
  CHECK(printable("\xe0\x80\xaf") == R"(\xe0\x80\xaf)");
  CHECK(printable("\xed\xa0\x80") == R"(\xed\xa0\x80)");
  CHECK(printable("\xf0\x80\x80\xaf") == R"(\xf0\x80\x80\xaf)");
  CHECK(printable("\xf4\x90\x80\x80") == R"(\xf4\x90\x80\x80)");
  for (const char* valid : {"\xe0\xa0\x80", "\xed\x9f\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"})
    CHECK(printable(valid) == valid);
}

TEST_CASE("the terms of a size add up to it") {
  Dim n = Dim::symbol({.name = "n", .min = 1}), m = Dim::symbol({.name = "m", .min = 1});
  auto value_of = [](const Symbol& symbol) { return symbol.name == "n" ? int64_t{7} : int64_t{5}; };
  for (const Dim& size : {Dim(0), Dim(-3), n, 2 * n * m - 4, floordiv(n + 1, 3) * m + min(n, m) - max(n, 2 * m),
                          n * n + floordiv(m, n)}) {
    int64_t sum = 0;
    for (const DimProduct& term : terms_of(size)) {
      int64_t product = term.coefficient;
      for (const DimFactor& factor : term.factors) {
        int64_t a = factor.a.evaluate(value_of), b = factor.b.evaluate(value_of);
        product *= factor.symbol                   ? value_of(*factor.symbol)
                   : factor.function == "floordiv" ? a / b
                   : factor.function == "min"      ? std::min(a, b)
                                                   : std::max(a, b);
      }
      sum += product;
    }
    CHECK_MESSAGE(sum == size.evaluate(value_of), to_string(size));
  }
}
