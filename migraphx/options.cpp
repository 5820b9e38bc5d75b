// SPDX-License-Identifier: Apache-2.0
// The handles that hold options and lists.
#include <algorithm>

#include "migraphx/handles.h"

using namespace weft::mgx;

WEFT_MGX_HANDLE(target)
WEFT_MGX_HANDLE(program_parameter_shapes)
WEFT_MGX_HANDLE(program_parameters)
WEFT_MGX_HANDLE(shapes)
WEFT_MGX_HANDLE(onnx_options)
WEFT_MGX_HANDLE(file_options)
WEFT_MGX_HANDLE(compile_options)
WEFT_MGX_HANDLE(tf_options)
WEFT_MGX_HANDLE(quantize_op_names)
WEFT_MGX_HANDLE(quantize_int8_options)
WEFT_MGX_HANDLE(quantize_fp8_options)
WEFT_MGX_CREATE(program_parameters)
WEFT_MGX_CREATE(onnx_options)
WEFT_MGX_CREATE(file_options)
WEFT_MGX_CREATE(compile_options)
WEFT_MGX_CREATE(tf_options)
WEFT_MGX_CREATE(quantize_op_names)
WEFT_MGX_CREATE(quantize_int8_options)
WEFT_MGX_CREATE(quantize_fp8_options)

migraphx_status migraphx_target_create(migraphx_target_t* target, const char* name) {
  return guarded([&] {
    std::string wanted = &given(name);
    if (wanted != "gpu" && wanted != "cpu" && wanted != "ref")
      throw UnknownTarget(WEFT_UNSUPPORTED, "E501", "there is no target '" + wanted + "'",
                          "the targets are gpu, cpu, ref");
    give(target, migraphx_target{wanted});
  });
}

migraphx_status migraphx_program_parameter_shapes_size(size_t* out, migraphx_program_parameter_shapes_t shapes) {
  return guarded([&] { given(out) = given(shapes).list.size(); });
}

migraphx_status migraphx_program_parameter_shapes_get(const_migraphx_shape_t* out,
                                                      migraphx_program_parameter_shapes_t shapes, const char* name) {
  return guarded([&] {
    std::string wanted = &given(name);
    auto found = std::ranges::find(given(shapes).list, wanted, [](const auto& entry) { return entry.first; });
    if (found == shapes->list.end()) refuse("there is no parameter '" + wanted + "'");
    given(out) = &found->second;
  });
}

migraphx_status migraphx_program_parameter_shapes_names(const char** out, migraphx_program_parameter_shapes_t shapes) {
  return guarded([&] {
    for (const auto& [name, shape] : given(shapes).list) given(out) = name.c_str(), ++out;
  });
}

migraphx_status migraphx_program_parameters_add(migraphx_program_parameters_t program_parameters, const char* name,
                                                const_migraphx_argument_t argument) {
  return guarded([&] { given(program_parameters).map[&given(name)] = given(argument); });
}

migraphx_status migraphx_shapes_size(size_t* out, migraphx_shapes_t shapes) {
  return guarded([&] { given(out) = given(shapes).list.size(); });
}
migraphx_status migraphx_shapes_get(const_migraphx_shape_t* out, migraphx_shapes_t shapes, size_t idx) {
  return guarded([&] { given(out) = &item(given(shapes).list, idx); });
}

// --- reading models ------------------------------------------------------------------------------------------------

migraphx_status migraphx_onnx_options_set_input_parameter_shape(migraphx_onnx_options_t onnx_options, const char* name,
                                                                size_t* dims, size_t dims_size) {
  return guarded([&] {
    if (dims_size > 0) given(dims);
    given(onnx_options).lengths[&given(name)] = {dims, dims + dims_size};
  });
}
migraphx_status migraphx_onnx_options_set_dyn_input_parameter_shape(migraphx_onnx_options_t onnx_options,
                                                                    const char* name,
                                                                    migraphx_dynamic_dimensions_t dims) {
  return guarded([&] { given(onnx_options).ranges[&given(name)] = given(dims).list; });
}
migraphx_status migraphx_onnx_options_set_default_dim_value(migraphx_onnx_options_t onnx_options, size_t value) {
  return guarded([&] {
    if (given(onnx_options).default_range) refuse("a default size and a default range are both given");
    onnx_options->default_length = value;
  });
}
migraphx_status migraphx_onnx_options_set_default_dyn_dim_value(migraphx_onnx_options_t onnx_options,
                                                                const_migraphx_dynamic_dimension_t dd) {
  return guarded([&] {
    if (given(onnx_options).default_length != 1) refuse("a default size and a default range are both given");
    onnx_options->default_range = given(dd);
  });
}
/// Has no effect: the model and its inputs decide the trip count of a loop.
migraphx_status migraphx_onnx_options_set_default_loop_iterations(migraphx_onnx_options_t onnx_options, int64_t) {
  return guarded([&] {
    given(onnx_options);
    warn("default_loop_iterations changes nothing: a loop makes as many trips as the model says");
  });
}
migraphx_status migraphx_onnx_options_set_limit_loop_iterations(migraphx_onnx_options_t onnx_options, int64_t) {
  return guarded([&] {
    given(onnx_options);
    warn("limit_loop_iterations changes nothing: a loop makes as many trips as the model says");
  });
}
migraphx_status migraphx_onnx_options_set_external_data_path(migraphx_onnx_options_t onnx_options,
                                                             const char* external_data_path) {
  return guarded([&] { given(onnx_options).folder = &given(external_data_path); });
}
/// Has no effect: the names of nodes are always kept.
migraphx_status migraphx_onnx_options_set_use_debug_symbols(migraphx_onnx_options_t onnx_options, bool) {
  return guarded([&] { given(onnx_options); });
}

migraphx_status migraphx_file_options_set_file_format(migraphx_file_options_t file_options, const char* format) {
  return guarded([&] {
    std::string wanted = &given(format);
    if (wanted != "msgpack")
      not_supported("programs are not saved as '" + wanted + "'", "a saved program is binary; 'msgpack' names that");
    given(file_options).format = wanted;
  });
}

// --- compiling -----------------------------------------------------------------------------------------------------

migraphx_status migraphx_compile_options_set_offload_copy(migraphx_compile_options_t compile_options, bool value) {
  return guarded([&] { given(compile_options).offload_copy = value; });
}
/// Has no effect: Weft has no fast-math variants of its functions.
migraphx_status migraphx_compile_options_set_fast_math(migraphx_compile_options_t compile_options, bool) {
  return guarded([&] { given(compile_options); });
}
migraphx_status migraphx_compile_options_set_exhaustive_tune_flag(migraphx_compile_options_t compile_options,
                                                                  bool value) {
  return guarded([&] { given(compile_options).exhaustive_tune = value; });
}

migraphx_status migraphx_quantize_op_names_add(migraphx_quantize_op_names_t quantize_op_names, const char* name) {
  return guarded([&] { given(quantize_op_names).list.emplace_back(&given(name)); });
}
migraphx_status migraphx_quantize_int8_options_add_op_name(migraphx_quantize_int8_options_t options, const char* name) {
  return guarded([&] { given(options).operators.emplace_back(&given(name)); });
}
migraphx_status migraphx_quantize_int8_options_add_calibration_data(migraphx_quantize_int8_options_t options,
                                                                    migraphx_program_parameters_t data) {
  return guarded([&] { given(options).samples.push_back(given(data)); });
}
migraphx_status migraphx_quantize_fp8_options_add_calibration_data(migraphx_quantize_fp8_options_t options,
                                                                   migraphx_program_parameters_t data) {
  return guarded([&] { given(options).samples.push_back(given(data)); });
}

// --- TensorFlow ----------------------------------------------------------------------------------------------------

migraphx_status migraphx_tf_options_set_nhwc(migraphx_tf_options_t tf_options, bool is_nhwc) {
  return guarded([&] { given(tf_options).is_nhwc = is_nhwc; });
}
migraphx_status migraphx_tf_options_set_input_parameter_shape(migraphx_tf_options_t tf_options, const char* name,
                                                              size_t* dims, size_t dims_size) {
  return guarded([&] {
    if (dims_size) given(dims);
    given(tf_options).lengths[&given(name)] = {dims, dims + dims_size};
  });
}
migraphx_status migraphx_tf_options_set_default_dim_value(migraphx_tf_options_t tf_options, size_t value) {
  return guarded([&] { given(tf_options).default_length = value; });
}
migraphx_status migraphx_tf_options_set_output_names(migraphx_tf_options_t tf_options, const char** names,
                                                     size_t names_size) {
  return guarded([&] {
    given(tf_options);
    for (size_t i = 0; i < names_size; ++i) tf_options->outputs.emplace_back(&given(given(names + i)));
  });
}
