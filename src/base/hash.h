// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace weft {

/// A 128-bit content hash (XXH3). It detects damage and identifies contents; it does not resist an attacker.
struct Hash128 {
  uint64_t low = 0;
  uint64_t high = 0;
  auto operator<=>(const Hash128&) const = default;
};

Hash128 hash128(std::span<const std::byte> data);
Hash128 hash128(std::string_view text);
/// Returns the hash as 32 hexadecimal digits.
std::string to_string(const Hash128& hash);

}  // namespace weft
