// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "mutants/wire_tree.h"

namespace weft::test {

/// Damages a ModelProto in ways that its format allows: ranks of inputs and weights, and what nodes are given.
void damage_model(std::vector<WireField>& model, std::mt19937_64& random);

}  // namespace weft::test
