// SPDX-License-Identifier: Apache-2.0
#include "frontends/tensorflow/checksum.h"

#include <array>
#include <cstring>

namespace weft::tensorflow {
namespace {

using Table = std::array<uint32_t, 256>;

/// tables[k][b] is the checksum of byte b followed by k zero bytes: eight bytes take eight lookups that do not depend
/// on each other (slicing-by-8).
constexpr std::array<Table, 8> make_tables() {
  std::array<Table, 8> tables{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ (value & 1 ? 0x82f63b78u : 0u);
    tables[0][i] = value;
  }
  for (size_t k = 1; k < 8; ++k) {
    for (size_t i = 0; i < 256; ++i) tables[k][i] = tables[0][tables[k - 1][i] & 255] ^ (tables[k - 1][i] >> 8);
  }
  return tables;
}
constexpr std::array<Table, 8> tables = make_tables();

}  // namespace

uint32_t masked_crc32c(std::span<const std::byte> bytes) {
  uint32_t crc = ~0u;
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data(), 8);
    word ^= crc;
    crc = 0;
    for (size_t k = 0; k < 8; ++k) crc ^= tables[7 - k][(word >> (8 * k)) & 255];
  }
  for (auto byte : bytes) crc = tables[0][(crc ^ static_cast<uint32_t>(byte)) & 255] ^ (crc >> 8);
  crc = ~crc;
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

}  // namespace weft::tensorflow
