// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "compile/places.h"
#include "driver/model_options.h"
#include "driver/terminal.h"
#include "driver/verbs.h"
#include "runtime/saved.h"

namespace weft::driver {

static bool is_program(const std::string& path) {
  return std::filesystem::is_regular_file(path) && is_saved_program(map_file(path));
}

/// Returns the default output: m.onnx, m and m/ all give m.weft.
static std::string default_output(const std::filesystem::path& model) {
  std::filesystem::path name = model.has_filename() ? model.filename() : model.parent_path().filename();
  return name.replace_extension(".weft").string();
}

int compile_verb(Words words) {
  CommandLine line(
      {.name = "compile",
       .purpose = "Compile a model into a file (.weft) that starts in milliseconds, without a compiler.",
       .examples = {"weft compile examples/digits/digits.onnx -o digits.weft",
                    "weft compile examples/digits/digits.onnx --shape image=1..64,1,8,8 -o digits.weft",
                    "weft compile examples/digits/digits.onnx --target cpu,cpu:x86-64-v4 -o digits.weft",
                    "weft compile examples/digits/digits.onnx --target amd:gfx942,nvidia:sm_90a -o digits.weft"}});
  ModelOptions model;
  std::string output;
  std::vector<std::string> targets;
  add_model_options(line, model);
  line.group("Results");
  line.value("--output,-o", "FILE", output, "the program; default: the model's name with .weft");
  line.value(
      "--target", "CHIPS",
      [&](std::string_view text) {
        for (std::string_view target : split(text, ',')) targets.emplace_back(trim(target));
      },
      "chips to compile for in place of --device, present or not: cpu, cpu:x86-64-v4, nvidia:sm_90a, "
      "amd:gfx942; all chips of a vendor: amd:all; "
      "the file has the weights once. A compiled program (.weft) keeps the chips that it has");
  line.value_or("--tune", "SECONDS", model.compile.tune, 30,
                "first measure which kernels are fastest here, for at most SECONDS (30); see `weft tune`");
  if (!line.parse(words)) return exit_done;
  if (output.empty()) output = default_output(model.model);

  model.compile.vendor_libraries = false;  // another machine may lack vendor libraries
  auto start = std::chrono::steady_clock::now();
  if (!targets.empty() && model.compile.device == "auto" && !is_program(model.model))
    model.compile.device = target_names(targets[0])[0];
  auto executable = compile_model(model);
  CompileReport report = save(*executable, output, targets, model.compile);
  std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  report.kernels += executable->report().kernels;
  report.kernels_compiled += executable->report().kernels_compiled;
  report.kernels_from_cache += executable->report().kernels_from_cache;
  report.kernels_from_pack += executable->report().kernels_from_pack;
  if (!std::filesystem::is_regular_file(output)) return exit_done;  // a pipe has no size to report
  note(cat("wrote ", printable(output), ": ", show_bytes(static_cast<double>(std::filesystem::file_size(output))), ", ",
           report.kernels, " kernels (", report.kernels_compiled, " compiled, ", report.kernels_from_cache,
           " from the cache, ", report.kernels_from_pack, " from the pack), ", show_seconds(seconds.count())));
  return exit_done;
}

}  // namespace weft::driver
