// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <nlohmann/json.hpp>
#include <string>

namespace weft::driver {

/// The report of quantisation as a single HTML file: the new type of each layer and the reason, its share of the loss,
/// the histogram of its input, the steps of the search.
std::string quantize_page(const nlohmann::ordered_json& report, const std::string& model);

/// Ranges of inputs in the form that `file` asks for by its name: .json as onnxruntime dumps them, else TensorRT's text,
/// which holds symmetric scales. MIGraphX's provider reads both.
std::string calibration_table(const nlohmann::ordered_json& report, const std::string& file);

}  // namespace weft::driver
