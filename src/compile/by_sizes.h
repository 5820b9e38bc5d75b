// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>

#include "compile.h"
#include "frontends/onnx/import/import.h"

/// Models in which sizes decide the ranks of values: Squeeze without axes, an If whose branches have different ranks.
/// The program for each set of answers is compiled at the first run that needs it, and kept.
namespace weft {

/// `first` is the program that `decisions` were made for; `options` say how the others are read and compiled.
std::shared_ptr<Executable> make_by_sizes(std::shared_ptr<const onnx::Model> model, onnx::SizeDecisions decisions,
                                          std::shared_ptr<Executable> first, const CompileOptions& options);

}  // namespace weft
