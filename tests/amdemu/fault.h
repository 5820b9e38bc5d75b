// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <sstream>
#include <stdexcept>
#include <string>

namespace weft::amdemu {

/// An error that ends a kernel or refuses a code object: an invalid address, a race, an unsupported instruction.
struct Fault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Joins values into a text.
template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

struct Hex {
  unsigned long long value;
  friend std::ostream& operator<<(std::ostream& out, Hex x) { return out << "0x" << std::hex << x.value << std::dec; }
};

}  // namespace weft::amdemu
