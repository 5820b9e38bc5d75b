// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/onnx/export/out.h"

namespace weft::onnx {

/// Writes convolutions and pooling; returns false for other instructions.
bool write_window(Out& out, const Instruction& i, Names& results);

}  // namespace weft::onnx
