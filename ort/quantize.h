// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "weft/weft.hpp"

/// Quantises products by weights to 8 bits, integers or floats.
namespace weft::ort {

/// How convolutions and matrix products of an f32 model are quantised.
struct Quantization {
  std::string to = {};     ///< "int8" or "fp8"; "": nothing
  std::string table = {};  ///< path of the calibration table; fp8 without one is scaled by the values of each run

  bool is_wanted() const { return !to.empty(); }
};

/// Throws E106 for a table that cannot be read, E203 for one that does not parse or has the other form.
void check_table(const std::string& path, bool is_native);

/// Returns the ONNX file with quantised layers, or unchanged if no layer can be quantised.
std::string quantized(const std::string& model, const Quantization& how);

}  // namespace weft::ort
