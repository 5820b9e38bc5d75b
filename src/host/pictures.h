// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

/// Decodes picture files: JPEG, PNG, WebP, JPEG 2000, BMP, PNM and TIFF without compression.
namespace weft::host {

/// A picture: rows of interleaved bytes, top row first. Three channels are red, green and blue; one channel is grey.
struct Picture {
  size_t width = 0, height = 0, channels = 0;
  std::vector<uint8_t> pixels = {};
};

/// True if the file begins like a picture of a known format.
bool is_picture(std::span<const std::byte> file);
/// Decodes a picture as RGB; blends the transparency of a PNG with white. Throws E212 for an unknown format, a decoder
/// that is not installed, a damaged file, or too many pixels (in total or for the size of the file).
Picture decode_picture(std::span<const std::byte> file);
/// Returns the picture in grey, computed with the weights of ITU-R 601 in 16-bit fixed point.
Picture grey(const Picture& picture);

}  // namespace weft::host
