// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <map>
#include <string>

#include "base/shape.h"
#include "base/tensor.h"

/// Converts pictures to inputs as (pixel - mean) * scale. The options, else the model's metadata, give mean and scale.
namespace weft::driver {

struct ImageOptions {
  std::string mean;    ///< one number or one per channel, for pixels from 0 to 255; default 0
  std::string scale;   ///< default 1/255; 1 for u8 inputs
  std::string layout;  ///< "NCHW" or "NHWC"; default: NHWC if axis C has size 1 or 3 in NHWC only, else NCHW
};

/// Sets options that are empty from the metadata keys image.mean, image.scale and image.layout.
ImageOptions with_metadata(ImageOptions options, const std::map<std::string, std::string>& metadata);

bool is_image(const std::filesystem::path& path);  ///< decides by the first bytes; false for .pb

/// Reads a picture as a batch of one for an input of this shape: floats or u8, rank 4 (or 3, without batch), 1 or 3
/// channels. Resizes bilinearly to the shape's sizes; open sizes become those of the picture. Throws E212 (file) and
/// E213 (options, or an input that cannot be a picture).
Tensor read_image(const std::filesystem::path& path, const Shape& wanted, const ImageOptions& options);

}  // namespace weft::driver
