// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/op.h"

namespace weft {

/// table[x], with the bits of x (u8 or i8) read as u8. Operands: x and a table of 256 bytes.
struct Lookup {
  static constexpr std::string_view name = "lookup";
  static auto fields() { return std::tuple{}; }
  Types infer(Operands in) const;
  std::vector<Wide> evaluate(std::span<const Wide> in) const;
  bool operator==(const Lookup&) const = default;
};

}  // namespace weft
