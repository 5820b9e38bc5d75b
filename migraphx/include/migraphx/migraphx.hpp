// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <migraphx/migraphx.h>
#include <migraphx/version.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <memory>
#include <ostream>
#include <set>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

/// The C++ interface of MIGraphX, over migraphx.h; a header only, for C++14 and newer.
///
///     migraphx::program p = migraphx::parse_onnx("model.onnx");
///     p.compile(migraphx::target("gpu"));
///     migraphx::program_parameters in;
///     migraphx::program_parameter_shapes shapes = p.get_parameter_shapes();
///     for (const char* name : shapes.names()) in.add(name, migraphx::argument::generate(shapes[name]));
///     std::vector<float> y = p.eval(in)[0].as_vector<float>();
///
/// An object is a handle: copies share the object behind it. A failed call throws std::runtime_error with the reason.
namespace migraphx {
inline namespace api {

/// Calls a function of migraphx.h; throws its error.
template <class Function, class... Arguments>
void call(Function function, Arguments&&... arguments) {
  if (function(std::forward<Arguments>(arguments)...) != migraphx_status_success)
    throw std::runtime_error(weft_migraphx_error());
}

/// Calls a function whose first parameter receives its result.
template <class T, class Function, class... Arguments>
T get(Function function, Arguments&&... arguments) {
  T result{};
  call(function, &result, std::forward<Arguments>(arguments)...);
  return result;
}
template <class T, class Function, class... Arguments>
T* make(Function function, Arguments&&... arguments) {
  return get<T*>(function, std::forward<Arguments>(arguments)...);
}

/// The owner of the object behind a pointer: the new handle, nobody, or the object that contains it.
struct own {};
struct borrow {};
template <class T>
struct share {
  std::shared_ptr<T> owner;
};

/// Shared ownership of a handle of the C interface.
template <class T, migraphx_status (*Destroy)(typename std::remove_const<T>::type*)>
class handle_base {
 public:
  using handle_type = T;
  using plain_type = typename std::remove_const<T>::type;

  handle_base() = default;
  handle_base(T* p, own) { set(p); }
  handle_base(T* p, borrow) : handle_(p, [](T*) {}) {}
  template <class U>
  handle_base(T* p, share<U> part) : handle_(std::move(part.owner), p) {}

  const std::shared_ptr<T>& get_handle() const { return handle_; }
  T* get_handle_ptr() const {
    if (!handle_) throw std::runtime_error("an empty object of migraphx is used");
    return handle_.get();
  }
  share<T> share_handle() const { return {handle_}; }

 protected:
  void set(T* p) {
    handle_ = std::shared_ptr<T>(p, [](T* q) { Destroy(const_cast<plain_type*>(q)); });
  }
  template <class Function, class... Arguments>
  void create(Function function, Arguments&&... arguments) {
    set(make<plain_type>(function, std::forward<Arguments>(arguments)...));
  }

 private:
  std::shared_ptr<T> handle_;
};

#define MIGRAPHX_CPP_HANDLE(name, const_) handle_base<const_ migraphx_##name, migraphx_##name##_destroy>

/// Adds iterators to a list that has an index operator.
template <class List>
class indexed {
 public:
  class iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using difference_type = std::ptrdiff_t;
    iterator(const List* list, size_t at) : list_(list), at_(at) {}
    auto operator*() const { return (*list_)[at_]; }
    iterator& operator++() { return ++at_, *this; }
    iterator operator++(int) { return iterator(list_, at_++); }
    friend bool operator==(iterator a, iterator b) { return a.at_ == b.at_; }
    friend bool operator!=(iterator a, iterator b) { return a.at_ != b.at_; }

   private:
    const List* list_;
    size_t at_;
  };
  bool empty() const { return self().size() == 0; }
  auto front() const { return self()[0]; }
  auto back() const { return self()[self().size() - 1]; }
  iterator begin() const { return iterator(&self(), 0); }
  iterator end() const { return iterator(&self(), self().size()); }

 private:
  const List& self() const { return static_cast<const List&>(*this); }
};

// ---- shapes

struct optimals : MIGRAPHX_CPP_HANDLE(optimals, ) {
  using handle_base::handle_base;
  optimals(const std::set<size_t>& values) {
    std::vector<size_t> list(values.begin(), values.end());
    create(migraphx_optimals_create, list.data(), list.size());
  }
};

/// A size with a range, both ends included.
struct dynamic_dimension : MIGRAPHX_CPP_HANDLE(dynamic_dimension, const) {
  using handle_base::handle_base;
  dynamic_dimension(size_t min, size_t max) { create(migraphx_dynamic_dimension_create_min_max, min, max); }
  dynamic_dimension(size_t min, size_t max, const optimals& values) {
    create(migraphx_dynamic_dimension_create_min_max_optimals, min, max, values.get_handle_ptr());
  }
  bool is_fixed() const { return get<bool>(migraphx_dynamic_dimension_is_fixed, get_handle_ptr()); }
  friend bool operator==(const dynamic_dimension& a, const dynamic_dimension& b) {
    return get<bool>(migraphx_dynamic_dimension_equal, a.get_handle_ptr(), b.get_handle_ptr());
  }
  friend bool operator!=(const dynamic_dimension& a, const dynamic_dimension& b) { return !(a == b); }
};

struct dynamic_dimensions : MIGRAPHX_CPP_HANDLE(dynamic_dimensions, ), indexed<dynamic_dimensions> {
  using handle_base::handle_base;
  template <class... More>
  explicit dynamic_dimensions(const dynamic_dimension& first, const More&... more) {
    std::array<const_migraphx_dynamic_dimension_t, 1 + sizeof...(More)> list = {
        {first.get_handle_ptr(), more.get_handle_ptr()...}};
    create(migraphx_dynamic_dimensions_create, list.data(), list.size());
  }
  size_t size() const { return get<size_t>(migraphx_dynamic_dimensions_size, get_handle_ptr()); }
  dynamic_dimension operator[](size_t i) const {
    return {get<const_migraphx_dynamic_dimension_t>(migraphx_dynamic_dimensions_get, get_handle_ptr(), i),
            share_handle()};
  }
};

/// Element type, lengths and strides, both in elements.
struct shape : MIGRAPHX_CPP_HANDLE(shape, const) {
  using handle_base::handle_base;
  shape() = default;
  shape(migraphx_shape_datatype_t type) { create(migraphx_shape_create_scalar, type); }
  shape(migraphx_shape_datatype_t type, std::vector<size_t> lengths) {
    create(migraphx_shape_create, type, lengths.data(), lengths.size());
  }
  shape(migraphx_shape_datatype_t type, std::initializer_list<size_t> lengths)
      : shape(type, std::vector<size_t>(lengths)) {}
  shape(migraphx_shape_datatype_t type, std::vector<size_t> lengths, std::vector<size_t> strides) {
    create(migraphx_shape_create_with_strides, type, lengths.data(), lengths.size(), strides.data(), strides.size());
  }
  shape(migraphx_shape_datatype_t type, const dynamic_dimensions& dims) {
    create(migraphx_shape_create_dynamic, type, dims.get_handle_ptr());
  }

  std::vector<size_t> lengths() const { return list(migraphx_shape_lengths); }
  std::vector<size_t> strides() const { return list(migraphx_shape_strides); }
  dynamic_dimensions dyn_dims() const {
    return {make<migraphx_dynamic_dimensions>(migraphx_shape_dyn_dims, get_handle_ptr()), own{}};
  }
  migraphx_shape_datatype_t type() const {
    return get<migraphx_shape_datatype_t>(migraphx_shape_type, get_handle_ptr());
  }
  size_t elements() const { return get<size_t>(migraphx_shape_elements, get_handle_ptr()); }
  size_t bytes() const { return get<size_t>(migraphx_shape_bytes, get_handle_ptr()); }
  size_t ndim() const { return get<size_t>(migraphx_shape_ndim, get_handle_ptr()); }
  bool standard() const { return get<bool>(migraphx_shape_standard, get_handle_ptr()); }
  bool dynamic() const { return get<bool>(migraphx_shape_dynamic, get_handle_ptr()); }
  /// Returns the offset of element `i` in row-major order.
  size_t index(size_t i) const { return get<size_t>(migraphx_shape_index, get_handle_ptr(), i); }
  friend bool operator==(const shape& a, const shape& b) {
    return get<bool>(migraphx_shape_equal, a.get_handle_ptr(), b.get_handle_ptr());
  }
  friend bool operator!=(const shape& a, const shape& b) { return !(a == b); }

 private:
  template <class Function>
  std::vector<size_t> list(Function function) const {
    const size_t* items = nullptr;
    size_t count = 0;
    call(function, &items, &count, get_handle_ptr());
    return std::vector<size_t>(items, items + count);
  }
};

// ---- arguments

/// A shape with memory, which belongs to the caller or to the argument.
struct argument : MIGRAPHX_CPP_HANDLE(argument, const) {
  using handle_base::handle_base;
  argument() = default;
  argument(const shape& s, void* buffer) { create(migraphx_argument_create, s.get_handle_ptr(), buffer); }
  explicit argument(const shape& s) { create(migraphx_argument_create_empty, s.get_handle_ptr()); }

  shape get_shape() const {
    return {get<const_migraphx_shape_t>(migraphx_argument_shape, get_handle_ptr()), share_handle()};
  }
  char* data() const { return get<char*>(migraphx_argument_buffer, get_handle_ptr()); }
  /// Returns a copy of the elements in row-major order.
  template <class T>
  std::vector<T> as_vector() const {
    shape s = get_shape();
    std::vector<T> values(s.elements());
    const T* buffer = reinterpret_cast<const T*>(data());
    for (size_t i = 0; i < values.size(); ++i) values[i] = buffer[s.index(i)];
    return values;
  }
  void save(const std::string& path) const { call(migraphx_argument_save, get_handle_ptr(), path.c_str()); }
  static argument load(const std::string& path) {
    return {make<migraphx_argument>(migraphx_argument_load, path.c_str()), own{}};
  }
  /// Makes an argument with pseudo-random numbers, which depend only on the shape and the seed.
  static argument generate(const shape& s, size_t seed = 0) {
    return {make<migraphx_argument>(migraphx_argument_generate, s.get_handle_ptr(), seed), own{}};
  }
  friend bool operator==(const argument& a, const argument& b) {
    return get<bool>(migraphx_argument_equal, a.get_handle_ptr(), b.get_handle_ptr());
  }
  friend bool operator!=(const argument& a, const argument& b) { return !(a == b); }
};

struct arguments : MIGRAPHX_CPP_HANDLE(arguments, ), indexed<arguments> {
  using handle_base::handle_base;
  size_t size() const { return get<size_t>(migraphx_arguments_size, get_handle_ptr()); }
  argument operator[](size_t i) const {
    return {get<const_migraphx_argument_t>(migraphx_arguments_get, get_handle_ptr(), i), share_handle()};
  }
};

struct shapes : MIGRAPHX_CPP_HANDLE(shapes, ), indexed<shapes> {
  using handle_base::handle_base;
  size_t size() const { return get<size_t>(migraphx_shapes_size, get_handle_ptr()); }
  shape operator[](size_t i) const {
    return {get<const_migraphx_shape_t>(migraphx_shapes_get, get_handle_ptr(), i), share_handle()};
  }
};

/// The target of a compilation: "gpu", "cpu" or "ref".
struct target : MIGRAPHX_CPP_HANDLE(target, ) {
  using handle_base::handle_base;
  target() = default;
  target(const char* name) { create(migraphx_target_create, name); }
};

struct program_parameter_shapes : MIGRAPHX_CPP_HANDLE(program_parameter_shapes, ) {
  using handle_base::handle_base;
  size_t size() const { return get<size_t>(migraphx_program_parameter_shapes_size, get_handle_ptr()); }
  shape operator[](const char* name) const {
    return {get<const_migraphx_shape_t>(migraphx_program_parameter_shapes_get, get_handle_ptr(), name), share_handle()};
  }
  /// Returns the names, which are valid as long as this handle.
  std::vector<const char*> names() const {
    std::vector<const char*> list(size());
    if (!list.empty()) call(migraphx_program_parameter_shapes_names, list.data(), get_handle_ptr());
    return list;
  }
};

/// A map from the names of a program's parameters to arguments.
struct program_parameters : MIGRAPHX_CPP_HANDLE(program_parameters, ) {
  using handle_base::handle_base;
  program_parameters() { create(migraphx_program_parameters_create); }
  program_parameters(std::initializer_list<std::pair<std::string, argument>> list) : program_parameters() {
    for (const auto& entry : list) add(entry.first.c_str(), entry.second);
  }
  void add(const char* name, const argument& a) const {
    call(migraphx_program_parameters_add, get_handle_ptr(), name, a.get_handle_ptr());
  }
};

// ---- building

struct operation : MIGRAPHX_CPP_HANDLE(operation, ) {
  using handle_base::handle_base;
  /// Makes an operator; the attributes are a format of printf: operation("reduce_mean", "{axes: [%d]}", 1).
  template <class... Arguments>
  operation(const char* name, const char* attributes = nullptr, Arguments... arguments) {
    create(migraphx_operation_create, name, attributes, arguments...);
  }
  std::string name() const {
    std::array<char, 1024> text{};
    call(migraphx_operation_name, text.data(), text.size(), get_handle_ptr());
    return text.data();
  }
};

struct instruction : MIGRAPHX_CPP_HANDLE(instruction, const) {
  using handle_base::handle_base;
};

struct instructions : MIGRAPHX_CPP_HANDLE(instructions, ) {
  using handle_base::handle_base;
  instructions() { create(migraphx_instructions_create, nullptr, size_t{0}); }
  template <class... More>
  instructions(const instruction& first, const More&... more) {
    std::array<const_migraphx_instruction_t, 1 + sizeof...(More)> list = {
        {first.get_handle_ptr(), more.get_handle_ptr()...}};
    create(migraphx_instructions_create, list.data(), list.size());
  }
};

struct modules;

/// A module. It belongs to its program.
struct module {
  module(migraphx_module* m, borrow) :handle_(m, [](migraphx_module*) {}) {}
  template <class T>
  module(migraphx_module* m, share<T> part) : handle_(std::move(part.owner), m) {}
  explicit module(std::string name)
      : module(make<migraphx_module>(migraphx_module_create, const_cast<char*>(name.c_str())), borrow{}) {}

  migraphx_module_t get_handle_ptr() const { return handle_.get(); }
  void print() const { call(migraphx_module_print, get_handle_ptr()); }
  instruction add_instruction(const operation& op, const instructions& args) {
    return {make<migraphx_instruction>(migraphx_module_add_instruction, get_handle_ptr(), op.get_handle_ptr(),
                                       args.get_handle_ptr()),
            own{}};
  }
  instruction add_instruction(const operation& op, const instructions& args, const modules& bodies);
  template <class T>
  instruction add_literal(const shape& s, T* buffer) {
    return {make<migraphx_instruction>(migraphx_module_add_literal, get_handle_ptr(), s.get_handle_ptr(),
                                       reinterpret_cast<const char*>(buffer)),
            own{}};
  }
  instruction add_parameter(const std::string& name, const shape& s) {
    return {
        make<migraphx_instruction>(migraphx_module_add_parameter, get_handle_ptr(), name.c_str(), s.get_handle_ptr()),
        own{}};
  }
  instruction add_return(const instructions& args) {
    return {make<migraphx_instruction>(migraphx_module_add_return, get_handle_ptr(), args.get_handle_ptr()), own{}};
  }
  instruction add_allocation(const shape& s) {
    return {make<migraphx_instruction>(migraphx_module_add_allocation, get_handle_ptr(), s.get_handle_ptr()), own{}};
  }

 private:
  std::shared_ptr<migraphx_module> handle_;
};

struct modules : MIGRAPHX_CPP_HANDLE(modules, ) {
  using handle_base::handle_base;
  template <class... More>
  modules(const module& first, const More&... more) {
    std::array<migraphx_module_t, 1 + sizeof...(More)> list = {{first.get_handle_ptr(), more.get_handle_ptr()...}};
    create(migraphx_modules_create, list.data(), list.size());
  }
};

inline instruction module::add_instruction(const operation& op, const instructions& args, const modules& bodies) {
  return {make<migraphx_instruction>(migraphx_module_add_instruction_with_mod_args, get_handle_ptr(),
                                     op.get_handle_ptr(), args.get_handle_ptr(), bodies.get_handle_ptr()),
          own{}};
}

// ---- programs

/// The context of a program. It belongs to the program.
struct context {
  context(migraphx_context* c, borrow) : handle_(c, [](migraphx_context*) {}) {}
  template <class T>
  context(migraphx_context* c, share<T> part) : handle_(std::move(part.owner), c) {}
  void finish() const { call(migraphx_context_finish, handle_.get()); }
  template <class T>
  T get_queue() {
    return reinterpret_cast<T>(get<void*>(migraphx_context_get_queue, handle_.get()));
  }

 private:
  std::shared_ptr<migraphx_context> handle_;
};

struct compile_options : MIGRAPHX_CPP_HANDLE(compile_options, ) {
  using handle_base::handle_base;
  compile_options() { create(migraphx_compile_options_create); }
  /// With offload copy, results are in memory of the program. Without it, a program for "gpu" has a parameter for each
  /// result: the memory to which the result is written.
  void set_offload_copy(bool value = true) { call(migraphx_compile_options_set_offload_copy, get_handle_ptr(), value); }
  void set_fast_math(bool value = true) { call(migraphx_compile_options_set_fast_math, get_handle_ptr(), value); }
  void set_exhaustive_tune_flag(bool value = true) {
    call(migraphx_compile_options_set_exhaustive_tune_flag, get_handle_ptr(), value);
  }
};

/// A result that run_trace passes to its callback.
struct trace_info : MIGRAPHX_CPP_HANDLE(trace_info, ) {
  using handle_base::handle_base;
  size_t get_index() const { return get<size_t>(migraphx_trace_info_get_index, get_handle_ptr()); }
  std::string get_name() const { return get<const char*>(migraphx_trace_info_get_name, get_handle_ptr()); }
  argument get_result() const {
    return {get<const_migraphx_argument_t>(migraphx_trace_info_get_result, get_handle_ptr()), share_handle()};
  }
};

struct program : MIGRAPHX_CPP_HANDLE(program, ) {
  using handle_base::handle_base;
  program() { create(migraphx_program_create); }

  void compile(const target& t, const compile_options& options = {}) const {
    call(migraphx_program_compile, get_handle_ptr(), t.get_handle_ptr(), options.get_handle_ptr());
  }
  program_parameter_shapes get_parameter_shapes() const {
    return {make<migraphx_program_parameter_shapes>(migraphx_program_get_parameter_shapes, get_handle_ptr()), own{}};
  }
  shapes get_output_shapes() const {
    return {make<migraphx_shapes>(migraphx_program_get_output_shapes, get_handle_ptr()), own{}};
  }
  arguments eval(const program_parameters& parameters) const {
    return {make<migraphx_arguments>(migraphx_program_run, get_handle_ptr(), parameters.get_handle_ptr()), own{}};
  }
  template <class Stream>
  arguments run_async(const program_parameters& parameters, Stream* stream) const {
    return {make<migraphx_arguments>(migraphx_program_run_async, get_handle_ptr(), parameters.get_handle_ptr(), stream,
                                     "ihipStream_t"),
            own{}};
  }
  /// Calls `visit(trace_info)` for each result.
  template <class Visit>
  arguments run_trace(const program_parameters& parameters, Visit visit) const {
    auto shown = [](migraphx_trace_info_t info, void* data) -> migraphx_status {
      try {
        (*static_cast<Visit*>(data))(trace_info(info, borrow{}));
        return migraphx_status_success;
      } catch (...) {
        return migraphx_status_unknown_error;
      }
    };
    return {make<migraphx_arguments>(migraphx_program_run_trace, get_handle_ptr(), parameters.get_handle_ptr(), shown,
                                     static_cast<void*>(&visit)),
            own{}};
  }
  void print() const { call(migraphx_program_print, get_handle_ptr()); }
  program sort() {
    call(migraphx_program_sort, get_handle_ptr());
    return *this;
  }
  module get_main_module() {
    return {get<migraphx_module_t>(migraphx_program_get_main_module, get_handle_ptr()), share_handle()};
  }
  module create_module(const std::string& name) {
    return {get<migraphx_module_t>(migraphx_program_create_module, get_handle_ptr(), name.c_str()), share_handle()};
  }
  context experimental_get_context() const {
    return {get<migraphx_context_t>(migraphx_program_experimental_get_context, get_handle_ptr()), share_handle()};
  }
  friend bool operator==(const program& a, const program& b) {
    return get<bool>(migraphx_program_equal, a.get_handle_ptr(), b.get_handle_ptr());
  }
  friend bool operator!=(const program& a, const program& b) { return !(a == b); }
};

// ---- files

struct file_options : MIGRAPHX_CPP_HANDLE(file_options, ) {
  using handle_base::handle_base;
  file_options() { create(migraphx_file_options_create); }
  void set_file_format(const char* format) { call(migraphx_file_options_set_file_format, get_handle_ptr(), format); }
};

inline program load(const char* path, const file_options& options = {}) {
  return {make<migraphx_program>(migraphx_load, path, options.get_handle_ptr()), own{}};
}
inline void save(const program& p, const char* path, const file_options& options = {}) {
  call(migraphx_save, p.get_handle_ptr(), path, options.get_handle_ptr());
}

struct onnx_options : MIGRAPHX_CPP_HANDLE(onnx_options, ) {
  using handle_base::handle_base;
  onnx_options() { create(migraphx_onnx_options_create); }
  void set_input_parameter_shape(const std::string& name, std::vector<size_t> lengths) {
    call(migraphx_onnx_options_set_input_parameter_shape, get_handle_ptr(), name.c_str(), lengths.data(),
         lengths.size());
  }
  void set_dyn_input_parameter_shape(const std::string& name, const dynamic_dimensions& dims) {
    call(migraphx_onnx_options_set_dyn_input_parameter_shape, get_handle_ptr(), name.c_str(), dims.get_handle_ptr());
  }
  void set_default_dim_value(size_t value) {
    call(migraphx_onnx_options_set_default_dim_value, get_handle_ptr(), value);
  }
  void set_default_dyn_dim_value(const dynamic_dimension& range) {
    call(migraphx_onnx_options_set_default_dyn_dim_value, get_handle_ptr(), range.get_handle_ptr());
  }
  void set_default_loop_iterations(int64_t value) {
    call(migraphx_onnx_options_set_default_loop_iterations, get_handle_ptr(), value);
  }
  void set_limit_loop_iterations(int64_t value) {
    call(migraphx_onnx_options_set_limit_loop_iterations, get_handle_ptr(), value);
  }
  void set_external_data_path(const std::string& folder) {
    call(migraphx_onnx_options_set_external_data_path, get_handle_ptr(), folder.c_str());
  }
  void set_use_debug_symbols(bool value) { call(migraphx_onnx_options_set_use_debug_symbols, get_handle_ptr(), value); }
};

inline program parse_onnx(const char* path, const onnx_options& options = {}) {
  return {make<migraphx_program>(migraphx_parse_onnx, path, options.get_handle_ptr()), own{}};
}
inline program parse_onnx_buffer(const void* data, size_t size, const onnx_options& options = {}) {
  return {make<migraphx_program>(migraphx_parse_onnx_buffer, data, size, options.get_handle_ptr()), own{}};
}
inline program parse_onnx_buffer(const std::string& buffer, const onnx_options& options = {}) {
  return parse_onnx_buffer(buffer.data(), buffer.size(), options);
}
inline std::vector<std::string> get_onnx_operators() {
  std::vector<std::string> names;
  size_t count = get<size_t>(migraphx_get_onnx_operators_size);
  for (size_t i = 0; i < count; ++i) names.emplace_back(get<char*>(migraphx_get_onnx_operator_name_at_index, i));
  return names;
}

struct tf_options : MIGRAPHX_CPP_HANDLE(tf_options, ) {
  using handle_base::handle_base;
  tf_options() { create(migraphx_tf_options_create); }
  void set_input_parameter_shape(const std::string& name, std::vector<size_t> lengths) {
    call(migraphx_tf_options_set_input_parameter_shape, get_handle_ptr(), name.c_str(), lengths.data(), lengths.size());
  }
  void set_nhwc(bool value = true) { call(migraphx_tf_options_set_nhwc, get_handle_ptr(), value); }
  void set_default_dim_value(size_t value) { call(migraphx_tf_options_set_default_dim_value, get_handle_ptr(), value); }
  void set_output_names(std::vector<const char*> names) {
    call(migraphx_tf_options_set_output_names, get_handle_ptr(), names.data(), names.size());
  }
};

/// Reads a frozen graph or a SavedModel of TensorFlow.
inline program parse_tf(const char* path, const tf_options& options = {}) {
  return {make<migraphx_program>(migraphx_parse_tf, path, options.get_handle_ptr()), own{}};
}
inline program parse_tf_buffer(const void* data, size_t size, const tf_options& options = {}) {
  return {make<migraphx_program>(migraphx_parse_tf_buffer, data, size, options.get_handle_ptr()), own{}};
}

// ---- precision

struct quantize_op_names : MIGRAPHX_CPP_HANDLE(quantize_op_names, ) {
  using handle_base::handle_base;
  quantize_op_names() { create(migraphx_quantize_op_names_create); }
  void add(const std::string& name) { call(migraphx_quantize_op_names_add, get_handle_ptr(), name.c_str()); }
};

inline void quantize_fp16(const program& p) { call(migraphx_quantize_fp16, p.get_handle_ptr()); }
inline void quantize_fp16(const program& p, const quantize_op_names& names) {
  call(migraphx_quantize_fp16_with_op_names, p.get_handle_ptr(), names.get_handle_ptr());
}
inline void quantize_bf16(const program& p) { call(migraphx_quantize_bf16, p.get_handle_ptr()); }
inline void quantize_bf16(const program& p, const quantize_op_names& names) {
  call(migraphx_quantize_bf16_with_op_names, p.get_handle_ptr(), names.get_handle_ptr());
}

struct quantize_int8_options : MIGRAPHX_CPP_HANDLE(quantize_int8_options, ) {
  using handle_base::handle_base;
  quantize_int8_options() { create(migraphx_quantize_int8_options_create); }
  void add_op_name(const std::string& name) {
    call(migraphx_quantize_int8_options_add_op_name, get_handle_ptr(), name.c_str());
  }
  void add_calibration_data(const program_parameters& sample) {
    call(migraphx_quantize_int8_options_add_calibration_data, get_handle_ptr(), sample.get_handle_ptr());
  }
};
inline void quantize_int8(const program& p, const target& t, const quantize_int8_options& options) {
  call(migraphx_quantize_int8, p.get_handle_ptr(), t.get_handle_ptr(), options.get_handle_ptr());
}

struct quantize_fp8_options : MIGRAPHX_CPP_HANDLE(quantize_fp8_options, ) {
  using handle_base::handle_base;
  quantize_fp8_options() { create(migraphx_quantize_fp8_options_create); }
  void add_calibration_data(const program_parameters& sample) {
    call(migraphx_quantize_fp8_options_add_calibration_data, get_handle_ptr(), sample.get_handle_ptr());
  }
};
inline void quantize_fp8(const program& p, const target& t, const quantize_fp8_options& options) {
  call(migraphx_quantize_fp8, p.get_handle_ptr(), t.get_handle_ptr(), options.get_handle_ptr());
}
inline void quantize_int4_weights(const program& p) { call(migraphx_quantize_int4_weights, p.get_handle_ptr()); }

// ---- operators of the caller's

/// The base class of custom operators. Derive a final class from it, and register an object of that class.
struct experimental_custom_op_base {
  virtual std::string name() const = 0;
  virtual argument compute(context ctx, shape output, arguments inputs) const = 0;
  virtual shape compute_shape(shapes inputs) const = 0;
  /// Returns the index of the operand that shares its memory with the result; {} if none does.
  virtual std::vector<size_t> output_alias(shapes) const { return {}; }
  virtual bool runs_on_offload_target() const = 0;
  virtual ~experimental_custom_op_base() = default;
};

/// The callbacks of the C interface for an operator of class T.
template <class T>
struct custom_op_calls {
  template <class Body>
  static migraphx_status guarded(char* message, size_t size, const Body& body) {
    try {
      body();
      return migraphx_status_success;
    } catch (const std::exception& error) {
      if (size > 0) std::strncpy(message, error.what(), size - 1);
    } catch (...) {
    }
    return migraphx_status_unknown_error;
  }
  static migraphx_status copy(void** out, void* object) {
    char message[1];
    return guarded(message, 0, [&] { *out = new T(*static_cast<T*>(object)); });
  }
  static migraphx_status destroy(void* object) {
    delete static_cast<T*>(object);
    return migraphx_status_success;
  }
  static migraphx_status compute(migraphx_argument_t out, void* object, char* message, size_t size,
                                 migraphx_context_t ctx, migraphx_shape_t output, migraphx_arguments_t inputs) {
    return guarded(message, size, [&] {
      argument result = static_cast<T*>(object)->compute(context(ctx, borrow{}), shape(output, borrow{}),
                                                         arguments(inputs, borrow{}));
      call(migraphx_argument_assign_to, out, result.get_handle_ptr());
    });
  }
  static migraphx_status compute_shape(migraphx_shape_t out, void* object, char* message, size_t size,
                                       migraphx_shapes_t inputs) {
    return guarded(message, size, [&] {
      shape result = static_cast<T*>(object)->compute_shape(shapes(inputs, borrow{}));
      call(migraphx_shape_assign_to, out, result.get_handle_ptr());
    });
  }
  static migraphx_status output_alias(size_t* out, size_t* count, void* object, char* message, size_t size,
                                      migraphx_shapes_t inputs) {
    return guarded(message, size, [&] {
      std::vector<size_t> places = static_cast<T*>(object)->output_alias(shapes(inputs, borrow{}));
      *count = std::min(*count, places.size());
      std::copy_n(places.begin(), *count, out);
    });
  }
  static migraphx_status runs_on_offload_target(bool* out, void* object, char* message, size_t size) {
    return guarded(message, size, [&] { *out = static_cast<T*>(object)->runs_on_offload_target(); });
  }
};

struct experimental_custom_op : MIGRAPHX_CPP_HANDLE(experimental_custom_op, ) {
  template <class T>
  explicit experimental_custom_op(T& object) {
    using calls = custom_op_calls<T>;
    create(migraphx_experimental_custom_op_create, static_cast<void*>(&object), calls::copy, calls::destroy, "",
           object.name().c_str());
    call(migraphx_experimental_custom_op_set_compute, get_handle_ptr(), calls::compute);
    call(migraphx_experimental_custom_op_set_compute_shape, get_handle_ptr(), calls::compute_shape);
    call(migraphx_experimental_custom_op_set_output_alias, get_handle_ptr(), calls::output_alias);
    call(migraphx_experimental_custom_op_set_runs_on_offload_target, get_handle_ptr(), calls::runs_on_offload_target);
  }
  void register_op() { call(migraphx_experimental_custom_op_register, get_handle_ptr()); }
};

template <class T, class = typename std::enable_if<std::is_base_of<experimental_custom_op_base, T>::value &&
                                                   std::is_copy_constructible<T>::value>::type>
void register_experimental_custom_op(T& object) {
  experimental_custom_op(object).register_op();
}

#undef MIGRAPHX_CPP_HANDLE

}  // namespace api
}  // namespace migraphx
