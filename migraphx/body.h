// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string_view>

/// AMD's provider of onnxruntime compiles what it takes inside an If, Loop or Scan as a model of its own when the session
/// is made, before anybody knows whether it will run. ONNX judges only the branch that is taken; so what is wrong with
/// such a model is told when it runs.
namespace weft::mgx {

/// How many results the model gives, if its graph has a name that the provider gives to such models; nothing for others
/// and for what is no model.
std::optional<size_t> results_of_body(std::string_view model);

}  // namespace weft::mgx
