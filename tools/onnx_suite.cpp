// SPDX-License-Identifier: Apache-2.0
// weft-onnx_suite [--device cpu] FOLDER...: runs ONNX test cases on the reference target, as imported and after the
// passes, or on a device as any program. A case is a folder with model.onnx, input_N.pb, output_N.pb (as ONNX's test
// data) and a file `tolerance` with the relative and absolute tolerance; a file `random` says that only types and sizes
// of the results can be compared. Prints one line for each case: its name, `right`, `wrong` or `refused`, and why;
// after `right` the steps that the host ran, if any.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "base/error.h"
#include "compile.h"
#include "frontends/onnx/import.h"
#include "frontends/onnx/importer.h"
#include "frontends/onnx/reader.h"
#include "frontends/onnx/value_reader.h"
#include "ir/verify.h"
#include "passes/passes.h"
#include "targets/ref/ref.h"

namespace {

namespace fs = std::filesystem;
using namespace weft;

struct Tolerance {
  double relative = 1e-3, absolute = 1e-7;
  bool is_random = false;
};

/// Values from prefix_0.pb on, of the types that the model gives them.
std::vector<Tensor> read_values(const fs::path& folder, const std::string& prefix,
                                const std::vector<onnx::ValueInfo>& ports) {
  std::vector<Tensor> values;
  for (fs::path file; fs::exists(file = folder / cat(prefix, "_", values.size(), ".pb"));)
    values.push_back(
        onnx::read_value(map_file(file), prefix, onnx::Importer::declared_element(ports.at(values.size()).type)));
  return values;
}

/// The case's model for inputs of just these sizes, after the passes if asked.
std::unique_ptr<Program> imported(const onnx::Model& model, const std::vector<Tensor>& inputs,
                                  const onnx::ImportOptions& options, bool with_passes) {
  onnx::ImportOptions fixed = options;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].is_tensor()) continue;
    fixed.shapes[std::string(model.graph.inputs.at(i).name)] = Dims(inputs[i].dims.begin(), inputs[i].dims.end());
  }
  auto program = onnx::import_model(model, fixed);
  verify(*program, "import");
  if (!with_passes) return program;
  Pipeline passes(*program, {});
  run_passes(passes, PassGroup::shared);
  verify(*program, "the passes");
  return program;
}

/// Where a case runs: on the reference as imported or after the passes, or on a device.
struct Way {
  bool with_passes = false;
  std::string device = "ref";
};

struct Outcome {
  std::vector<Tensor> values;
  std::string host;  // names of steps of the host
};

Outcome run(std::unique_ptr<Program> program, const std::vector<Tensor>& inputs, const Way& way) {
  if (way.device == "ref") return {evaluate(program->main(), inputs), ""};
  auto executable = compile(std::move(program), {.device = way.device, .threads = 2});
  Outcome outcome{executable->new_context()->run(inputs), ""};
  for (const StepInfo& step : executable->steps()) {
    if (step.kernel.starts_with("host_")) outcome.host += cat(" ", step.kernel);
  }
  return outcome;
}

/// The cases give axes, sizes and the like as inputs, which Weft must know while compiling: the second try fixes them.
Outcome run(const onnx::Model& model, std::vector<Tensor> inputs, const Way& way) {
  try {
    return run(imported(model, inputs, {}, way.with_passes), inputs, way);
  } catch (const Error& error) {
    if (error.info().code != "E159" && error.info().code != "E122") throw;
  }
  onnx::ImportOptions options;
  std::vector<Tensor> rest;
  for (size_t i = 0; i < inputs.size(); ++i) {
    bool is_data = !inputs[i].is_tensor() || inputs[i].dtype == DType::string ||
                   (i == 0 && inputs.size() > 1 && is_float(inputs[i].dtype) && inputs[i].elements() > 1);
    if (is_data) rest.push_back(inputs[i]);
    else options.constants[std::string(model.graph.inputs.at(i).name)] = inputs[i];
  }
  return run(imported(model, inputs, options, way.with_passes), rest, way);
}

/// Two steps of the type, relative: expected values were rounded to it between operators, ours were not.
double rounding(DType type) { return type == DType::bf16 ? 0x1p-6 : type == DType::f16 ? 0x1p-9 : 0; }

std::string difference(const Tensor& got, const Tensor& want, Tolerance t);

std::string difference_of_items(const Tensor& got, const Tensor& want, Tolerance t) {
  if (got.kind != want.kind || got.items->size() != want.items->size())
    return cat(describe(got), " where ", describe(want), " is right");
  for (size_t i = 0; i < got.items->size(); ++i) {
    std::string found = difference((*got.items)[i], (*want.items)[i], t);
    if (!found.empty()) return cat("item ", i, ": ", found);
  }
  return {};
}

std::string difference(const Tensor& got, const Tensor& want, Tolerance t) {
  if (!got.is_tensor() || !want.is_tensor()) return difference_of_items(got, want, t);
  if (!(got.shape() == want.shape())) return cat(got.shape(), " where ", want.shape(), " is right");
  if (got.dtype == DType::string) {
    for (size_t i = 0; i < got.strings->size(); ++i) {
      if ((*got.strings)[i] != (*want.strings)[i])
        return cat("element ", i, " is '", (*got.strings)[i], "' where '", (*want.strings)[i], "' is right");
    }
    return {};
  }
  if (t.is_random) return {};
  auto a = to_doubles(got), b = to_doubles(want);
  for (size_t i = 0; i < a.size(); ++i) {
    bool same = a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]));
    double most = t.absolute + std::max(t.relative, rounding(want.dtype)) * std::fabs(b[i]);
    if (!same && !(std::fabs(a[i] - b[i]) <= most))
      return cat("element ", i, " is ", a[i], " where ", b[i], " is right");
  }
  return {};
}

std::string check_case(const fs::path& folder, const std::string& device) {
  auto model = onnx::read_model(folder / "model.onnx");
  Tolerance tolerance;
  std::ifstream(folder / "tolerance") >> tolerance.relative >> tolerance.absolute;
  tolerance.is_random = fs::exists(folder / "random");
  auto want = read_values(folder, "output", model.graph.outputs);
  std::string host;
  std::vector<Way> ways = {{.device = device}};
  if (device == "ref") ways.push_back({.with_passes = true});
  for (const Way& way : ways) {
    const char* when = way.with_passes ? "wrong after the passes: " : "wrong: ";
    auto [got, steps] = run(model, read_values(folder, "input", model.graph.inputs), way);
    host = steps;
    if (got.size() != want.size()) return cat(when, got.size(), " outputs where ", want.size(), " are right");
    for (size_t i = 0; i < got.size(); ++i) {
      std::string found = difference(got[i], want[i], tolerance);
      if (!found.empty()) return cat(when, "output ", i, ": ", found);
    }
  }
  return cat("right", host);
}

}  // namespace

int main(int count, char** arguments) {
  bool is_given = count > 2 && std::string_view(arguments[1]) == "--device";
  std::string device = is_given ? arguments[2] : "ref";
  for (int i = is_given ? 3 : 1; i < count; ++i) {
    fs::path folder = arguments[i];
    std::string result;
    try {
      result = check_case(folder, device);
    } catch (const Error& error) {
      result = cat("refused: ", error.info().code, " ", error.info().what);
    }
    std::cout << folder.filename().string() << " " << result << std::endl;
  }
}
