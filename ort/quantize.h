// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <span>
#include <string>
#include <vector>

#include "weft/weft.hpp"

/// int8 by a calibration table: a scale for each value, per tensor and symmetric. Weights are scaled by channel.
namespace weft::ort {

/// Value of the graph -> what one step of int8 stands for: its largest magnitude / 127.
using Scales = std::map<std::string, float>;

/// Reads a table in TensorRT's text form (`name: 3c010a14`, the bits of the scale) or in JSON, as onnxruntime's
/// calibrators dump it: name -> largest magnitude, [least, greatest], or an object with "lowest" and "highest". Throws
/// E106 for a file that cannot be read, E203 for one that does not parse.
Scales read_calibration_table(const std::string& path, bool is_native);

/// A matrix of weights in int8, symmetric, with a scale for each index of `axis`.
struct QuantizedWeights {
  std::vector<int8_t> values;
  std::vector<float> scales;
};
QuantizedWeights quantize_weights(std::span<const float> values, std::span<const int64_t> dims, size_t axis);

}  // namespace weft::ort
