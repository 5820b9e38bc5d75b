// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// AMD's provider of onnxruntime compiles nodes inside an If, Loop or Scan as models of their own when the session is
/// made, before it is known whether they will run. ONNX requires only the branch that is taken to be valid. So errors
/// in such a model are reported when it runs.
namespace weft::mgx {

struct Body {
  std::vector<std::string> inputs = {};
  size_t results = 0;
};

/// The inputs and outputs of the model, if the graph's name shows that AMD's provider made it; nothing for other bytes.
std::optional<Body> body_of(std::string_view model);

}  // namespace weft::mgx
