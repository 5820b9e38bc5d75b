// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <memory>

#include "base/wide.h"
#include "ir/module.h"
#include "runtime/executable.h"

/// The reference target: each operator evaluated by its own meaning, one after another, in wide types. Slow and plainly
/// right; every other target is judged by it. Reals are not rounded between operators.
namespace weft {

/// Takes the program as it is. `report` comes from the passes that ran before.
std::shared_ptr<Executable> make_reference(std::unique_ptr<Program> program, CompileReport report = {});

/// What a program takes and gives, before anything is compiled.
std::vector<Port> input_ports(const Program& program);
std::vector<Port> output_ports(const Program& program);

/// May change the values that an instruction reads, and those that it gives: how a test rounds them as a device does.
struct Between {
  std::function<void(const Instruction&, std::vector<Wide>&)> operands = {}, results = {};
};

/// The results of a module for its parameters in order. Only sizes of a program's main module may be open.
std::vector<Tensor> evaluate(const Module& module, std::span<const Tensor> inputs, const Between& between = {});

}  // namespace weft
