// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "frontends/common/expr.h"
#include "frontends/onnx/import/call.h"

namespace weft::onnx {

using namespace frontend;  // so that operators are written as formulas

/// Returns input i as an expression.
inline Expr arg(const Call& call, size_t i) { return {&call, call.input(i)}; }

}  // namespace weft::onnx
