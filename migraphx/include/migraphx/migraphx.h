/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <migraphx/api/export.h>

/*
 * The C interface of MIGraphX 2.16, over Weft: `libmigraphx_c.so.3`. docs/migraphx.md says what each function does
 * here.
 *
 * Rules that hold everywhere:
 * - A call returns a status. The message of an error is printed to standard error; weft_migraphx_error() returns it.
 *   Results are written only on success. No exception leaves a call.
 * - `_create` functions, and functions that write to a `migraphx_..._t*`, make a handle that the caller destroys.
 *   Modules, contexts and everything of type `const_migraphx_..._t` belong to the handle from which they were got.
 * - `_assign_to` makes a copy. Only memory that the caller gave is shared.
 */

/* The element types in the order of their numbers. The second name is the C++ type. */
#define MIGRAPHX_SHAPE_VISIT_TYPES(m)                                                                      \
  m(bool_type, bool) m(half_type, half) m(float_type, float) m(double_type, double) m(uint8_type, uint8_t) \
      m(int8_type, int8_t) m(uint16_type, uint16_t) m(int16_type, int16_t) m(int32_type, int32_t)          \
          m(int64_type, int64_t) m(uint32_type, uint32_t) m(uint64_type, uint64_t)                         \
              m(fp8e4m3fnuz_type, migraphx::fp8::fp8e4m3fnuz) m(fp8e4m3fn_type, migraphx::fp8::fp8e4m3fn)  \
                  m(fp8e5m2_type, migraphx::fp8::fp8e5m2) m(bf16_type, bf16)                               \
                      m(fp8e5m2fnuz_type, migraphx::fp8::fp8e5m2fnuz)

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  migraphx_status_success = 0,
  migraphx_status_bad_param = 1, /* a wrong argument, option or tensor */
  migraphx_status_unknown_target = 3,
  migraphx_status_unknown_error = 4 /* anything else: a model that is invalid or not supported, memory, a device */
} migraphx_status;

typedef enum {
  migraphx_compile_mode_eager = 0,
  migraphx_compile_mode_balanced = 50,
  migraphx_compile_mode_max = 100
} migraphx_compile_mode;

#define MIGRAPHX_SHAPE_GENERATE_ENUM_TYPES(x, t) migraphx_shape_##x,
typedef enum {
  migraphx_shape_tuple_type,
  migraphx_shape_fp4x2_type,
  MIGRAPHX_SHAPE_VISIT_TYPES(MIGRAPHX_SHAPE_GENERATE_ENUM_TYPES)
} migraphx_shape_datatype_t;
#undef MIGRAPHX_SHAPE_GENERATE_ENUM_TYPES

#define MIGRAPHX_BORROWED_HANDLE(name)                 \
  typedef struct migraphx_##name* migraphx_##name##_t; \
  typedef const struct migraphx_##name* const_migraphx_##name##_t;
#define MIGRAPHX_HANDLE(name)                                                               \
  MIGRAPHX_BORROWED_HANDLE(name)                                                            \
  MIGRAPHX_C_EXPORT migraphx_status migraphx_##name##_destroy(migraphx_##name##_t handle);  \
  MIGRAPHX_C_EXPORT migraphx_status migraphx_##name##_assign_to(migraphx_##name##_t output, \
                                                                const_migraphx_##name##_t input);

MIGRAPHX_HANDLE(optimals)
MIGRAPHX_HANDLE(dynamic_dimension)
MIGRAPHX_HANDLE(dynamic_dimensions)
MIGRAPHX_HANDLE(shape)
MIGRAPHX_HANDLE(argument)
MIGRAPHX_HANDLE(target)
MIGRAPHX_HANDLE(program_parameter_shapes)
MIGRAPHX_HANDLE(program_parameters)
MIGRAPHX_HANDLE(arguments)
MIGRAPHX_HANDLE(shapes)
MIGRAPHX_HANDLE(instruction)
MIGRAPHX_HANDLE(instructions)
MIGRAPHX_HANDLE(modules)
MIGRAPHX_BORROWED_HANDLE(module)
MIGRAPHX_HANDLE(trace_info)
MIGRAPHX_HANDLE(program)
MIGRAPHX_HANDLE(operation)
MIGRAPHX_HANDLE(onnx_options)
MIGRAPHX_HANDLE(file_options)
MIGRAPHX_HANDLE(compile_options)
MIGRAPHX_HANDLE(tf_options)
MIGRAPHX_HANDLE(quantize_op_names)
MIGRAPHX_HANDLE(quantize_int8_options)
MIGRAPHX_HANDLE(quantize_fp8_options)
MIGRAPHX_BORROWED_HANDLE(context)
MIGRAPHX_HANDLE(experimental_custom_op)
#undef MIGRAPHX_HANDLE
#undef MIGRAPHX_BORROWED_HANDLE

/* Returns the message of the last error of this thread, which may have several lines; "" if there was none. */
MIGRAPHX_C_EXPORT const char* weft_migraphx_error(void);
/* Turns printing of this thread's errors to standard error on or off. It is on at first, as in MIGraphX. */
MIGRAPHX_C_EXPORT void weft_migraphx_print_errors(bool value);
/* Functions that bindings need and that MIGraphX's interface lacks: a program as text (free it with free()), the name
 * of operator `index` (NULL after the last), the shape of an instruction, and both ends of a range. */
MIGRAPHX_C_EXPORT migraphx_status weft_migraphx_program_text(char** out, const_migraphx_program_t program);
MIGRAPHX_C_EXPORT const char* weft_migraphx_operator(size_t index);
MIGRAPHX_C_EXPORT migraphx_status weft_migraphx_instruction_shape(migraphx_shape_t* out,
                                                                  const_migraphx_instruction_t instruction);
MIGRAPHX_C_EXPORT migraphx_status weft_migraphx_dynamic_dimension_range(size_t* min, size_t* max,
                                                                        const_migraphx_dynamic_dimension_t dimension);

/* ---- Shapes ------------------------------------------------------------------------------------------------------
 * Lengths and strides are in elements. The length of a range is its greatest size. The shape of `_create_scalar` has
 * one axis of length 1 and stride 0, as in MIGraphX; parameters and outputs of rank 0 have no axes. Returned lists are
 * valid as long as the shape. */

/* The sizes of a range for which a program should be fast. */
MIGRAPHX_C_EXPORT migraphx_status migraphx_optimals_create(migraphx_optimals_t* optimals, const size_t* ptr,
                                                           size_t size);

MIGRAPHX_C_EXPORT migraphx_status migraphx_dynamic_dimension_create_min_max(migraphx_dynamic_dimension_t* dimension,
                                                                            size_t min, size_t max);
MIGRAPHX_C_EXPORT migraphx_status migraphx_dynamic_dimension_create_min_max_optimals(
    migraphx_dynamic_dimension_t* dimension, size_t min, size_t max, migraphx_optimals_t optimals);
MIGRAPHX_C_EXPORT migraphx_status migraphx_dynamic_dimension_is_fixed(bool* out,
                                                                      const_migraphx_dynamic_dimension_t dimension);
MIGRAPHX_C_EXPORT migraphx_status migraphx_dynamic_dimension_equal(bool* out,
                                                                   const_migraphx_dynamic_dimension_t dimension,
                                                                   const_migraphx_dynamic_dimension_t x);
MIGRAPHX_C_EXPORT migraphx_status migraphx_dynamic_dimensions_create(migraphx_dynamic_dimensions_t* dimensions,
                                                                     const const_migraphx_dynamic_dimension_t* ptr,
                                                                     size_t size);
MIGRAPHX_C_EXPORT migraphx_status migraphx_dynamic_dimensions_size(size_t* out,
                                                                   migraphx_dynamic_dimensions_t dimensions);
MIGRAPHX_C_EXPORT migraphx_status migraphx_dynamic_dimensions_get(const_migraphx_dynamic_dimension_t* out,
                                                                  migraphx_dynamic_dimensions_t dimensions, size_t idx);

MIGRAPHX_C_EXPORT migraphx_status migraphx_shape_create(migraphx_shape_t* shape, migraphx_shape_datatype_t type,
                                                        size_t* lengths, size_t lengths_size);
MIGRAPHX_C_EXPORT migraphx_status migraphx_shape_create_with_strides(migraphx_shape_t* shape,
                                                                     migraphx_shape_datatype_t type, size_t* lengths,
                                                                     size_t lengths_size, size_t* strides,
                                                                     size_t strides_size);
MIGRAPHX_C_EXPORT migraphx_status migraphx_shape_create_scalar(migraphx_shape_t* shape, migraphx_shape_datatype_t type);
MIGRAPHX_C_EXPORT migraphx_status migraphx_shape_create_dynamic(migraphx_shape_t* shape, migraphx_shape_datatype_t type,
                                                                migraphx_dynamic_dimensions_t dims);
MIGRAPHX_C_EXPORT migraphx_status migraphx_shape_lengths(const size_t** out, size_t* out_size,
                                                         const_migraphx_shape_t shape);
MIGRAPHX_C_EXPORT migraphx_status migraphx_shape_strides(const size_t** out, size_t* out_size,
                                                         const_migraphx_shape_t shape);
MIGRAPHX_C_EXPORT migraphx_status migraphx_shape_dyn_dims(migraphx_dynamic_dimensions_t* out,
                                                          const_migraphx_shape_t shape);
MIGRAPHX_C_EXPORT migraphx_status migraphx_shape_type(migraphx_shape_datatype_t* out, const_migraphx_shape_t shape);
MIGRAPHX_C_EXPORT migraphx_status migraphx_shape_elements(size_t* out, const_migraphx_shape_t shape);
MIGRAPHX_C_EXPORT migraphx_status migraphx_shape_bytes(size_t* out, const_migraphx_shape_t shape);
MIGRAPHX_C_EXPORT migraphx_status migraphx_shape_ndim(size_t* out, const_migraphx_shape_t shape);
MIGRAPHX_C_EXPORT migraphx_status migraphx_shape_equal(bool* out, const_migraphx_shape_t shape,
                                                       const_migraphx_shape_t x);
MIGRAPHX_C_EXPORT migraphx_status migraphx_shape_standard(bool* out, const_migraphx_shape_t shape);
MIGRAPHX_C_EXPORT migraphx_status migraphx_shape_dynamic(bool* out, const_migraphx_shape_t shape);
/* Returns the offset, in elements, of element `i` in row-major order. */
MIGRAPHX_C_EXPORT migraphx_status migraphx_shape_index(size_t* out, const_migraphx_shape_t shape, size_t i);

/* ---- Arguments: a shape and memory ------------------------------------------------------------------------------- */

/* Makes an argument that views `buffer`. The buffer must outlive the argument. */
MIGRAPHX_C_EXPORT migraphx_status migraphx_argument_create(migraphx_argument_t* argument, const_migraphx_shape_t shape,
                                                           void* buffer);
/* Makes an argument with its own memory, filled with zeros. */
MIGRAPHX_C_EXPORT migraphx_status migraphx_argument_create_empty(migraphx_argument_t* argument,
                                                                 const_migraphx_shape_t shape);
MIGRAPHX_C_EXPORT migraphx_status migraphx_argument_shape(const_migraphx_shape_t* out,
                                                          const_migraphx_argument_t argument);
MIGRAPHX_C_EXPORT migraphx_status migraphx_argument_buffer(char** out, const_migraphx_argument_t argument);
MIGRAPHX_C_EXPORT migraphx_status migraphx_argument_equal(bool* out, const_migraphx_argument_t argument,
                                                          const_migraphx_argument_t x);
/* Writes an .npy file atomically. */
MIGRAPHX_C_EXPORT migraphx_status migraphx_argument_save(const_migraphx_argument_t a, const char* filename);
MIGRAPHX_C_EXPORT migraphx_status migraphx_argument_load(migraphx_argument_t* out, const char* filename);
/* Makes an argument with pseudo-random numbers, which depend only on the shape and the seed. */
MIGRAPHX_C_EXPORT migraphx_status migraphx_argument_generate(migraphx_argument_t* out, const_migraphx_shape_t s,
                                                             size_t seed);

/* ---- Targets, and lists ------------------------------------------------------------------------------------------ */

/* `name` is "gpu", "cpu" or "ref"; any other name returns migraphx_status_unknown_target. */
MIGRAPHX_C_EXPORT migraphx_status migraphx_target_create(migraphx_target_t* target, const char* name);

MIGRAPHX_C_EXPORT migraphx_status
migraphx_program_parameter_shapes_size(size_t* out, migraphx_program_parameter_shapes_t program_parameter_shapes);
MIGRAPHX_C_EXPORT migraphx_status migraphx_program_parameter_shapes_get(
    const_migraphx_shape_t* out, migraphx_program_parameter_shapes_t program_parameter_shapes, const char* name);
/* Writes all names to `out`, an array with room for as many names as there are shapes. */
MIGRAPHX_C_EXPORT migraphx_status
migraphx_program_parameter_shapes_names(const char** out, migraphx_program_parameter_shapes_t program_parameter_shapes);

MIGRAPHX_C_EXPORT migraphx_status migraphx_program_parameters_create(migraphx_program_parameters_t* program_parameters);
MIGRAPHX_C_EXPORT migraphx_status migraphx_program_parameters_add(migraphx_program_parameters_t program_parameters,
                                                                  const char* name, const_migraphx_argument_t argument);

MIGRAPHX_C_EXPORT migraphx_status migraphx_arguments_size(size_t* out, migraphx_arguments_t arguments);
MIGRAPHX_C_EXPORT migraphx_status migraphx_arguments_get(const_migraphx_argument_t* out, migraphx_arguments_t arguments,
                                                         size_t idx);
MIGRAPHX_C_EXPORT migraphx_status migraphx_shapes_size(size_t* out, migraphx_shapes_t shapes);
MIGRAPHX_C_EXPORT migraphx_status migraphx_shapes_get(const_migraphx_shape_t* out, migraphx_shapes_t shapes,
                                                      size_t idx);

/* ---- Building a program ------------------------------------------------------------------------------------------
 * Adding an instruction computes its shape; an invalid instruction is an error. */

MIGRAPHX_C_EXPORT migraphx_status migraphx_instructions_create(migraphx_instructions_t* instructions,
                                                               const const_migraphx_instruction_t* ptr, size_t size);
MIGRAPHX_C_EXPORT migraphx_status migraphx_modules_create(migraphx_modules_t* modules, migraphx_module_t* ptr,
                                                          size_t size);
/* Makes a module that belongs to no program. No call destroys it, so it exists until the process ends. */
MIGRAPHX_C_EXPORT migraphx_status migraphx_module_create(migraphx_module_t* module, char* name);
MIGRAPHX_C_EXPORT migraphx_status migraphx_module_print(const_migraphx_module_t module);
MIGRAPHX_C_EXPORT migraphx_status migraphx_module_add_instruction(migraphx_instruction_t* out, migraphx_module_t module,
                                                                  migraphx_operation_t op,
                                                                  migraphx_instructions_t args);
MIGRAPHX_C_EXPORT migraphx_status migraphx_module_add_instruction_with_mod_args(migraphx_instruction_t* out,
                                                                                migraphx_module_t module,
                                                                                migraphx_operation_t op,
                                                                                migraphx_instructions_t args,
                                                                                migraphx_modules_t module_refs);
/* Adds a constant with a copy of the buffer. */
MIGRAPHX_C_EXPORT migraphx_status migraphx_module_add_literal(migraphx_instruction_t* out, migraphx_module_t module,
                                                              const_migraphx_shape_t shape, const char* buffer);
MIGRAPHX_C_EXPORT migraphx_status migraphx_module_add_parameter(migraphx_instruction_t* out, migraphx_module_t module,
                                                                const char* name, const_migraphx_shape_t shape);
MIGRAPHX_C_EXPORT migraphx_status migraphx_module_add_return(migraphx_instruction_t* out, migraphx_module_t module,
                                                             migraphx_instructions_t args);
MIGRAPHX_C_EXPORT migraphx_status migraphx_module_add_allocation(migraphx_instruction_t* out, migraphx_module_t module,
                                                                 const_migraphx_shape_t s);

/* `attributes` is JSON, in which words need no quotes: "{axis: 1}". It is a format of printf for the arguments that
 * follow. NULL: no attributes. */
MIGRAPHX_C_EXPORT migraphx_status migraphx_operation_create(migraphx_operation_t* operation, const char* name,
                                                            const char* attributes, ...);
MIGRAPHX_C_EXPORT migraphx_status migraphx_operation_name(char* out, size_t out_size, migraphx_operation_t operation);

/* ---- Programs ---------------------------------------------------------------------------------------------------- */

MIGRAPHX_C_EXPORT migraphx_status migraphx_program_create(migraphx_program_t* program);
MIGRAPHX_C_EXPORT migraphx_status migraphx_program_get_main_module(migraphx_module_t* out, migraphx_program_t program);
MIGRAPHX_C_EXPORT migraphx_status migraphx_program_create_module(migraphx_module_t* out, migraphx_program_t program,
                                                                 const char* name);
MIGRAPHX_C_EXPORT migraphx_status migraphx_program_compile(migraphx_program_t program, migraphx_target_t target,
                                                           migraphx_compile_options_t options);
MIGRAPHX_C_EXPORT migraphx_status migraphx_program_get_parameter_shapes(migraphx_program_parameter_shapes_t* out,
                                                                        migraphx_program_t program);
MIGRAPHX_C_EXPORT migraphx_status migraphx_program_get_output_shapes(migraphx_shapes_t* out,
                                                                     migraphx_program_t program);
MIGRAPHX_C_EXPORT migraphx_status migraphx_program_print(const_migraphx_program_t program);
MIGRAPHX_C_EXPORT migraphx_status migraphx_program_sort(migraphx_program_t program);
/* Any number of threads may run a program at once. */
MIGRAPHX_C_EXPORT migraphx_status migraphx_program_run(migraphx_arguments_t* out, migraphx_program_t program,
                                                       migraphx_program_parameters_t params);
MIGRAPHX_C_EXPORT migraphx_status migraphx_program_run_async(migraphx_arguments_t* out, migraphx_program_t program,
                                                             migraphx_program_parameters_t params, void* s,
                                                             const char* name);
typedef migraphx_status (*migraphx_trace_callback_t)(migraphx_trace_info_t info, void* data);
MIGRAPHX_C_EXPORT migraphx_status migraphx_program_run_trace(migraphx_arguments_t* out, migraphx_program_t program,
                                                             migraphx_program_parameters_t params,
                                                             migraphx_trace_callback_t callback, void* data);
MIGRAPHX_C_EXPORT migraphx_status migraphx_program_equal(bool* out, const_migraphx_program_t program,
                                                         const_migraphx_program_t x);
MIGRAPHX_C_EXPORT migraphx_status migraphx_program_experimental_get_context(migraphx_context_t* out,
                                                                            const_migraphx_program_t program);
MIGRAPHX_C_EXPORT migraphx_status migraphx_context_finish(const_migraphx_context_t context);
MIGRAPHX_C_EXPORT migraphx_status migraphx_context_get_queue(void** out, migraphx_context_t context);

MIGRAPHX_C_EXPORT migraphx_status migraphx_trace_info_create(migraphx_trace_info_t* trace_info);
MIGRAPHX_C_EXPORT migraphx_status migraphx_trace_info_get_index(size_t* out, const_migraphx_trace_info_t trace_info);
MIGRAPHX_C_EXPORT migraphx_status migraphx_trace_info_get_name(const char** out,
                                                               const_migraphx_trace_info_t trace_info);
MIGRAPHX_C_EXPORT migraphx_status migraphx_trace_info_get_result(const_migraphx_argument_t* out,
                                                                 const_migraphx_trace_info_t trace_info);

/* ---- Files ------------------------------------------------------------------------------------------------------- */

/* Files have Weft's format (docs/saved_programs.md), whatever their extension is. */
MIGRAPHX_C_EXPORT migraphx_status migraphx_load(migraphx_program_t* out, const char* name,
                                                migraphx_file_options_t options);
MIGRAPHX_C_EXPORT migraphx_status migraphx_save(migraphx_program_t p, const char* name,
                                                migraphx_file_options_t options);
MIGRAPHX_C_EXPORT migraphx_status migraphx_file_options_create(migraphx_file_options_t* file_options);
MIGRAPHX_C_EXPORT migraphx_status migraphx_file_options_set_file_format(migraphx_file_options_t file_options,
                                                                        const char* format);

MIGRAPHX_C_EXPORT migraphx_status migraphx_onnx_options_create(migraphx_onnx_options_t* onnx_options);
MIGRAPHX_C_EXPORT migraphx_status migraphx_onnx_options_set_input_parameter_shape(migraphx_onnx_options_t onnx_options,
                                                                                  const char* name, size_t* dims,
                                                                                  size_t dims_size);
MIGRAPHX_C_EXPORT migraphx_status migraphx_onnx_options_set_dyn_input_parameter_shape(
    migraphx_onnx_options_t onnx_options, const char* name, migraphx_dynamic_dimensions_t dims);
MIGRAPHX_C_EXPORT migraphx_status migraphx_onnx_options_set_default_dim_value(migraphx_onnx_options_t onnx_options,
                                                                              size_t value);
MIGRAPHX_C_EXPORT migraphx_status migraphx_onnx_options_set_default_dyn_dim_value(
    migraphx_onnx_options_t onnx_options, const_migraphx_dynamic_dimension_t dd);
MIGRAPHX_C_EXPORT migraphx_status
migraphx_onnx_options_set_default_loop_iterations(migraphx_onnx_options_t onnx_options, int64_t value);
MIGRAPHX_C_EXPORT migraphx_status migraphx_onnx_options_set_limit_loop_iterations(migraphx_onnx_options_t onnx_options,
                                                                                  int64_t value);
MIGRAPHX_C_EXPORT migraphx_status migraphx_onnx_options_set_external_data_path(migraphx_onnx_options_t onnx_options,
                                                                               const char* external_data_path);
MIGRAPHX_C_EXPORT migraphx_status migraphx_onnx_options_set_use_debug_symbols(migraphx_onnx_options_t onnx_options,
                                                                              bool value);
MIGRAPHX_C_EXPORT migraphx_status migraphx_parse_onnx(migraphx_program_t* out, const char* name,
                                                      migraphx_onnx_options_t options);
/* Reads a model from a copy of the bytes. */
MIGRAPHX_C_EXPORT migraphx_status migraphx_parse_onnx_buffer(migraphx_program_t* out, const void* data, size_t size,
                                                             migraphx_onnx_options_t options);
MIGRAPHX_C_EXPORT migraphx_status migraphx_get_onnx_operator_name_at_index(char** out, size_t index);
MIGRAPHX_C_EXPORT migraphx_status migraphx_get_onnx_operators_size(size_t* out);

MIGRAPHX_C_EXPORT migraphx_status migraphx_tf_options_create(migraphx_tf_options_t* tf_options);
MIGRAPHX_C_EXPORT migraphx_status migraphx_tf_options_set_nhwc(migraphx_tf_options_t tf_options, bool is_nhwc);
MIGRAPHX_C_EXPORT migraphx_status migraphx_tf_options_set_input_parameter_shape(migraphx_tf_options_t tf_options,
                                                                                const char* name, size_t* dims,
                                                                                size_t dims_size);
MIGRAPHX_C_EXPORT migraphx_status migraphx_tf_options_set_default_dim_value(migraphx_tf_options_t tf_options,
                                                                            size_t value);
MIGRAPHX_C_EXPORT migraphx_status migraphx_tf_options_set_output_names(migraphx_tf_options_t tf_options,
                                                                       const char** names, size_t names_size);
MIGRAPHX_C_EXPORT migraphx_status migraphx_parse_tf(migraphx_program_t* out, const char* name,
                                                    migraphx_tf_options_t options);
MIGRAPHX_C_EXPORT migraphx_status migraphx_parse_tf_buffer(migraphx_program_t* out, const void* data, size_t size,
                                                           migraphx_tf_options_t options);

/* ---- Compiling, precision ---------------------------------------------------------------------------------------- */

MIGRAPHX_C_EXPORT migraphx_status migraphx_compile_options_create(migraphx_compile_options_t* compile_options);
MIGRAPHX_C_EXPORT migraphx_status migraphx_compile_options_set_offload_copy(migraphx_compile_options_t compile_options,
                                                                            bool value);
MIGRAPHX_C_EXPORT migraphx_status migraphx_compile_options_set_fast_math(migraphx_compile_options_t compile_options,
                                                                         bool value);
MIGRAPHX_C_EXPORT migraphx_status
migraphx_compile_options_set_exhaustive_tune_flag(migraphx_compile_options_t compile_options, bool value);

MIGRAPHX_C_EXPORT migraphx_status migraphx_quantize_op_names_create(migraphx_quantize_op_names_t* quantize_op_names);
MIGRAPHX_C_EXPORT migraphx_status migraphx_quantize_op_names_add(migraphx_quantize_op_names_t quantize_op_names,
                                                                 const char* name);
MIGRAPHX_C_EXPORT migraphx_status migraphx_quantize_fp16_with_op_names(migraphx_program_t prog,
                                                                       migraphx_quantize_op_names_t name);
MIGRAPHX_C_EXPORT migraphx_status migraphx_quantize_fp16(migraphx_program_t prog);
MIGRAPHX_C_EXPORT migraphx_status migraphx_quantize_bf16_with_op_names(migraphx_program_t prog,
                                                                       migraphx_quantize_op_names_t name);
MIGRAPHX_C_EXPORT migraphx_status migraphx_quantize_bf16(migraphx_program_t prog);

MIGRAPHX_C_EXPORT migraphx_status migraphx_quantize_int8_options_create(migraphx_quantize_int8_options_t* options);
MIGRAPHX_C_EXPORT migraphx_status migraphx_quantize_int8_options_add_op_name(migraphx_quantize_int8_options_t options,
                                                                             const char* name);
/* Adds an example of the inputs. The memory of the arguments is not copied. */
MIGRAPHX_C_EXPORT migraphx_status migraphx_quantize_int8_options_add_calibration_data(
    migraphx_quantize_int8_options_t options, migraphx_program_parameters_t data);
MIGRAPHX_C_EXPORT migraphx_status migraphx_quantize_int8(migraphx_program_t prog, migraphx_target_t target,
                                                         migraphx_quantize_int8_options_t options);
MIGRAPHX_C_EXPORT migraphx_status migraphx_quantize_fp8_options_create(migraphx_quantize_fp8_options_t* options);
MIGRAPHX_C_EXPORT migraphx_status migraphx_quantize_fp8_options_add_calibration_data(
    migraphx_quantize_fp8_options_t options, migraphx_program_parameters_t data);
MIGRAPHX_C_EXPORT migraphx_status migraphx_quantize_fp8(migraphx_program_t prog, migraphx_target_t target,
                                                        migraphx_quantize_fp8_options_t options);
/* Rounds weights of products to 4 bits, in blocks of 32. Needs no calibration data. */
MIGRAPHX_C_EXPORT migraphx_status migraphx_quantize_int4_weights(migraphx_program_t prog);

/* ---- Operators of the caller's -----------------------------------------------------------------------------------
 * A function that fails writes its reason to `exception_msg`. */

typedef migraphx_status (*migraphx_experimental_custom_op_compute)(migraphx_argument_t out, void* obj,
                                                                   char* exception_msg, size_t exception_msg_size,
                                                                   migraphx_context_t ctx, migraphx_shape_t output,
                                                                   migraphx_arguments_t inputs);
typedef migraphx_status (*migraphx_experimental_custom_op_compute_shape)(migraphx_shape_t out, void* obj,
                                                                         char* exception_msg, size_t exception_msg_size,
                                                                         migraphx_shapes_t inputs);
typedef migraphx_status (*migraphx_experimental_custom_op_output_alias)(size_t* out, size_t* out_size, void* obj,
                                                                        char* exception_msg, size_t exception_msg_size,
                                                                        migraphx_shapes_t inputs);
typedef migraphx_status (*migraphx_experimental_custom_op_runs_on_offload_target)(bool* out, void* obj,
                                                                                  char* exception_msg,
                                                                                  size_t exception_msg_size);
typedef migraphx_status (*migraphx_experimental_custom_op_copy)(void** out, void* input);
typedef migraphx_status (*migraphx_experimental_custom_op_delete)(void* input);

MIGRAPHX_C_EXPORT migraphx_status migraphx_experimental_custom_op_create(migraphx_experimental_custom_op_t* op,
                                                                         void* obj,
                                                                         migraphx_experimental_custom_op_copy c,
                                                                         migraphx_experimental_custom_op_delete d,
                                                                         const char* obj_typename, const char* name);
MIGRAPHX_C_EXPORT migraphx_status migraphx_experimental_custom_op_set_compute(
    migraphx_experimental_custom_op_t obj, migraphx_experimental_custom_op_compute input);
MIGRAPHX_C_EXPORT migraphx_status migraphx_experimental_custom_op_set_compute_shape(
    migraphx_experimental_custom_op_t obj, migraphx_experimental_custom_op_compute_shape input);
MIGRAPHX_C_EXPORT migraphx_status migraphx_experimental_custom_op_set_output_alias(
    migraphx_experimental_custom_op_t obj, migraphx_experimental_custom_op_output_alias input);
MIGRAPHX_C_EXPORT migraphx_status migraphx_experimental_custom_op_set_runs_on_offload_target(
    migraphx_experimental_custom_op_t obj, migraphx_experimental_custom_op_runs_on_offload_target input);
MIGRAPHX_C_EXPORT migraphx_status migraphx_experimental_custom_op_register(migraphx_experimental_custom_op_t op);

#ifdef __cplusplus
}
#endif
