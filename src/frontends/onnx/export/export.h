// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "ir/module.h"

namespace weft::onnx {

/// Writes a frontend's program as an ONNX file of operator set 23. Inputs, outputs and sizes keep their names; nodes
/// are named after their sources. Guards (conditions on sizes) are left out. Throws E223 for an operator that ONNX
/// lacks, and for a symbol that occurs only inside expressions.
std::string export_program(const Program& program);

}  // namespace weft::onnx
