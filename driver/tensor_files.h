// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/shape.h"
#include "base/tensor.h"

/// Reads and writes tensors in files: NumPy's .npy and .npz. Also reads ONNX's .pb test data.
namespace weft::driver {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

/// Reads the arrays of a .npz, or the single array of a .npy (with an empty name) or .pb. Throws E212 for a damaged file
/// and for other kinds of files, E106 for files that cannot be read.
NamedTensors read_tensors(const std::filesystem::path& path);

/// Reads a sequence, optional or map from a .pb. Throws as read_tensors does.
Tensor read_value(const std::filesystem::path& path, const Type& type);

/// Writes .npy (one tensor) or .npz. Types that NumPy lacks, such as bf16, are written as their bits.
void write_tensors(const std::filesystem::path& path, const NamedTensors& tensors);

}  // namespace weft::driver
