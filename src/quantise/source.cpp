// SPDX-License-Identifier: Apache-2.0
#include "quantise/source.h"

#include "base/file_reading.h"
#include "base/text.h"
#include "compile/stages.h"
#include "frontends/onnx/export/export.h"
#include "frontends/onnx/file/reader.h"
#include "quantise/opset.h"

namespace weft::quantise {
namespace {

onnx::Model written(const Program& program, std::string source) {
  return onnx::read_model(Bytes::copy(as_bytes(onnx::export_program(program))), {.source = std::move(source)});
}

}  // namespace

onnx::Model read_any(const std::filesystem::path& given) {
  return reading_files([&] {
    std::filesystem::path path = model_file(given);
    ModelPlace place = place_of(path);
    auto program = import_other(map_file(path), place, {});
    if (!program) return onnx::read_model(path);
    return written(*program, place.source);
  });
}

onnx::Model in_opset(onnx::Model model, int64_t wanted) {
  if (can_raise_opset(model, wanted)) return model;
  return reading_files([&] { return written(*import(model, {}), model.source); });
}

}  // namespace weft::quantise
