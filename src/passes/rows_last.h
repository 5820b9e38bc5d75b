// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/module.h"

namespace weft {

/// Moves the axes that row kernels work along to the end: softmax, arg_reduce, top_k and scan along another axis, and
/// reductions over axes that are no neighbours, get transposes around them. A normalisation over several axes gets one
/// reshaped axis. A reduction of a transpose reads the transpose's operand where its axes are neighbours there too.
///     %y = softmax %x {axis=1}   ->   %y = transpose (softmax (transpose %x) {axis=last})
bool rows_last(Module& module);

}  // namespace weft
