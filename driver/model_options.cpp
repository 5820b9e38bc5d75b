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

/// The command-line form of an option of compile/options.def: flag, name of its value, help text.
struct Row {
  std::string flag, value, sentence;

  std::string repeatable() const { return sentence + "; repeatable"; }
};

// One overload for each type of option: adds the command-line flag that sets `target`.

template <class T>
void add_flag(CommandLine& line, const Row& row, T& target) {
  line.value(row.flag, row.value, target, row.sentence);
}

void add_flag(CommandLine& line, const Row& row, option::texts& target) {
  line.value(row.flag, row.value, target, row.repeatable());
}

void add_flag(CommandLine& line, const Row& row, option::flag& target) {
  bool is_on = target;
  line.flag(row.flag, [&target, is_on] { target = !is_on; }, row.sentence);
}

void add_flag(CommandLine& line, const Row& row, option::path& target) {
  line.value(row.flag, row.value, [&](std::string_view text) { target = text; }, row.sentence);
}

void add_flag(CommandLine& line, const Row& row, option::bytes& target) {
  line.value(
      row.flag, row.value, [&, flag = row.flag](std::string_view text) { target = parse_bytes(text, flag); },
      row.sentence + "; 4GiB, 512MB");
}

void add_flag(CommandLine& line, const Row& row, option::precision& target) {
  line.value(
      row.flag, row.value, [&](std::string_view text) { target = parse_precision(text); },
      row.sentence + "; also --bf16, --fp16");
  line.flag("--bf16", [&] { target = Precision::bf16; }, "");
  line.flag("--fp16", [&] { target = Precision::f16; }, "");
}

void add_flag(CommandLine& line, const Row& row, option::shapes& target) {
  auto add_shapes = [&](std::string_view text) {
    for (ShapeRequest& request : parse_shapes(text)) target.push_back(std::move(request));
  };
  line.value(row.flag, row.value, add_shapes, row.repeatable());
}

void add_flag(CommandLine& line, const Row& row, option::symbols& target) {
  line.value(row.flag, row.value, [&](std::string_view text) { target.insert(parse_symbol(text)); }, row.repeatable());
}

void add_flag(CommandLine& line, const Row& row, option::donations& target) {
  line.value(
      row.flag, row.value, [&](std::string_view text) { target.push_back(parse_donation(text)); }, row.repeatable());
}

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

/// Adds the option of a row if it has a command-line flag.
template <bool has_flag, auto member>
void add_row(CommandLine& line, const Row& row, CompileOptions& compile) {
  if constexpr (!has_flag) return;
  else if constexpr (std::is_same_v<decltype(member), option::constants CompileOptions::*>)
    line.value(
        row.flag, row.value, [&](std::string_view text) { add_constant(text, compile); },
        row.sentence + ": axes=0,1 or axes=file.npy; repeatable");
  else add_flag(line, row, compile.*member);
}

}  // namespace

void add_model_options(CommandLine& line, ModelOptions& options, bool needs_model) {
  CompileOptions& compile = options.compile;
  line.positional("MODEL", options.model,
                  "a model (.onnx, .pt2, .tflite, .pb, a SavedModel's folder) or a compiled program (.weft)",
                  needs_model);
  line.group("Sizes, device, precision");
#define OPTION(kind, name, initial, api, stage, flag, value, sentence, ...) \
  add_row<(sizeof flag > 1), &CompileOptions::name>(line, {flag, value, sentence}, compile);
#include "compile/options.def"
  line.value("--devices", "LIST", compile.device, "devices that compute each run together: gpu:0,gpu:1; cpu,cpu");
  line.flag(
      "--no-compile", [&] { compile.recompile = false; },
      "refuse a compiled program (.weft) for another chip rather than compile it again");
  line.value("--max-nodes", "N", compile.max_nodes, "refuse a model with more nodes, after functions are expanded");
  line.value("--max-nesting", "N", compile.max_nesting, "refuse graphs and functions with deeper nesting");
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
