// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.h"
#include "base/text.h"
#include "driver/difference_table.h"
#include "driver/inputs.h"
#include "driver/model_options.h"
#include "driver/onnxruntime.h"
#include "driver/terminal.h"
#include "driver/verbs.h"

namespace weft::driver {
namespace {

struct VerifySettings {
  ModelOptions model;
  InputOptions input;
  Tolerance tolerance;  ///< as given; a negative norm: none was given
  std::string against = "ref", python = "python3", json;
  bool per_instruction = false, bisect = false;
};

/// Returns the given tolerance, completed by the default one of a precision, relative to the reference.
Tolerance tolerance_for(Precision precision, const Tolerance& given) {
  Tolerance tolerance{.norm = 1e-4, .rtol = given.rtol, .atol = given.atol, .peak = 1e-3};
  if (precision == Precision::bf16) tolerance.norm = 3e-2, tolerance.peak = 1e-1;
  if (precision == Precision::f16) tolerance.norm = 4e-3, tolerance.peak = 2e-2;
  if (given.norm >= 0) tolerance.norm = given.norm, tolerance.peak = 10 * given.norm;
  return tolerance;
}

/// Keeps the coarser of `precision` and the type of a value. A model that computes in 16 bits is no more exact than
/// that, even if its outputs are f32.
void take_coarser(Precision& precision, DType type) {
  if (type == DType::bf16) precision = Precision::bf16;
  if (type == DType::f16 && precision == Precision::f32) precision = Precision::f16;
}

std::shared_ptr<Executable> compile_reference(const ModelOptions& model) {
  ModelOptions reference = model;
  reference.compile.device = "ref";
  reference.compile.precision = Precision::f32;
  reference.compile.dump.clear();
  return compile_model(reference);
}

nlohmann::ordered_json difference_json(const std::string& name, const Difference& d) {
  return {{"name", printable(name)},  {"same", d.is_equal},         {"norm", d.norm},
          {"max_abs", d.max_abs},     {"max_rel", d.max_rel},       {"rms", d.rms},
          {"cosine", d.cosine},       {"mismatches", d.mismatches}, {"elements", d.elements},
          {"first_bad", d.first_bad}, {"reason", d.reason}};
}

/// Compares every output of the program with its expected value.
class OutputCheck {
 public:
  explicit OutputCheck(Tolerance tolerance) : tolerance_(tolerance) {}
  void check(const std::string& name, const Tensor& value, const Tensor& reference) {
    json_.push_back(difference_json(name, table_.add(name, value, reference, tolerance_)));
  }
  int finish(const std::string& json_file) const {
    if (json_file != "-") print(table_.text());
    if (!json_file.empty())
      write_result_file(
          json_file,
          nlohmann::ordered_json{{"schema", "weft.verify.1"}, {"same", table_.is_equal()}, {"tensors", json_}}.dump(1) +
              "\n");
    return table_.is_equal() ? exit_done : exit_differs;
  }

 private:
  Tolerance tolerance_;
  DifferenceTable table_;
  nlohmann::ordered_json json_ = nlohmann::ordered_json::array();
};

/// Maps the name of a node to its values; a node may have several.
using Observed = std::multimap<std::string, Tensor>;

/// Returns the node's name from the name of a value, which the reference writes as "%12 of node 3 'conv' (Conv)".
std::string node_in_name(const std::string& value) {
  size_t of = value.starts_with('%') ? value.find(" of ") : std::string::npos;
  return of == std::string::npos ? value : value.substr(of + 4);
}

Observed observe(const Executable& executable, std::span<const Tensor> inputs) {
  Observed values;
  RunOptions options;
  options.observe = [&](size_t, const std::string& name, const Tensor& tensor) {
    Tensor copy = tensor;
    if (tensor.dtype != DType::string) copy.data = Bytes::copy(tensor.data);  // later steps overwrite the arena
    values.emplace(node_in_name(name), std::move(copy));
  };
  executable.new_context()->run(inputs, options);
  return values;
}

Tensor transposed(const Tensor& tensor, const std::vector<size_t>& order) {
  size_t width = static_cast<size_t>(bits(tensor.dtype) / 8), rank = order.size();
  std::vector<size_t> strides(rank, width);
  for (size_t i = rank; i-- > 1;) strides[i - 1] = strides[i] * static_cast<size_t>(tensor.dims[i]);
  std::vector<int64_t> dims(rank), index(rank, 0);
  for (size_t i = 0; i < rank; ++i) dims[i] = tensor.dims[order[i]];
  MutableTensor out = allocate_tensor(tensor.dtype, dims);
  for (int64_t n = 0; n < tensor.elements(); ++n) {
    size_t from = 0;
    for (size_t i = 0; i < rank; ++i) from += static_cast<size_t>(index[i]) * strides[order[i]];
    std::memcpy(out.data + static_cast<size_t>(n) * width, tensor.data.data() + from, width);
    for (size_t i = rank; i-- > 0 && ++index[i] == dims[i];) index[i] = 0;
  }
  return out.tensor;
}

/// Stores `d` in `best` if it is the smaller difference.
void keep_nearer(std::optional<Difference>& best, Difference d) {
  if (!best || (d.is_equal && !best->is_equal) || (d.is_equal == best->is_equal && d.norm < best->norm))
    best = std::move(d);
}

/// Compares `tensor` with `reference` and, up to five axes, with transposes of `reference` until one is equal: a
/// target may choose another layout. Reshapes each to the sizes of `tensor`. Keeps the smallest difference in `best`.
void compare_layouts(std::optional<Difference>& best, const Tensor& tensor, const Tensor& reference,
                     const Tolerance& tolerance) {
  if (tensor.elements() != reference.elements() || bits(reference.dtype) % 8 != 0 || bits(reference.dtype) == 0) return;
  Tensor reshaped = reference;
  reshaped.dims = tensor.dims;
  keep_nearer(best, compare(tensor, reshaped, tolerance));
  std::vector<size_t> order(reference.dims.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (order.size() > 5) return;
  while (!best->is_equal && std::ranges::next_permutation(order).found) {
    Tensor candidate = transposed(reference, order);
    candidate.dims = tensor.dims;
    keep_nearer(best, compare(tensor, candidate, tolerance));
  }
}

/// Converts u8 to i8 by subtracting 128, because matrix units multiply i8 in place of u8.
Tensor as_signed(const Tensor& reference) {
  MutableTensor out = allocate_tensor(DType::i8, reference.dims);
  for (size_t i = 0; i < reference.data.size(); ++i) out.data[i] = reference.data.data()[i] ^ std::byte{0x80};
  return out.tensor;
}

/// Returns the smallest difference between `tensor` and the reference's values of the same node; nullopt if no such
/// value has as many elements.
std::optional<Difference> nearest(const Observed& reference, const std::string& name, const Tensor& tensor,
                                  const Tolerance& tolerance) {
  std::optional<Difference> best;
  auto [begin, end] = reference.equal_range(node_in_name(name));
  for (auto it = begin; it != end && !(best && best->is_equal); ++it) {
    bool is_moved = tensor.dtype == DType::i8 && it->second.dtype == DType::u8;
    compare_layouts(best, tensor, is_moved ? as_signed(it->second) : it->second, tolerance);
  }
  return best;
}

/// The first step with a wrong value. The compared values of all earlier steps are right.
struct Culprit {
  size_t step = 0;
  std::string value;
  Difference difference;
};

struct StepCheck {
  std::vector<std::vector<std::string>> rows{{"step", "kernel", "value", "||y-r||/||r||", "max abs", "", "source"}};
  std::optional<Culprit> first;
  size_t compared = 0;
};

StepCheck check_steps(const Executable& executable, const Observed& reference, std::span<const Tensor> inputs,
                      const Tolerance& tolerance) {
  StepCheck result;
  auto steps = executable.steps();
  RunOptions options;
  options.observe = [&](size_t step, const std::string& name, const Tensor& tensor) {
    auto found = nearest(reference, name, tensor, tolerance);
    if (!found) return;
    const Difference& d = *found;
    ++result.compared;
    std::string kernel = step < steps.size() ? steps[step].kernel : "",
                source = step < steps.size() ? steps[step].source : "";
    result.rows.push_back({cat(step), kernel, printable(name), show_number(d.norm), show_number(d.max_abs),
                           d.is_equal ? "same" : "differs", printable(source)});
    if (!d.is_equal && !result.first) result.first = Culprit{step, name, d};
  };
  executable.new_context()->run(inputs, options);
  return result;
}

std::string culprit_text(const Culprit& culprit, const Executable& executable) {
  auto steps = executable.steps();
  const StepInfo& step = steps.at(culprit.step);
  const Difference& d = culprit.difference;
  std::string text = cat("first wrong step: ", culprit.step, " of ", steps.size(), "\n  kernel: ", step.kernel,
                         "\n  from:   ", printable(step.source), "\n  value:  ", printable(culprit.value));
  if (d.mismatches < 0) return cat(text, ", ", d.reason);
  return cat(text, ", ", d.mismatches, " of ", d.elements, " elements, ||y-r||/||r|| ", show_number(d.norm));
}

int verify_steps(const Executable& executable, const Executable& reference, std::span<const Tensor> inputs,
                 const VerifySettings& s) {
  Observed expected = observe(reference, inputs);
  Precision precision = s.model.compile.precision;
  for (const auto& [name, tensor] : expected) take_coarser(precision, tensor.dtype);
  StepCheck result = check_steps(executable, expected, inputs, tolerance_for(precision, s.tolerance));
  if (s.per_instruction) print(table(result.rows));
  if (result.compared == 0)
    throw Error({.kind = ErrorKind::unsupported,
                 .code = "E215",
                 .what = cat("no value of ", executable.device(), " has a counterpart in the reference")});
  if (!result.first) {
    print(cat("all ", result.compared, " values that were compared agree"));
    return exit_done;
  }
  print(culprit_text(*result.first, executable));
  return exit_differs;
}

/// Returns the outputs of the reference. Keeps in `precision` the coarsest type of its values.
std::vector<Tensor> reference_outputs(const Executable& executable, std::span<const Tensor> inputs,
                                      const VerifySettings& s, Precision& precision) {
  for (const Port& port : executable.outputs()) take_coarser(precision, port.type.shape.dtype);
  if (s.against != "ref") return run_onnxruntime(s.python, s.model.model, executable, inputs);
  RunOptions options;
  options.observe = [&](size_t, const std::string&, const Tensor& tensor) { take_coarser(precision, tensor.dtype); };
  return compile_reference(s.model)->new_context()->run(inputs, options);
}

}  // namespace

int verify_verb(Words words) {
  CommandLine line({.name = "verify",
                    .purpose =
                        "Compare a model's answers with those of the reference, which computes each operator by its\n"
                        "definition in wide types. Exit code 1 when they differ.",
                    .examples = {"weft verify examples/digits/digits.onnx --at batch=3",
                                 "weft verify examples/digits/digits.onnx --bisect",
                                 "weft verify model.onnx --against onnxruntime --input test_data_set_0"}});
  VerifySettings s;
  add_model_options(line, s.model);
  add_input_options(line, s.input);
  line.group("What is compared");
  line.value("--against", "WHAT", s.against,
             "the reference to compare with: ref, or onnxruntime (in a Python that has it)");
  line.value("--python", "PATH", s.python, "the Python that has onnxruntime");
  line.flag("--per-instruction", s.per_instruction, "compare after every step, and list all steps");
  line.flag("--bisect", s.bisect, "name the first kernel whose result is wrong");
  s.tolerance.norm = -1;
  add_tolerance_options(line, s.tolerance);
  line.value("--json,-o", "FILE", s.json, "write the figures as JSON (- is standard output)");
  if (!line.parse(words)) return exit_done;
  if (s.against != "ref" && s.against != "onnxruntime")
    throw Error({.kind = ErrorKind::usage,
                 .code = "E203",
                 .what = cat("--against is '", printable(s.against), "'"),
                 .hint = "ref or onnxruntime"});

  auto executable = compile_model(s.model);
  auto inputs = make_inputs(*executable, s.input, s.model.compile.shapes);
  if (s.bisect || s.per_instruction) return verify_steps(*executable, *compile_reference(s.model), inputs, s);
  auto outputs = executable->new_context()->run(inputs);
  Precision precision = s.model.compile.precision;
  auto references = reference_outputs(*executable, inputs, s, precision);
  OutputCheck check(tolerance_for(precision, s.tolerance));
  for (size_t i = 0; i < outputs.size(); ++i) check.check(executable->outputs()[i].name, outputs[i], references.at(i));
  return check.finish(s.json);
}

}  // namespace weft::driver
