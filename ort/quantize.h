// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <span>
#include <string>
#include <vector>

#include "weft/weft.hpp"

/// Products in 8 bits, whole numbers or floats: symmetric, activations by tensor, weights by channel.
namespace weft::ort {

/// For each value of the graph the value of one step of int8: its largest magnitude / 127.
using Scales = std::map<std::string, float>;

/// The types of operands in products and convolutions of an f32 model.
struct Quantization {
  weft_dtype type = WEFT_F32;  ///< WEFT_I8 or WEFT_F8E4M3FN; f32: not quantised
  Scales scales = {};          ///< of the calibration table

  bool is_wanted() const { return type != WEFT_F32; }
  /// fp8 has a wide range, so a value without an entry in the table can be scaled by the magnitude of each run.
  bool may_scale_in_runs() const { return type == WEFT_F8E4M3FN; }
  /// The largest number of the type.
  float greatest() const { return type == WEFT_I8 ? 127.0f : 448.0f; }
};

/// Reads a table in TensorRT's text form (`name: 3c010a14`, the bits of the scale) or in JSON, as onnxruntime's
/// calibrators dump it: name -> largest magnitude, [least, greatest], or an object with "lowest" and "highest". Throws
/// E106 for a file that cannot be read, E203 for one that does not parse.
Scales read_calibration_table(const std::string& path, bool is_native);

/// A matrix of weights in 8 bits, symmetric, with a scale for each index of `axis`.
struct QuantizedWeights {
  std::vector<uint8_t> values;  ///< of the quantization's type
  std::vector<float> scales;
};
QuantizedWeights quantize_weights(std::span<const float> values, std::span<const int64_t> dims, size_t axis,
                                  const Quantization& to);

}  // namespace weft::ort
