// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>

#include "frontends/onnx/file/model.h"

namespace weft::quantise {

/// Reads an ONNX file, or any other model through its frontend and the ONNX writer.
onnx::Model read_any(const std::filesystem::path& path);

/// The model as it is if raise_opset can make it one of this operator set, else rewritten by the exporter.
onnx::Model in_opset(onnx::Model model, int64_t wanted);

}  // namespace weft::quantise
