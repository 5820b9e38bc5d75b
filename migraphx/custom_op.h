// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "migraphx/operators.h"

/// Operators registered with migraphx_experimental_custom_op_register: functions of this process that run on the CPU,
/// between the kernels of a program.
namespace weft::mgx {

struct CustomOp;

/// Returns the operator registered under this name; null if there is none.
std::shared_ptr<const CustomOp> find_custom_op(const std::string& name);
Values append_custom_op(Graph& graph, const std::shared_ptr<const CustomOp>& op, const std::vector<Values>& operands);

}  // namespace weft::mgx
