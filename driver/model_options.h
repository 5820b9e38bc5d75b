// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <string>

#include "compile.h"
#include "driver/options.h"

/// The options of verbs that compile a model: sizes, device, precision.
namespace weft::driver {

struct ModelOptions {
  std::string model;
  CompileOptions compile;
};

/// Adds the argument MODEL and the options for compiling it.
void add_model_options(CommandLine& line, ModelOptions& options, bool needs_model = true);

/// Compiles the model while a progress line is shown.
std::shared_ptr<Executable> compile_model(const ModelOptions& options);

}  // namespace weft::driver
