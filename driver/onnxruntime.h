// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/executable.h"

namespace weft::driver {

/// The outputs of `model` by onnxruntime, run by a Python that can import it, in a process of its own; tensors pass
/// through files in a private temporary folder. Throws E216 with what that process said.
std::vector<Tensor> run_onnxruntime(const std::string& python, const std::filesystem::path& model,
                                    const Executable& executable, std::span<const Tensor> inputs);

}  // namespace weft::driver
