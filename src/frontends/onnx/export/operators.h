// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/onnx/export/out.h"

namespace weft::onnx {

/// Writes nodes that compute the instruction, and sets the names of its results. Throws E223.
void write_instruction(Out& out, const Instruction& i);

}  // namespace weft::onnx
