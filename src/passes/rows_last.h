// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/module.h"

namespace weft {

/// Moves the axis that a row kernel works along to the end. Adds transposes around softmax, arg_reduce, top_k and scan
/// along other axes, and around reductions over axes that are not neighbours. Reshapes the axes of a normalisation to
/// one. A reduction of a transpose reads the transpose's operand if the reduced axes are neighbours there too.
///     %y = softmax %x {axis=1}   ->   %y = transpose (softmax (transpose %x) {axis=last})
bool rows_last(Module& module);

}  // namespace weft
