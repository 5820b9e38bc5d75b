// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <migraphx/migraphx.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "weft/weft.hpp"

/// The objects behind the opaque handles of migraphx.h, and the functions that turn exceptions into statuses. Programs
/// are in program.h, modules in builder.h.

struct migraphx_optimals {
  std::set<size_t> values = {};
};

struct migraphx_dynamic_dimension {
  size_t min = 0, max = 0;
  std::set<size_t> optimals = {};
  bool operator==(const migraphx_dynamic_dimension&) const = default;
};

struct migraphx_dynamic_dimensions {
  std::vector<migraphx_dynamic_dimension> list = {};
};

/// The type and sizes of an argument. A static shape has lengths and strides, in elements. A dynamic shape has a range
/// for each axis; its lengths are the upper ends of the ranges.
struct migraphx_shape {
  migraphx_shape_datatype_t type = migraphx_shape_float_type;
  std::vector<size_t> lengths = {}, strides = {};
  std::vector<migraphx_dynamic_dimension> dynamic = {};
  bool operator==(const migraphx_shape&) const = default;

  bool is_dynamic() const { return !dynamic.empty(); }
  size_t rank() const { return is_dynamic() ? dynamic.size() : lengths.size(); }
  size_t elements() const;  ///< for a dynamic shape, the largest number
  size_t bytes() const;     ///< including gaps between rows
  bool is_standard() const;
  size_t index(size_t element) const;  ///< offset, in elements, of an element in row-major order
};

struct migraphx_argument {
  migraphx_shape shape = {};
  std::shared_ptr<void> memory = {};
  char* data() const { return static_cast<char*>(memory.get()); }
};

struct migraphx_target {
  std::string name = {};
};

struct migraphx_program_parameter_shapes {
  std::vector<std::pair<std::string, migraphx_shape>> list = {};  ///< in the order of the program
};
struct migraphx_program_parameters {
  std::map<std::string, migraphx_argument, std::less<>> map = {};
};
struct migraphx_arguments {
  std::vector<migraphx_argument> list = {};
};
struct migraphx_shapes {
  std::vector<migraphx_shape> list = {};
};

struct migraphx_trace_info {
  size_t index = 0;
  std::string name = {};
  migraphx_argument result = {};
};

struct migraphx_operation {
  std::string name = {}, attributes = {};  ///< `attributes` is JSON
};

struct migraphx_onnx_options {
  std::map<std::string, std::vector<size_t>> lengths = {};
  std::map<std::string, std::vector<migraphx_dynamic_dimension>> ranges = {};
  size_t default_length = 1;
  std::optional<migraphx_dynamic_dimension> default_range = {};
  std::string folder = {};
};

struct migraphx_file_options {
  std::string format = "msgpack";
};
struct migraphx_compile_options {
  bool offload_copy = false, exhaustive_tune = false;
};
struct migraphx_tf_options {
  bool is_nhwc = false;  ///< if set, parameters and results with 4 axes are converted to channels first
  std::map<std::string, std::vector<size_t>> lengths = {};
  size_t default_length = 1;
  std::vector<std::string> outputs = {};
};
struct migraphx_quantize_op_names {
  std::vector<std::string> list = {};
};
struct migraphx_quantize_int8_options {
  std::vector<std::string> operators = {};
  std::vector<migraphx_program_parameters> samples = {};
};
struct migraphx_quantize_fp8_options {
  std::vector<migraphx_program_parameters> samples = {};
};

namespace weft::mgx {

/// The error for an unknown target; its status code is migraphx_status_unknown_target.
struct UnknownTarget : Error {
  using Error::Error;
};

[[noreturn]] void refuse(const std::string& what, const std::string& hint = {});         ///< E210, a bad parameter
[[noreturn]] void not_supported(const std::string& what, const std::string& hint = {});  ///< E218

/// Prints a warning; the same text is printed only once per process.
void warn(const std::string& what);

/// Returns the status for the current exception. Stores the exception's message, and prints it unless this thread
/// called weft_migraphx_print_errors(false).
migraphx_status status_of_current_exception() noexcept;

/// Runs `body` and turns exceptions into a status.
template <class Body>
migraphx_status guarded(const Body& body) noexcept {
  try {
    body();
    return migraphx_status_success;
  } catch (...) {
    return status_of_current_exception();
  }
}

/// Returns the object behind a pointer of the caller; throws for a null pointer.
template <class T>
T& given(T* pointer) {
  if (!pointer) refuse("a required pointer is NULL");
  return *pointer;
}

/// Stores a new object with this value in *out; the caller owns it.
template <class T>
void give(T** out, T value) {
  given(out);
  *out = new T(std::move(value));
}

template <class T>
const T& item(const std::vector<T>& list, size_t index) {
  if (index >= list.size())
    refuse("there is no item " + std::to_string(index) + ", only " + std::to_string(list.size()));
  return list[index];
}

migraphx_shape make_shape(migraphx_shape_datatype_t type, std::vector<size_t> lengths);
/// Throws for a dynamic shape, because its elements have no fixed offsets.
void check_fixed(const migraphx_shape& shape);
/// Makes an argument that owns its memory, filled with zeros.
migraphx_argument make_argument(migraphx_shape shape);
/// Converts element types in both directions; throws for tuples and for types that only one library has.
weft_dtype dtype_of(migraphx_shape_datatype_t type);
migraphx_shape_datatype_t type_of(weft_dtype type);
/// Returns text such as "float[1, 3, 224, 224]".
std::string to_string(const migraphx_shape& shape);
std::string name_of(migraphx_shape_datatype_t type);

}  // namespace weft::mgx

/// Defines the functions `destroy` and `assign_to` of a handle.
#define WEFT_MGX_HANDLE(name)                                                                                \
  migraphx_status migraphx_##name##_destroy(migraphx_##name##_t handle) {                                    \
    return weft::mgx::guarded([&] { delete handle; });                                                       \
  }                                                                                                          \
  migraphx_status migraphx_##name##_assign_to(migraphx_##name##_t output, const_migraphx_##name##_t input) { \
    return weft::mgx::guarded([&] { weft::mgx::given(output) = weft::mgx::given(input); });                  \
  }
/// Defines the function that creates an empty object.
#define WEFT_MGX_CREATE(name)                                                                    \
  migraphx_status migraphx_##name##_create(migraphx_##name##_t* handle) {                        \
    return weft::mgx::guarded([&] { weft::mgx::given(handle), *handle = new migraphx_##name; }); \
  }
