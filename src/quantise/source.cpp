// SPDX-License-Identifier: Apache-2.0
#include "quantise/source.h"

#include "base/file_reading.h"
#include "base/text.h"
#include "compile/stages.h"
#include "frontends/onnx/export/export.h"
#include "frontends/onnx/file/reader.h"

namespace weft::quantise {

onnx::Model read_any(const std::filesystem::path& given) {
  return reading_files([&] {
    std::filesystem::path path = model_file(given);
    ModelPlace place = place_of(path);
    auto program = import_other(map_file(path), place, {});
    if (!program) return onnx::read_model(path);
    return onnx::read_model(Bytes::copy(as_bytes(onnx::export_program(*program))), {.source = place.source});
  });
}

}  // namespace weft::quantise
