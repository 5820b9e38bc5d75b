// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <random>
#include <vector>

#include "mutants/wire_tree.h"

namespace weft::test {

/// Changes the ranks and operands in a sound ONNX model and leaves everything else, so that the damage gets past the
/// readers to the rules of operators: an input or constant of another rank, other operands of a node.
void damage_model(std::vector<WireField>& model, std::mt19937_64& random);

}  // namespace weft::test
