// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// AMD's provider of onnxruntime compiles what it takes inside an If, Loop or Scan as a model of its own when the
/// session is made, before anybody knows whether it will run. ONNX judges only the branch that is taken; so what is
/// wrong with such a model is told when it runs.
namespace weft::mgx {

struct Body {
  std::vector<std::string> inputs = {};
  size_t results = 0;
};

/// What goes into the model and comes out, if its graph has a name that the provider gives to such models; nothing for
/// others and for what is no model.
std::optional<Body> body_of(std::string_view model);

}  // namespace weft::mgx
