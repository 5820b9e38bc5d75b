// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>

#include "compile.h"
#include "frontends/onnx/import/import.h"

/// Models in which a size determines the rank of a value (Squeeze without axes, an If with branches of different rank).
/// A program is valid for one outcome of each SizeDecision; for other outcomes, a run compiles the model again. Before
/// the run, if the inputs' sizes tell the outcome, else once a guard has failed in the run, which then begins again.
namespace weft {

/// Returns an executable that runs `first`, the program for `decisions`. For sizes that lead to other decisions, the
/// executable compiles the model again with `options`.
std::shared_ptr<Executable> make_by_sizes(std::shared_ptr<const onnx::Model> model, onnx::SizeDecisions decisions,
                                          std::shared_ptr<Executable> first, const CompileOptions& options);

}  // namespace weft
