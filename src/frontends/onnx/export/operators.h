// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/onnx/export/out.h"

namespace weft::onnx {

/// Writes nodes that compute the instruction, and names its results. Throws E223 if ONNX cannot express it.
void write_instruction(Out& out, const Instruction& i);

}  // namespace weft::onnx
