// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace weft::tensorflow {

/// The checksum that TensorFlow keeps of blocks and variables: CRC-32 with Castagnoli's polynomial, in the masked form
/// of LevelDB, since the bytes may hold checksums themselves.
uint32_t masked_crc32c(std::span<const std::byte> bytes);

}  // namespace weft::tensorflow
