// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace weft::tensorflow {

/// Returns the checksum that TensorFlow stores for blocks and variables: CRC-32C, masked as LevelDB does because the
/// bytes may themselves contain checksums.
uint32_t masked_crc32c(std::span<const std::byte> bytes);

}  // namespace weft::tensorflow
