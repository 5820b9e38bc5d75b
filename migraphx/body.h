// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// onnxruntime's MIGraphX provider compiles the nodes inside an If, Loop or Scan as separate models when the session is
/// created, even those of a branch that never runs. ONNX allows such a branch to be invalid. So an error in such a
/// model is reported only when the model runs.
namespace weft::mgx {

struct Body {
  std::vector<std::string> inputs = {};
  size_t results = 0;
};

/// Returns the names of the model's inputs and the number of its outputs if the graph's name shows that it is a body
/// from this provider, else nothing.
std::optional<Body> body_of(std::string_view model);

}  // namespace weft::mgx
