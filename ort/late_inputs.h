// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "ort/graph.h"

/// Inputs of a graph whose values decide what there is to compile: axes, scales, pads. Whether a node with such an
/// operand compiles at all is found with a guess; the program is made for the value of the run.
namespace weft::ort {

struct LateInput {
  std::string op;      ///< of the node that reads it
  size_t operand = 0;  ///< of that node
  weft_dtype type = WEFT_I64;
  std::vector<int64_t> dims = {};  ///< none, or one
};

/// The operand as a late input, if it is a number or a short list of them whose length is known.
std::optional<LateInput> late_input(const GraphView& graph, const NodeView& node, size_t operand);

enum class Guess { usual, ones, zeros };

/// A value that such an operand might have.
Tensor guessed(const LateInput& input, Guess guess);

}  // namespace weft::ort
