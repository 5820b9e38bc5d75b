// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "migraphx/handles.h"

/// Reads and writes arguments as numpy files. Types that numpy lacks (bf16, fp8) are written as raw bytes, "|V2".
namespace weft::mgx {

/// Writes the file atomically. Throws E106.
void save_npy(const migraphx_argument& argument, const std::string& path);
/// Reads an .npy file. Throws E106 if it cannot be read, E212 if it is not an .npy file or not in C order.
migraphx_argument load_npy(const std::string& path);

}  // namespace weft::mgx
