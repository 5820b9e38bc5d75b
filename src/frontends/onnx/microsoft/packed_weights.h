// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/onnx/import/expr.h"

namespace weft::onnx {

/// com.microsoft's GatherPacked: gathers rows of a table in GGML's block formats and dequantises them.
Values gather_packed(Call& c);

}  // namespace weft::onnx
