// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <random>
#include <vector>

#include "mutants/wire_tree.h"

namespace weft::test {

/// Changes the ranks and operands in a sound ONNX model: a value gets another rank or order of sizes, a node other
/// operands. Other fields stay, so that the damage passes the readers and reaches the rules of operators.
void damage_model(std::vector<WireField>& model, std::mt19937_64& random);

}  // namespace weft::test
