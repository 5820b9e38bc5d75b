// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/executable.h"

namespace weft::driver {

/// Runs `model` with onnxruntime, in a process of a Python that can import it. Tensors are passed in files of a private
/// temporary folder. Throws E216 with the last line that the process wrote.
std::vector<Tensor> run_onnxruntime(const std::string& python, const std::filesystem::path& model,
                                    const Executable& executable, std::span<const Tensor> inputs);

}  // namespace weft::driver
