// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

/// Pictures as files hold them: JPEG, PNG, WebP, JPEG 2000, BMP, PNM and TIFF without compression.
namespace weft::host {

/// Rows of interleaved bytes from the top, red first; one channel is grey.
struct Picture {
  size_t width = 0, height = 0, channels = 0;
  std::vector<uint8_t> pixels = {};
};

/// By its first bytes.
bool is_picture(std::span<const std::byte> file);
/// The picture in a file's bytes, as RGB; transparent parts are white. Throws E212 when they are of no kind that is
/// read, damaged, of more than 2^28 pixels, or of more than 2^24 and more than 2^13 for each byte.
Picture decode_picture(std::span<const std::byte> file);
/// Its brightness, by the weights of ITU-R 601 in 16 bits.
Picture grey(const Picture& picture);

}  // namespace weft::host
