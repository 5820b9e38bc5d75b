// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <string_view>

#include "base/dim.h"

namespace weft::torch {

/// Parses a size in sympy's notation, "Add(Symbol('s77', integer=True), Integer(1))", or in Python's, "2*s77 + 1".
/// `symbol_of` returns the symbol of a name. Throws E190 with the position in the text.
Dim parse_size(std::string_view text, const std::function<Symbol(std::string_view)>& symbol_of);

/// Returns base^exponent, for an exponent of 0 or more.
Dim size_power(const Dim& base, int64_t exponent);

/// A condition on sizes.
struct Relation {
  enum class Kind : uint8_t { equal, different, less_equal };
  Kind kind = Kind::equal;
  Dim a, b;
};
/// Parses a condition in Python's notation, where inputs are named by path: "L['x'].size()[0] % 8 == 0",
/// "L['ids'][0].size()[1] <= 64 or L['x'].size()[0] == 1" for inputs ids_0 and x. Throws E190 for other expressions and
/// for axes that the input lacks.
Relation parse_relation(std::string_view text, const std::function<Dims(const std::string& input)>& sizes_of);

}  // namespace weft::torch
