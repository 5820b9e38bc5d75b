// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace weft {

Hash128 hash128(std::span<const std::byte> data) {
  XXH128_hash_t h = XXH3_128bits(data.data(), data.size());
  return {h.low64, h.high64};
}

Hash128 hash128(std::string_view text) { return hash128(std::as_bytes(std::span(text.data(), text.size()))); }

std::string to_string(const Hash128& hash) {
  static constexpr char hex[] = "0123456789abcdef";
  std::string text;
  for (uint64_t half : {hash.high, hash.low}) {
    for (int shift = 60; shift >= 0; shift -= 4) text += hex[half >> shift & 15];
  }
  return text;
}

}  // namespace weft
