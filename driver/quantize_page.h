// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <nlohmann/json.hpp>
#include <string>

namespace weft::driver {

/// Returns the report of quantisation as a single HTML page: for each layer its new type, the reason, signal-to-noise
/// ratios in dB, share of the loss, range and histogram of its input; then the steps of the search, if there was one.
std::string quantize_page(const nlohmann::ordered_json& report, const std::string& model);

/// Returns the ranges of inputs as a calibration table that MIGraphX's provider reads. For a `file` named .json this is
/// onnxruntime's form, for any other TensorRT's text form, which has symmetric scales.
std::string calibration_table(const nlohmann::ordered_json& report, const std::string& file);

}  // namespace weft::driver
