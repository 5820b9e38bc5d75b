// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "migraphx/handles.h"

/// Arguments as files of numpy's. Types that numpy has not (bf16, fp8) are written as raw bytes, "|V2".
namespace weft::mgx {

/// Whole, or not at all. Throws E106.
void save_npy(const migraphx_argument& argument, const std::string& path);
/// Throws E106 for a file that cannot be read, E212 for one that is not what numpy writes in C order.
migraphx_argument load_npy(const std::string& path);

}  // namespace weft::mgx
