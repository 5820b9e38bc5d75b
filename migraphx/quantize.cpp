// SPDX-License-Identifier: Apache-2.0
// Precision below f32: the quantize functions of migraphx.h.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "migraphx/program.h"

using namespace weft::mgx;

namespace {

constexpr int dots = 1, convolutions = 2, in_fp8 = 4;

/// MIGraphX's names of the products that are quantised.
int products_of(const std::vector<std::string>& names, bool may_be_all) {
  int products = 0;
  for (const std::string& name : names) {
    if (name == "dot") products |= dots;
    else if (name == "convolution") products |= convolutions;
    else if (name == "all" && may_be_all) products |= dots | convolutions;
    else refuse("operator '" + name + "' is not quantised", "dot and convolution are");
  }
  return products;
}

/// Products and convolutions go together in f16 and bf16.
void check_names(const migraphx_quantize_op_names& names) {
  bool is_all = std::ranges::find(names.list, "all") != names.list.end();
  if (!is_all && products_of(names.list, true) != (dots | convolutions))
    not_supported("half precision is for matrix products and convolutions together", "name both, or 'all'");
}

/// Keeps the largest value of each element over all runs.
void keep_greatest(std::vector<weft::Tensor>& most, const std::vector<weft::Tensor>& now) {
  if (most.empty()) {
    most = now;
    return;
  }
  for (size_t i = 0; i < most.size(); ++i) {
    std::span<const float> a = most[i].as<float>(), b = now[i].as<float>();
    std::vector<float> greatest(a.size());
    std::ranges::transform(a, b, greatest.begin(), [](float x, float y) { return std::max(x, y); });
    most[i] = weft::Tensor::copy(WEFT_F32, std::as_bytes(std::span(greatest)), now[i].dims());
  }
}

std::vector<weft::Tensor> tensors_of(const std::vector<migraphx_argument>& arguments) {
  std::vector<weft::Tensor> tensors;
  for (const migraphx_argument& argument : arguments) {
    std::vector<int64_t> dims(argument.shape.lengths.begin(), argument.shape.lengths.end());
    tensors.push_back(
        weft::Tensor::copy(WEFT_F32, {reinterpret_cast<std::byte*>(argument.data()), argument.shape.bytes()}, dims));
  }
  return tensors;
}

/// AMD's provider of onnxruntime gives examples only for models with open sizes; for others it gives numbers of a
/// calibration table.
void check_sample(const weft::Graph& graph, const migraphx_program_parameters& sample) {
  for (const weft::Port& port : graph.inputs())
    if (!sample.map.contains(port.name))
      refuse("the calibration data has no example of parameter '" + std::string(port.name) + "'",
             "ranges from a table are none; Weft's own provider of onnxruntime reads tables");
}

/// Runs the program on every sample, with magnitudes as results.
std::vector<weft::Tensor> measure(const migraphx_program& program, int products,
                                  const std::vector<migraphx_program_parameters>& samples) {
  weft::Graph graph = program.graph();
  graph.observe(products);
  if (graph.outputs().empty()) return {};
  if (samples.empty()) refuse("8 bits need calibration data", "give examples of the inputs with add_calibration_data");
  for (const migraphx_program_parameters& sample : samples) check_sample(graph, sample);
  Compiled observed(graph.compile({.device = "cpu"}), false, program.source ? program.source->bytes : nullptr);
  std::vector<weft::Tensor> most;
  for (const migraphx_program_parameters& sample : samples) keep_greatest(most, tensors_of(observed.run(sample).list));
  for (const weft::Tensor& magnitude : most)
    for (float x : magnitude.as<float>())
      if (!std::isfinite(x)) refuse("the calibration data makes a value that is not finite");
  return most;
}

void quantize(migraphx_program& program, int products, const std::vector<migraphx_program_parameters>& samples) {
  if (program.made) refuse("the program is compiled already", "its precision is settled before that");
  if (program.products) refuse("the program is quantised already");
  if (program.refusal) return;
  program.magnitudes = measure(program, products, samples);
  program.products = products;
}

}  // namespace

migraphx_status migraphx_quantize_fp16(migraphx_program_t prog) {
  return guarded([&] { given(prog).set_precision(WEFT_PRECISION_F16); });
}
migraphx_status migraphx_quantize_bf16(migraphx_program_t prog) {
  return guarded([&] { given(prog).set_precision(WEFT_PRECISION_BF16); });
}
migraphx_status migraphx_quantize_fp16_with_op_names(migraphx_program_t prog, migraphx_quantize_op_names_t name) {
  return guarded([&] {
    check_names(given(name));
    given(prog).set_precision(WEFT_PRECISION_F16);
  });
}
migraphx_status migraphx_quantize_bf16_with_op_names(migraphx_program_t prog, migraphx_quantize_op_names_t name) {
  return guarded([&] {
    check_names(given(name));
    given(prog).set_precision(WEFT_PRECISION_BF16);
  });
}

/// Without names, all products.
migraphx_status migraphx_quantize_int8(migraphx_program_t prog, migraphx_target_t target,
                                       migraphx_quantize_int8_options_t options) {
  return guarded([&] {
    given(target);
    const auto& [operators, samples] = given(options);
    quantize(given(prog), operators.empty() ? dots | convolutions : products_of(operators, false), samples);
  });
}

migraphx_status migraphx_quantize_fp8(migraphx_program_t prog, migraphx_target_t target,
                                      migraphx_quantize_fp8_options_t options) {
  return guarded([&] {
    given(target);
    warn("fp8 is simulated: values are rounded to e4m3 and multiplied in f32, which is no faster than f32");
    quantize(given(prog), dots | convolutions | in_fp8, given(options).samples);
  });
}

/// Operator names without domains, as in MIGraphX, each once.
static const std::vector<std::string>& onnx_operators() {
  static const std::vector<std::string> names = [] {
    std::set<std::string, std::less<>> bare;
    for (size_t i = 0; const char* name = weft_model_operator(i); ++i) {
      const char* colon = std::strrchr(name, ':');
      bare.insert(colon ? colon + 1 : name);
    }
    return std::vector<std::string>(bare.begin(), bare.end());
  }();
  return names;
}

migraphx_status migraphx_get_onnx_operators_size(size_t* out) {
  return guarded([&] { given(out) = onnx_operators().size(); });
}

migraphx_status migraphx_get_onnx_operator_name_at_index(char** out, size_t index) {
  return guarded([&] {
    if (index >= onnx_operators().size()) refuse("there is no operator " + std::to_string(index));
    given(out) = const_cast<char*>(onnx_operators()[index].c_str());
  });
}
