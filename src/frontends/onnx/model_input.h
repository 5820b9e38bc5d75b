// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/onnx/call.h"

namespace weft::onnx {

/// "input 1 of Slice is input 'starts' of the model, i64[2]", "" when it is none: whoever called for the model may know
/// what an input of it will be (adapters/late_inputs.h).
std::string model_input(const Program& program, Value value, size_t number, std::string_view op);

}  // namespace weft::onnx
