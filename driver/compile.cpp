// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include "base/error.h"
#include "base/text.h"
#include "driver/model_options.h"
#include "driver/terminal.h"
#include "driver/verbs.h"

namespace weft::driver {

int compile_verb(Words words) {
  CommandLine line({.name = "compile",
                    .purpose = "Compile a model into a file (.weft) that starts in milliseconds, without a compiler.",
                    .examples = {"weft compile examples/digits/digits.onnx -o digits.weft",
                                 "weft compile examples/digits/digits.onnx --shape image=1..64,1,8,8 -o digits.weft"}});
  ModelOptions model;
  std::string output;
  add_model_options(line, model);
  line.group("Results");
  line.value("--output,-o", "FILE", output, "the program; default: the model's name with .weft");
  if (!line.parse(words)) return exit_done;
  if (output.empty()) output = std::filesystem::path(model.model).filename().replace_extension(".weft").string();

  auto start = std::chrono::steady_clock::now();
  auto executable = compile_model(model);
  executable->save(output);
  std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  const CompileReport& report = executable->report();
  print(cat(printable(output), ": ", show_bytes(static_cast<double>(std::filesystem::file_size(output))), ", ",
            report.kernels, " kernels (", report.kernels_compiled, " compiled, ", report.kernels_from_cache,
            " from the cache), ", show_seconds(seconds.count())));
  return exit_done;
}

}  // namespace weft::driver
