// SPDX-License-Identifier: Apache-2.0
#include "driver/model_options.h"

#include <cstdlib>
#include <filesystem>

#include "api/c/options_text.h"
#include "base/error.h"
#include "base/text.h"
#include "driver/tensor_files.h"
#include "driver/terminal.h"

namespace weft::driver {

namespace {

/// Adds a constant input that is given as "axes=0,1" or "axes=file.npy".
void add_constant(std::string_view text, CompileOptions& compile) {
  size_t equals = text.find('=');
  std::string name(text.substr(0, equals)), value(equals == text.npos ? "" : text.substr(equals + 1));
  if (std::filesystem::exists(value)) {
    compile.constants.insert_or_assign(name, read_tensors(value).at(0).second);
    return;
  }
  std::vector<double> numbers;
  for (std::string_view part : split(value, ',')) {
    std::string number(trim(part));
    char* end = nullptr;
    numbers.push_back(std::strtod(number.c_str(), &end));
    if (number.empty() || *end)
      throw Error({.kind = ErrorKind::usage,
                   .code = "E203",
                   .what = cat("'", printable(text), "' gives an input no value"),
                   .hint = "write axes=0,1 or axes=file.npy"});
  }
  compile.constant_numbers.insert_or_assign(name, std::move(numbers));
}

}  // namespace

void add_model_options(CommandLine& line, ModelOptions& options, bool needs_model) {
  CompileOptions& compile = options.compile;
  line.positional("MODEL", options.model,
                  "a model (.onnx, .pt2, .tflite, .pb, a SavedModel's folder) or a compiled program (.weft)",
                  needs_model);
  line.group("Sizes, device, precision");
  line.value(
      "--shape,--shapes", "X=SIZES",
      [&](std::string_view text) {
        for (ShapeRequest& request : parse_shapes(text)) compile.shapes.push_back(std::move(request));
      },
      "sizes of input X: x=1,3,224,224; a range and its usual size: x=1..8:4,3; or x:1x3, x[1,3]");
  line.value(
      "--symbol", "NAME=SIZE", [&](std::string_view text) { compile.symbols.insert(parse_symbol(text)); },
      "the value of a size that the model names: batch=4");
  line.value(
      "--constant", "INPUT=VALUE", [&](std::string_view text) { add_constant(text, compile); },
      "make an input a constant: axes=0,1 or axes=file.npy; repeatable");
  line.value("--fix-default", "INPUT", compile.fixed_defaults,
             "an input that always keeps its default; * and ? match; repeatable");
  line.value("--signature", "NAME", compile.signature,
             "the signature of a SavedModel (serving_default) or .tflite file to compile");
  line.value("--tag", "NAMES", compile.tag, "tags of the SavedModel's graph to compile: serve; serve,gpu");
  line.flag("--channels-first", compile.channels_first,
            "TensorFlow: inputs and outputs with 4 axes become [n, c, h, w]");
  line.value("--give", "NODE", compile.outputs,
             "return this value of a TensorFlow graph in place of its outputs; repeatable");
  line.value(
      "--donate", "INPUT=OUTPUT", [&](std::string_view text) { compile.donations.push_back(parse_donation(text)); },
      "write an output into the memory of an input: past=present; see `weft explain`");
  line.value("--device", "NAME", compile.device,
             "auto, cpu, ref, gpu, nvidia:0, amd:0 ...; a named device is never replaced");
  line.value("--devices", "LIST", compile.device, "devices that compute each run together: gpu:0,gpu:1; cpu,cpu");
  line.value("--threads", "N", compile.threads, "threads of the CPU (0: all that this process may use)");
  line.value(
      "--memory-limit", "BYTES",
      [&](std::string_view text) { compile.memory_limit = parse_bytes(text, "--memory-limit"); },
      "refuse a run that takes more of the device's memory: 4GiB, 512MB");
  line.value(
      "--precision", "TYPE", [&](std::string_view text) { compile.precision = parse_precision(text); },
      "f32, bf16 or f16 for matrix products and convolutions; also --bf16, --fp16");
  line.flag("--bf16", [&] { compile.precision = Precision::bf16; }, "");
  line.flag("--fp16", [&] { compile.precision = Precision::f16; }, "");
  line.value("--keep-f32", "NODE", compile.keep_f32, "a node that stays in f32; * and ? match; repeatable");
  line.flag(
      "--no-compile", [&] { compile.recompile = false; },
      "refuse a compiled program (.weft) for another chip rather than compile it again");
  line.flag(
      "--no-cache", [&] { compile.use_cache = false; },
      "use neither the kernel cache nor the measurements of `weft tune`");
  line.value("--max-nodes", "N", compile.max_nodes, "refuse a model with more nodes, after functions are expanded");
  line.value("--max-nesting", "N", compile.max_nesting, "refuse graphs and functions with deeper nesting");
  line.value("--dump", "FOLDER", compile.dump_directory, "write the program after every pass");
}

std::shared_ptr<Executable> compile_model(const ModelOptions& options) {
  CompileOptions compile = options.compile;
  ProgressLine line;
  compile.progress = [&](const Progress& progress) { line.show(progress); };
  auto executable = compile_file(options.model, compile);
  detail(cat("device: ", executable->device()));
  for (const auto& [phase, seconds] : executable->report().phase_seconds)
    detail(cat("  ", phase, ": ", show_seconds(seconds)));
  return executable;
}

}  // namespace weft::driver
