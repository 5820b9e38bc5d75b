// SPDX-License-Identifier: Apache-2.0
#include "quantise/quantise.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>

#include "api/c/calibration_table.h"
#include "base/error.h"
#include "base/text.h"
#include "driver/options.h"
#include "driver/quantize_page.h"
#include "driver/samples.h"
#include "driver/terminal.h"
#include "driver/verbs.h"

namespace weft::driver {
namespace {

struct QuantizeSettings {
  std::string model, output, to = "int8", method, weights, budget, metric, report, table, ranges;
  std::vector<std::string> data;
  double smooth = NAN;
  ImageOptions image;
  quantise::Settings choices;
};

/// Parses a fraction: "0.5%" or "0.005".
double parse_share(const std::string& text) {
  char* end = nullptr;
  double share = std::strtod(text.c_str(), &end);
  if (end != text.c_str() && std::string_view(end) == "%") share /= 100, ++end;
  if (end == text.c_str() || *end || !(share >= 0))
    throw Error({.kind = ErrorKind::usage,
                 .code = "E203",
                 .what = cat("'", printable(text), "' is not a budget"),
                 .hint = "write 0.5% or 0.005"});
  return share;
}

/// Runs a command with the path of a model; returns the number on the last line that it prints.
double metric_of(const std::string& command, const std::string& path) {
  std::string quoted = "'";
  for (char c : path) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  FILE* pipe = popen(cat(command, " ", quoted, "'").c_str(), "r");
  std::string text;
  char buffer[4096];
  for (size_t got = 0; pipe && (got = fread(buffer, 1, sizeof buffer, pipe)) > 0;) text.append(buffer, got);
  int status = pipe ? pclose(pipe) : -1;
  std::string line(trim(text));
  line = line.substr(line.rfind('\n') + 1);
  char* end = nullptr;
  double figure = std::strtod(line.c_str(), &end);
  if (status != 0 || line.empty() || *end)
    throw Error({.kind = ErrorKind::usage,
                 .code = "E220",
                 .what = cat("the metric '", printable(command), "' ends with status ", status, " and '",
                             printable(line), "', not with a number"),
                 .hint = "it gets the path of a model and prints a figure, the greater the better"});
  return figure;
}

void declare(CommandLine& line, QuantizeSettings& s) {
  line.positional("MODEL", s.model, "a float model (.onnx, .pt2, .tflite, .pb, a SavedModel's folder)");
  line.group("Results");
  line.value("--output,-o", "FILE", s.output, "the quantised model; default: MODEL with .TO.onnx");
  line.value("--report", "FILE", s.report,
             "the choice for each layer, its reason and the loss: .json, or .html with plots");
  line.value("--table", "FILE", s.table,
             "write the ranges of inputs as a calibration table: .json, else TensorRT's text");
  line.group("Quantisation");
  line.value("--to", "KIND", s.to, "int8 (default), fp8, fp8-fnuz, int8-dynamic, int8-weights, int4");
  line.value("--data", "PATH", s.data, "examples of inputs: a folder, pictures, .npz, .npy, test_data_set; repeatable");
  line.value("--ranges", "FILE", s.ranges, "a calibration table in place of data: .json, or TensorRT's text");
  line.value("--method", "NAME", s.method, "range of inputs: mse (default), minmax, percentile, entropy; fp8: minmax");
  line.value("--percentile", "P", s.choices.percentile, "share of values inside the range, in percent (99.99)");
  line.value(
      "--weights", "NAME", s.weights,
      "rounding of weights: nearest, gptq (default of int4 and fp8 with data); of int4 and int8-weights also hqq, awq");
  line.value("--block", "N", s.choices.block,
             "weights that share a scale in int4 and int8-weights: 16, 32 (default) ... 256");
  line.flag("--qdq", s.choices.is_qdq, "write blocks of weights as DequantizeLinear and MatMul, not as MatMulNBits");
  line.flag("--symmetric", s.choices.is_symmetric, "ranges symmetric around 0");
  line.flag("--per-tensor", s.choices.is_per_tensor, "one scale per weight tensor, not one per channel");
  line.flag("--reduce-range", s.choices.is_range_reduced,
            "int8: weights of 7 bits, for engines whose products by u8 saturate on processors without VNNI");
  line.flag("--keep-bias", [&] { s.choices.correct_bias = false; }, "no correction of biases");
  line.value("--smooth", "S", s.smooth,
             "int8, fp8: strength of SmoothQuant, 0 (none) to below 1; default: int8 chooses");
  line.value("--keep", "NODE", s.choices.keep, "a node that stays in floats; * and ? match; repeatable");
  line.group("Accuracy");
  line.value("--budget", "SHARE", s.budget,
             "keep layers in floats (int4: in 8 bits) until the loss is at most this: 0.5%");
  line.value(
      "--metric", "COMMAND", s.metric,
      "command that gets the path of a model and prints its score, higher is better; default: the outputs' error");
  line.group("Pictures and threads");
  line.value("--image-mean", "M", s.image.mean, "subtracted from each pixel (0..255), one number or one per channel");
  line.value("--image-scale", "S", s.image.scale, "factor after the subtraction");
  line.value("--image-layout", "L", s.image.layout,
             "NCHW or NHWC (the model's metadata have defaults for these three)");
  line.value("--threads", "N", s.choices.threads, "threads of the CPU (0: all that this process may use)");
}

void finish(QuantizeSettings& s) {
  s.choices.to = quantise::parse_target(s.to);
  if (!s.method.empty()) s.choices.method = quantise::parse_range_method(s.method);
  if (!s.ranges.empty()) s.choices.ranges = quantise::read_ranges(s.ranges);
  if (!s.weights.empty()) s.choices.weights = quantise::parse_weight_method(s.weights);
  if (!std::isnan(s.smooth)) s.choices.smooth = s.smooth;
  if (!s.budget.empty()) s.choices.budget = parse_share(s.budget);
  if (!s.metric.empty())
    s.choices.metric = [&s](const std::filesystem::path& path) { return metric_of(s.metric, path.string()); };
  if (s.output.empty()) s.output = std::filesystem::path(s.model).filename().replace_extension(s.to + ".onnx").string();
}

void summarise(const nlohmann::ordered_json& report, const QuantizeSettings& s) {
  std::map<std::string, size_t> forms = {{s.to, 0}};
  for (const auto& layer : report["layers"]) ++forms[layer["becomes"].get<std::string>()];
  std::string counts = cat(forms[s.to], " layers in ", s.to);
  for (const auto& [form, count] : forms)
    if (form != s.to && form != "float") counts += cat(", ", count, " in ", form);
  auto bytes = [](const std::string& path) {
    uintmax_t sum = 0;
    auto add = [&](const std::filesystem::path& file) { sum += std::filesystem::file_size(file); };
    if (std::filesystem::is_directory(path)) {  // a SavedModel
      for (const auto& entry : std::filesystem::recursive_directory_iterator(path))
        if (entry.is_regular_file()) add(entry.path());
    } else {
      for (const auto& file : {path, path + ".data"})
        if (std::filesystem::exists(file)) add(file);
    }
    return show_bytes(static_cast<double>(sum));
  };
  print(cat(s.output, ": ", counts, ", ", forms["float"], " in float; ", bytes(s.model), " became ", bytes(s.output)));
  if (report["loss"].is_number())
    print(cat(s.metric.empty() ? "error of the outputs: " : "loss of the metric: ",
              show_number(report["loss"].get<double>() * 100), " %"));
  for (const auto& layer : report["layers"])
    if (layer.contains("why"))
      detail(cat("  ", layer["becomes"].get<std::string>(), ": ", printable(layer["node"].get<std::string>()), " (",
                 layer["op"].get<std::string>(), "): ", layer["why"].get<std::string>()));
}

}  // namespace

int quantize_verb(Words words) {
  CommandLine line({.name = "quantize",
                    .purpose =
                        "Quantise a float model to 8 or 4 bits, with little loss of accuracy. The result is an ONNX\n"
                        "file that any engine runs.",
                    .examples = {"weft quantize model.onnx -o small.onnx --data photographs",
                                 "weft quantize model.onnx --to int8 --data examples.npz --budget 0.5%",
                                 "weft quantize llm.onnx --to int4 --weights hqq --block 32 -o llm4.onnx"}});
  QuantizeSettings s;
  declare(line, s);
  if (!line.parse(words)) return exit_done;
  finish(s);
  ProgressLine progress;
  s.choices.progress = [&](const Progress& p) { progress.show(p); };
  FileSamples samples(s.data, s.image);
  std::string json = quantise::quantise(s.model, s.output, s.choices, s.data.empty() ? nullptr : &samples);
  auto report = nlohmann::ordered_json::parse(json);
  if (!s.report.empty())
    write_result_file(s.report, s.report.ends_with(".html") ? quantize_page(report, s.model) : json);
  if (!s.table.empty()) write_result_file(s.table, calibration_table(report, s.table));
  summarise(report, s);
  return exit_done;
}

}  // namespace weft::driver
