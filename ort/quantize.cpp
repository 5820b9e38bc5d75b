// SPDX-License-Identifier: Apache-2.0
#include "ort/quantize.h"

#include <fstream>

namespace weft::ort {

void check_table(const std::string& path, bool is_native) {
  std::ifstream file(path);
  if (!file) throw Error(WEFT_USAGE, "E106", "calibration table '" + path + "' cannot be read");
  char first = 0;
  file >> first;
  if (!is_native && first != '{')
    throw Error(WEFT_USAGE, "E203",
                "calibration table '" + path +
                    "': it is not a JSON object (for TensorRT's form set int8_use_native_calibration_table)");
  weft_quantize_options options = WEFT_QUANTIZE_OPTIONS_INIT;
  options.ranges = path.c_str();
  try {
    weft::quantize(std::as_bytes(std::span("")), options);  // an empty model: only the table is read
  } catch (const Error& error) {
    constexpr std::string_view bad_table = "E203";
    if (error.code() == bad_table) throw;
  }
}

std::string quantized(const std::string& model, const Quantization& how) {
  weft_quantize_options options = WEFT_QUANTIZE_OPTIONS_INIT;
  options.to = how.to.c_str(), options.symmetric = 1;
  if (!how.table.empty()) options.ranges = how.table.c_str();
  try {
    Tensor made = weft::quantize(std::as_bytes(std::span(model)), options);
    return {reinterpret_cast<const char*>(made.bytes().data()), made.bytes().size()};
  } catch (const Error& error) {
    constexpr std::string_view no_layer = "E222";
    if (error.code() != no_layer) throw;
    return model;
  }
}

}  // namespace weft::ort
