// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/onnx/export/out.h"

namespace weft::onnx {

/// Writes If and Loop with their bodies; returns false for other instructions.
bool write_control(Out& out, const Instruction& i, Names& results);

}  // namespace weft::onnx
