/* SPDX-License-Identifier: Apache-2.0 */
/* The classic program in C: read a model, compile it, give every parameter memory, run, look at the answer. */
#include <migraphx/migraphx.h>
#include <stdio.h>

#define CHECK(call)                                            \
  if ((call) != migraphx_status_success) {                     \
    fprintf(stderr, "%s: %s\n", #call, weft_migraphx_error()); \
    return 1;                                                  \
  }

static int add_parameters(migraphx_program_t program, migraphx_program_parameters_t parameters) {
  migraphx_program_parameter_shapes_t shapes;
  const char* names[8];
  size_t count;
  CHECK(migraphx_program_get_parameter_shapes(&shapes, program));
  CHECK(migraphx_program_parameter_shapes_size(&count, shapes));
  CHECK(migraphx_program_parameter_shapes_names(names, shapes));
  for (size_t i = 0; i < count; ++i) {
    const_migraphx_shape_t shape;
    migraphx_argument_t argument;
    CHECK(migraphx_program_parameter_shapes_get(&shape, shapes, names[i]));
    CHECK(migraphx_argument_generate(&argument, shape, i));
    CHECK(migraphx_program_parameters_add(parameters, names[i], argument));
    CHECK(migraphx_argument_destroy(argument));
  }
  CHECK(migraphx_program_parameter_shapes_destroy(shapes));
  return 0;
}

static int show(migraphx_arguments_t results) {
  const_migraphx_argument_t result;
  const_migraphx_shape_t shape;
  size_t elements;
  char* buffer;
  float sum = 0;
  CHECK(migraphx_arguments_get(&result, results, 0));
  CHECK(migraphx_argument_shape(&shape, result));
  CHECK(migraphx_shape_elements(&elements, shape));
  CHECK(migraphx_argument_buffer(&buffer, result));
  for (size_t i = 0; i < elements; ++i) sum += ((const float*)(void*)buffer)[i];
  printf("%zu classes, sum %.3f\n", elements, sum);
  return 0;
}

int main(int argc, char** argv) {
  migraphx_program_t program;
  migraphx_onnx_options_t onnx;
  migraphx_compile_options_t options;
  migraphx_target_t target;
  migraphx_program_parameters_t parameters;
  migraphx_arguments_t results;
  if (argc != 2) return 2;
  CHECK(migraphx_onnx_options_create(&onnx));
  CHECK(migraphx_parse_onnx(&program, argv[1], onnx));
  CHECK(migraphx_compile_options_create(&options));
  CHECK(migraphx_compile_options_set_offload_copy(options, true));
  CHECK(migraphx_target_create(&target, "gpu"));
  CHECK(migraphx_program_compile(program, target, options));
  CHECK(migraphx_program_parameters_create(&parameters));
  if (add_parameters(program, parameters)) return 1;
  CHECK(migraphx_program_run(&results, program, parameters));
  if (show(results)) return 1;
  CHECK(migraphx_arguments_destroy(results));
  CHECK(migraphx_program_parameters_destroy(parameters));
  CHECK(migraphx_target_destroy(target));
  CHECK(migraphx_compile_options_destroy(options));
  CHECK(migraphx_program_destroy(program));
  CHECK(migraphx_onnx_options_destroy(onnx));
  return 0;
}
