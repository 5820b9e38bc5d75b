// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "weft/weft.hpp"

/// Quantises matrix products and convolutions with constant weights to 8-bit integers or floats.
namespace weft::ort {

/// How convolutions and matrix products of an f32 model are quantised.
struct Quantization {
  std::string to = {};     ///< "int8" or "fp8"; "": nothing
  std::string table = {};  ///< path of the calibration table; fp8 without one is scaled by the values of each run

  bool is_wanted() const { return !to.empty(); }
};

/// Checks a calibration table, which must be JSON unless `is_native`. Throws E106 if the table cannot be read, E203 if
/// it does not parse or is not JSON.
void check_table(const std::string& path, bool is_native);

/// Returns the bytes of the ONNX model with quantised layers; unchanged if no layer can be quantised.
std::string quantized(const std::string& model, const Quantization& how);

}  // namespace weft::ort
