// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "migraphx/handles.h"

/// Reads and writes arguments as numpy files. bf16 is written as raw bytes "|V2", fp8 (e4m3fn) as "|V1". Other types
/// that numpy lacks are refused.
namespace weft::mgx {

/// Writes the file atomically. Throws E106 if it cannot be written, E218 for an argument that is not row-major.
void save_npy(const migraphx_argument& argument, const std::string& path);
/// Reads an .npy file. Throws E106 if it cannot be read, E212 if it is damaged, not an .npy file or not in C order.
migraphx_argument load_npy(const std::string& path);

}  // namespace weft::mgx
