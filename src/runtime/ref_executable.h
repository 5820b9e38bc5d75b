// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <memory>

#include "base/wide.h"
#include "ir/module.h"
#include "runtime/executable.h"

/// The reference target. It evaluates each operator by its own definition, one after another, in wide types. It is slow
/// and plainly right; every other target is compared with it. Reals are not rounded between operators.
namespace weft {

/// Runs the program without changes. `report` comes from the passes that ran before.
std::shared_ptr<Executable> make_reference(std::unique_ptr<Program> program, CompileReport report = {});

/// The inputs and outputs of a program, before anything is compiled.
std::vector<Port> input_ports(const Program& program);
std::vector<Port> output_ports(const Program& program);

/// May change the operands and results of an instruction. A test uses it to round them like a device.
struct Between {
  std::function<void(const Instruction&, std::vector<Wide>&)> operands = {}, results = {};
};

/// The results of a module for its parameters in order. Only sizes of a program's main module may be open.
std::vector<Tensor> evaluate(const Module& module, std::span<const Tensor> inputs, const Between& between = {});

}  // namespace weft
