// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/module.h"

namespace weft {

/// Makes row kernels work along the last axis. Adds transposes around softmax, arg_reduce, top_k and scan along other
/// axes, and around reductions over axes that are not neighbours. Merges the axes of a normalisation into one. Applies
/// a reduction of a transposed value to the transpose's operand if the reduced axes are neighbours there.
///     %y = softmax %x {axis=1}   ->   %y = transpose (softmax (transpose %x) {axis=last})
bool rows_last(Module& module);

}  // namespace weft
