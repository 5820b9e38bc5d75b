// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/onnx/import/expr.h"

namespace weft::onnx {

/// com.microsoft's GatherPacked: rows of a table of blocks as GGML stores them, restored.
Values gather_packed(Call& c);

}  // namespace weft::onnx
