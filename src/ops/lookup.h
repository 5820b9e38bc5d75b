// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/op.h"

namespace weft {

/// table[x], where the bits of x (u8 or i8) as a u8 are the index. Operands: x and a table of 256 bytes.
struct Lookup {
  static constexpr std::string_view name = "lookup";
  static auto fields() { return std::tuple{}; }
  Types infer(Operands in) const;
  std::vector<Wide> evaluate(std::span<const Wide> in) const;
  bool operator==(const Lookup&) const = default;
};

}  // namespace weft
