// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <span>
#include <string>

namespace weft::onnx {

/// Throws if `file` cannot be an ONNX model, and names its kind: empty (E101), another format (E102), a Git LFS
/// pointer (E104), a web page (E105) or a pickle (E107). `source` names the file.
void refuse_other_files(std::span<const std::byte> file, const std::string& source);

/// Throws E102 for a file of a kind that Weft does not read.
[[noreturn]] void fail_not_a_model(std::span<const std::byte> file, const std::string& source);

}  // namespace weft::onnx
