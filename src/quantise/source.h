// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>

#include "frontends/onnx/file/model.h"

namespace weft::quantise {

/// Reads an ONNX file, or another model through its frontend and the ONNX exporter.
onnx::Model read_any(const std::filesystem::path& path);

/// Returns `model` if raise_opset can convert it to this operator set, else the model as the ONNX exporter writes it.
onnx::Model in_opset(onnx::Model model, int64_t wanted);

}  // namespace weft::quantise
