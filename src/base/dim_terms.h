// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string_view>
#include <vector>

#include "base/dim.h"

/// The terms of a symbolic size, for code that writes the size in another form (such as ONNX nodes).
namespace weft {

/// A symbol, or a function of two sizes.
struct DimFactor {
  const Symbol* symbol = nullptr;  ///< lives as long as the size
  std::string_view function = {};  ///< without a symbol: "floordiv", "min" or "max"
  Dim a = 0, b = 0;                ///< the function's operands
};

/// coefficient * factors[0] * factors[1] ...
struct DimProduct {
  int64_t coefficient = 0;
  std::vector<DimFactor> factors = {};
};

/// Returns the terms; their sum is the size. The constant term, if any, comes last.
std::vector<DimProduct> terms_of(const Dim& dim);

}  // namespace weft
