// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "driver/inputs.h"
#include "driver/model_options.h"
#include "driver/tensor_files.h"
#include "driver/terminal.h"
#include "driver/verbs.h"

namespace weft::driver {
namespace {

struct RunSettings {
  ModelOptions model;
  InputOptions input;
  std::vector<std::string> outputs;
  std::string labels, json;
  int top = 3;
  double deadline = 0;
  bool check_numerics = false;
};

/// Parses the names of classes: a JSON array of strings, or one name per line.
std::vector<std::string> parse_labels(const std::string& text) {
  auto json = nlohmann::json::parse(text, nullptr, false);
  if (json.is_array() && std::ranges::all_of(json, [](const auto& item) { return item.is_string(); }))
    return json.get<std::vector<std::string>>();
  std::vector<std::string> labels;
  for (std::string_view line : split(text, '\n')) labels.emplace_back(trim(line));
  while (!labels.empty() && labels.back().empty()) labels.pop_back();
  return labels;
}

std::vector<std::string> labels_of(const Executable& executable, const std::string& file) {
  if (!file.empty()) return parse_labels(std::string(as_text(map_file(file))));
  auto found = executable.metadata().find("labels");
  return found == executable.metadata().end() ? std::vector<std::string>() : parse_labels(found->second);
}

bool are_probabilities(std::span<const double> scores) {
  return std::ranges::all_of(scores, [](double p) { return p >= 0 && p <= 1.0001; }) &&
         std::fabs(std::reduce(scores.begin(), scores.end()) - 1) < 1e-2;
}

std::vector<size_t> best(std::span<const double> scores, int count) {
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  size_t kept = std::min(order.size(), static_cast<size_t>(std::max(count, 1)));
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(),
                    [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  order.resize(kept);
  return order;
}

void print_classes(std::span<const double> scores, const std::vector<std::string>& labels, int top) {
  bool is_probability = are_probabilities(scores);
  std::vector<std::vector<std::string>> rows;
  for (size_t i : best(scores, top)) {
    if (is_probability) {
      char percent[32];
      std::snprintf(percent, sizeof percent, "%5.1f %%", scores[i] * 100);
      rows.push_back({"  " + printable(labels[i]), percent, paint(bar(scores[i], 30), Ink::green)});
    } else {
      rows.push_back({"  " + printable(labels[i]), show_number(scores[i])});
    }
  }
  print(table(rows));
}

bool is_classification(const Tensor& tensor, size_t classes) {
  return tensor.is_tensor() && is_float(tensor.dtype) && !tensor.dims.empty() &&
         tensor.dims.back() == static_cast<int64_t>(classes) && tensor.elements() > 0;
}

/// Prints the `top` best classes of each row; the elements of a row (the last axis) are the scores of the classes.
void print_classification(const Port& port, const Tensor& tensor, const std::vector<std::string>& labels, int top) {
  auto scores = to_doubles(tensor);
  size_t rows = scores.size() / labels.size();
  for (size_t row = 0; row < rows; ++row) {
    print(rows > 1 ? cat(printable(port.name), " [", row, "]") : printable(port.name));
    print_classes(std::span(scores).subspan(row * labels.size(), labels.size()), labels, top);
  }
}

std::string statistics(const Tensor& tensor) {
  auto values = to_doubles(tensor);
  auto is_finite = [](double x) { return std::isfinite(x); };
  auto odd = std::ranges::count_if(values, [&](double x) { return !is_finite(x); });
  std::erase_if(values, [&](double x) { return !is_finite(x); });
  std::string text;
  if (!values.empty()) {
    auto [low, high] = std::ranges::minmax(values);
    double mean = std::reduce(values.begin(), values.end()) / static_cast<double>(values.size());
    text = cat("min ", show_number(low), ", max ", show_number(high), ", mean ", show_number(mean));
  }
  if (odd > 0) text += cat(text.empty() ? "" : ", ", odd, " not finite");
  return text;
}

void print_description(const Port& port, const Tensor& tensor) {
  print(cat(paint(printable(port.name), Ink::bold), "  ", describe(tensor)));
  if (tensor.is_tensor() && tensor.dtype != DType::string && !is_complex(tensor.dtype) && tensor.elements() > 8)
    print(cat("  ", statistics(tensor)));
}

/// Throws E310 if `text` ("output=file") names an output that does not exist.
void check_output(const std::string& text, const std::vector<Port>& ports) {
  size_t equals = text.find('=');
  std::vector<std::string> names;
  for (const Port& port : ports) names.push_back(port.name);
  if (equals == std::string::npos || std::ranges::count(names, text.substr(0, equals)) > 0) return;
  throw Error({.kind = ErrorKind::usage,
               .code = "E310",
               .what = cat("the model has no output '", printable(text.substr(0, equals)), "'"),
               .hint = cat("its outputs: ", printable(cat(names)))});
}

/// Writes outputs to a file as `text` says: output y for "y=f.npy", all for "f.npz", the only output for "f.npy".
void write_output(const std::string& text, const std::vector<Port>& ports, const std::vector<Tensor>& tensors) {
  size_t equals = text.find('=');
  NamedTensors chosen;
  for (size_t i = 0; i < ports.size(); ++i) {
    if (equals == std::string::npos || ports[i].name == text.substr(0, equals))
      chosen.emplace_back(ports[i].name, tensors[i]);
  }
  std::string file = equals == std::string::npos ? text : text.substr(equals + 1);
  write_tensors(file, chosen);
  note_written(file);
}

/// Prints a warning for the first tensor with NaN or infinity, and none for later tensors.
class NumericsCheck {
 public:
  explicit NumericsCheck(const Executable& executable) : steps_(executable.steps()) {}

  void operator()(size_t step, const std::string& value, const Tensor& tensor) {
    if (is_found_ || !tensor.is_tensor() || !is_float(tensor.dtype)) return;
    auto values = to_doubles(tensor);
    auto odd = std::ranges::find_if(values, [](double x) { return !std::isfinite(x); });
    is_found_ = odd != values.end();
    if (!is_found_) return;
    std::string place = step < steps_.size() ? cat(", kernel ", steps_[step].kernel) : "";
    note(printable(cat("warning: ", "W220: the first ", std::isnan(*odd) ? "NaN" : "infinity", " is element ",
                       odd - values.begin(), " of ", value, ", step ", step, place)));
  }

 private:
  std::vector<StepInfo> steps_;
  bool is_found_ = false;
};

nlohmann::ordered_json tensor_json(const Tensor& tensor) {
  if (!tensor.is_tensor()) {
    constexpr const char* kinds[] = {"tensor", "sequence", "optional", "map"};
    nlohmann::ordered_json entry{{"type", kinds[static_cast<size_t>(tensor.kind)]}, {"items", nlohmann::json::array()}};
    for (const Tensor& item : *tensor.items) entry["items"].push_back(tensor_json(item));
    return entry;
  }
  nlohmann::ordered_json entry{{"type", std::string(name(tensor.dtype))}, {"dims", tensor.dims}};
  if (tensor.dtype == DType::string) {
    for (const std::string& text : *tensor.strings) entry["values"].push_back(printable(text));
  } else if (is_integer(tensor.dtype) || tensor.dtype == DType::boolean) {
    entry["values"] = to_int64s(tensor);
  } else if (!is_complex(tensor.dtype)) {
    entry["values"] = to_doubles(tensor);
  }
  return entry;
}

void write_json(const std::string& file, const std::vector<Port>& ports, const std::vector<Tensor>& tensors) {
  nlohmann::ordered_json outputs = nlohmann::ordered_json::array();
  for (size_t i = 0; i < ports.size(); ++i) {
    nlohmann::ordered_json entry{{"name", printable(ports[i].name)}};
    entry.update(tensor_json(tensors[i]));
    outputs.push_back(std::move(entry));
  }
  write_result_file(file, nlohmann::ordered_json{{"schema", "weft.run.1"}, {"outputs", outputs}}.dump(1) + "\n");
}

}  // namespace

int run_verb(Words words) {
  CommandLine line(
      {.name = "run",
       .purpose = "Run a model once. A classifier with labels prints its best classes, another model prints\n"
                  "a short description of each output.",
       .examples = {"weft run examples/digits/digits.onnx --input examples/digits/seven.png",
                    "weft run examples/digits/digits.onnx -i image=examples/digits/ten.npy --output all.npz"}});
  RunSettings s;
  add_model_options(line, s.model);
  add_input_options(line, s.input);
  line.group("Results");
  line.value("--output,-o", "Y=FILE", s.outputs, "write output Y to .npy, or all of them to .npz; repeatable");
  line.value("--json", "FILE", s.json, "write the outputs as JSON (- is standard output)");
  line.value("--labels", "FILE", s.labels, "names of the classes: a JSON list, or one per line");
  line.value("--top", "N", s.top, "number of classes to show");
  line.value("--deadline", "SECONDS", s.deadline, "stop with an error when the run takes longer");
  line.flag("--check-numerics", s.check_numerics,
            "warn of the first infinity or NaN, and name the step that computed it");
  if (!line.parse(words)) return exit_done;

  auto executable = compile_model(s.model);
  for (const std::string& output : s.outputs) check_output(output, executable->outputs());
  auto inputs = make_inputs(*executable, s.input, s.model.compile.shapes);
  RunOptions options;
  if (s.deadline > 0)
    options.deadline =
        std::chrono::steady_clock::now() + std::chrono::nanoseconds(static_cast<int64_t>(s.deadline * 1e9));
  if (s.check_numerics) options.observe = NumericsCheck(*executable);
  auto outputs = executable->new_context()->run(inputs, options);

  for (const std::string& output : s.outputs) write_output(output, executable->outputs(), outputs);
  if (!s.json.empty()) write_json(s.json, executable->outputs(), outputs);
  if (!s.outputs.empty() || s.json == "-") return exit_done;
  auto labels = labels_of(*executable, s.labels);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Port& port = executable->outputs()[i];
    if (!labels.empty() && is_classification(outputs[i], labels.size()))
      print_classification(port, outputs[i], labels, s.top);
    else print_description(port, outputs[i]);
  }
  return exit_done;
}

}  // namespace weft::driver
