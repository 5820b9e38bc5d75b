// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <memory>

#include "base/wide.h"
#include "ir/module.h"
#include "runtime/executable.h"

/// The reference target. It evaluates operators one after another, each by its definition, and does not round reals
/// between them. Tests compare all other targets with this one.
namespace weft {

/// Makes an executable that interprets the program as it is. `report` describes the stages before.
std::shared_ptr<Executable> make_reference(std::unique_ptr<Program> program, CompileReport report = {});

/// Return the inputs and outputs of a program before it is compiled.
std::vector<Port> input_ports(const Program& program);
std::vector<Port> output_ports(const Program& program);

/// Functions that may change the operands and results of each instruction, for tests that round as a device does.
struct Between {
  std::function<void(const Instruction&, std::vector<Wide>&)> operands = {}, results = {};
};

/// Evaluates a module with these values of its parameters, in order. Only the main module may have symbolic sizes.
std::vector<Tensor> evaluate(const Module& module, std::span<const Tensor> inputs, const Between& between = {});

}  // namespace weft
