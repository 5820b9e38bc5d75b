// SPDX-License-Identifier: Apache-2.0
// Precision below f32: the quantize functions of migraphx.h.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>

#include "migraphx/program.h"

using namespace weft::mgx;

namespace {

constexpr int dots = 1, convolutions = 2;

/// Converts MIGraphX's names of operators to bits of weft_quantize_options::products.
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

/// Throws unless the names have "all", or both "dot" and "convolution": f16 and bf16 always apply to both operators.
void check_names(const migraphx_quantize_op_names& names) {
  bool is_all = std::ranges::find(names.list, "all") != names.list.end();
  if (!is_all && products_of(names.list, true) != (dots | convolutions))
    not_supported("half precision is for matrix products and convolutions together", "name both, or 'all'");
}

/// Refuses samples that lack an input. onnxruntime's MIGraphX provider passes such samples for models with fixed sizes:
/// they are numbers from a calibration table, not examples of inputs.
void check_sample(const weft::Graph& graph, const migraphx_program_parameters& sample) {
  for (const weft::Port& port : graph.inputs())
    if (!sample.map.contains(port.name))
      refuse("the calibration data has no example of parameter '" + std::string(port.name) + "'",
             "ranges from a table are not examples; Weft's own provider of onnxruntime reads tables");
}

/// The calibration examples; `give` passes one example, with its arguments in the order of the program's parameters.
struct Examples {
  std::vector<weft::Port> ports;
  const std::vector<migraphx_program_parameters>& samples;

  static int32_t give(void* user, size_t index, weft_tensor** inputs) {
    const auto& self = *static_cast<const Examples*>(user);
    if (index >= self.samples.size()) return 0;
    for (size_t i = 0; i < self.ports.size(); ++i) {
      weft::Tensor view = as_port(self.ports[i], self.samples[index].map.find(self.ports[i].name)->second);
      weft_status* status = weft_tensor_copy(view.dtype(), view.dims().data(), view.dims().size(), view.bytes().data(),
                                             view.bytes().size(), &inputs[i]);
      weft_status_free(status);
      if (status) return -1;
    }
    return 1;
  }
};

/// Returns the program's model as the bytes of an ONNX file.
weft::Tensor model_of(const migraphx_program& program, const weft::Graph& graph) {
  const auto& source = program.source;
  if (!source || !source->is_onnx) return graph.to_onnx();
  if (!source->bytes)
    return weft::Tensor::map(WEFT_U8, source->path, 0,
                             {{static_cast<int64_t>(std::filesystem::file_size(source->path))}});
  return weft::Tensor::view(WEFT_U8, std::as_bytes(std::span(*source->bytes)), {{std::ssize(*source->bytes)}});
}

/// Quantises the program's model and makes the result the program's source.
void quantize(migraphx_program& program, const weft::Graph& graph, weft_quantize_options options) {
  Source made = program.source.value_or(Source{});
  std::string folder =
      made.path.empty() ? made.options.folder : std::filesystem::path(made.path).parent_path().string();
  if (!folder.empty()) options.folder = folder.c_str();
  weft::Tensor model = weft::quantize(model_of(program, graph).bytes(), options);
  if (!made.is_onnx || !program.source) made = {};  // the new model already reflects the options for reading
  made.path.clear(), made.options.folder = folder;
  made.bytes =
      std::make_shared<const std::string>(reinterpret_cast<const char*>(model.bytes().data()), model.bytes().size());
  program.source = std::move(made), program.is_quantised = true;
}

void check_unsettled(const migraphx_program& program) {
  if (program.made) refuse("the program is compiled already", "its precision is settled before that");
  if (program.is_quantised) refuse("the program is quantised already");
}

/// Quantises the program to `to`. As in MIGraphX, ranges of inputs are symmetric around 0, up to the greatest
/// magnitude.
void calibrate(migraphx_program& program, const char* to, int products,
               const std::vector<migraphx_program_parameters>& samples) {
  check_unsettled(program);
  if (program.refusal) return;
  if (samples.empty()) refuse("8 bits need calibration data", "give examples of the inputs with add_calibration_data");
  weft::Graph graph = program.graph();  // the ports below point into it
  for (const migraphx_program_parameters& sample : samples) check_sample(graph, sample);
  Examples examples{graph.inputs(), samples};
  weft_quantize_options options = WEFT_QUANTIZE_OPTIONS_INIT;
  options.to = to, options.method = "minmax", options.symmetric = 1, options.products = products % 3;
  options.item = Examples::give, options.user = &examples;
  quantize(program, graph, options);
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

/// Quantises to int8. Without names, quantises all products and convolutions.
migraphx_status migraphx_quantize_int8(migraphx_program_t prog, migraphx_target_t target,
                                       migraphx_quantize_int8_options_t options) {
  return guarded([&] {
    given(target);
    const auto& [operators, samples] = given(options);
    calibrate(given(prog), "int8", operators.empty() ? dots | convolutions : products_of(operators, false), samples);
  });
}

migraphx_status migraphx_quantize_fp8(migraphx_program_t prog, migraphx_target_t target,
                                      migraphx_quantize_fp8_options_t options) {
  return guarded([&] {
    given(target);
    warn("fp8 is simulated on CPUs: values are rounded to e4m3 and multiplied in f32, which is no faster than f32");
    calibrate(given(prog), "fp8", dots | convolutions, given(options).samples);
  });
}

/// Rounds weights to 4 bits, without calibration data. MIGraphX's C interface has no such function.
migraphx_status migraphx_quantize_int4_weights(migraphx_program_t prog) {
  return guarded([&] {
    migraphx_program& program = given(prog);
    check_unsettled(program);
    if (program.refusal) return;
    weft_quantize_options options = WEFT_QUANTIZE_OPTIONS_INIT;
    options.to = "int4";
    quantize(program, program.graph(), options);
  });
}

/// Returns the names of ONNX operators, without domains and duplicates, as MIGraphX does.
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
