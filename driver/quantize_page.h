// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <nlohmann/json.hpp>
#include <string>

namespace weft::driver {

/// Writes the report of quantisation as a single HTML file: the new type of each layer and why, its share of the loss,
/// the histogram of its input, the steps of the search.
std::string quantize_page(const nlohmann::ordered_json& report, const std::string& model);

/// Writes ranges of inputs as a calibration table that MIGraphX's provider reads. A `file` named .json gets
/// onnxruntime's form, any other TensorRT's text, which has symmetric scales.
std::string calibration_table(const nlohmann::ordered_json& report, const std::string& file);

}  // namespace weft::driver
