// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

/// Decodes picture files: JPEG, PNG, WebP, JPEG 2000, BMP, PNM and TIFF without compression.
namespace weft::host {

/// Rows of interleaved bytes from the top, red first; one channel is grey.
struct Picture {
  size_t width = 0, height = 0, channels = 0;
  std::vector<uint8_t> pixels = {};
};

/// Recognises a picture by its first bytes.
bool is_picture(std::span<const std::byte> file);
/// Decodes a picture as RGB; transparent parts become white. Throws E212 if it is of an unknown kind, damaged, or too
/// large: above 2^28 pixels, or above 2^24 and above 2^13 for each byte of the file.
Picture decode_picture(std::span<const std::byte> file);
/// The picture's brightness, by the weights of ITU-R 601 in 16 bits.
Picture grey(const Picture& picture);

}  // namespace weft::host
