// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>

#include "frontends/onnx/file/model.h"

namespace weft::quantise {

/// An ONNX file as it is; a model of another framework as its frontend gives it, written as ONNX.
onnx::Model read_any(const std::filesystem::path& path);

}  // namespace weft::quantise
