// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "base/embedded.h"

namespace weft::codegen {

/// Returns all headers of the kernel library and the elementwise table, so that compiling a kernel reads no files. Their
/// names are relative to src/, as in #include: "kernels/math.h".
std::span<const EmbeddedFile> embedded_files();

}  // namespace weft::codegen
