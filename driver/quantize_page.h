// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <nlohmann/json.hpp>
#include <string>

namespace weft::driver {

/// The report of quantisation as a page that needs nothing else: what each layer became and why, its share of the loss,
/// how its input is spread, what the search tried.
std::string quantize_page(const nlohmann::ordered_json& report, const std::string& model);

/// Ranges of inputs in the form that `file` asks for by its name: .json as onnxruntime dumps them, else TensorRT's text,
/// which holds symmetric scales. MIGraphX's provider reads both.
std::string calibration_table(const nlohmann::ordered_json& report, const std::string& file);

}  // namespace weft::driver
