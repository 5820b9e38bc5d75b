// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <map>
#include <string>

#include "quantise/range.h"

namespace weft::quantise {

/// Reads the ranges of a calibration table: JSON as onnxruntime's calibrators write it (name -> greatest magnitude,
/// [least, greatest], or an object with "lowest" and "highest"), or TensorRT's text ("name: 3c010a14", where the number
/// is the f32 scale: greatest magnitude / 127). Leaves out ranges that are empty or not finite. Throws E106 for a file
/// that cannot be read, E203 for a file that does not parse or in which no range is left.
std::map<std::string, Range> read_ranges(const std::filesystem::path& path);

}  // namespace weft::quantise
