// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include "base/file.h"
#include "base/file_reading.h"
#include "base/text.h"
#include "driver/model_options.h"
#include "driver/terminal.h"
#include "driver/verbs.h"
#include "frontends/onnx/export/export.h"

namespace weft::driver {

int convert_verb(Words words) {
  CommandLine line({.name = "convert",
                    .purpose =
                        "Write a model of PyTorch or TensorFlow as an ONNX file, or an ONNX model with its sizes and\n"
                        "some inputs fixed.",
                    .examples = {"weft convert model.pt2 -o model.onnx",
                                 "weft convert model.tflite -o model.onnx --shape x=1..8,224,224,3",
                                 "weft convert silero.onnx -o silero16k.onnx --constant sr=16000"}});
  ModelOptions options;
  std::string output;
  add_model_options(line, options);
  line.group("Result");
  line.value("--output,-o", "FILE", output, "the ONNX file; default: MODEL with .onnx");
  if (!line.parse(words)) return exit_done;
  if (output.empty()) output = std::filesystem::path(options.model).filename().replace_extension("onnx").string();
  std::string model = reading_files([&] { return onnx::export_program(*import_file(options.model, options.compile)); });
  write_file(output, as_bytes(model));
  print(cat(output, ": ", show_bytes(static_cast<double>(model.size()))));
  return exit_done;
}

}  // namespace weft::driver
