// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <exception>
#include <functional>
#include <initializer_list>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "weft.h"

/// Weft for C++20: weft.h with ownership, spans and exceptions. Header only; no C++ object crosses into libweft.
///
///     auto model = weft::compile("model.onnx");
///     auto context = model.new_context();
///     auto outputs = context.run({weft::view<float>(pixels, {1, 1, 8, 8})});
///     for (float p : outputs[0].as<float>()) std::cout << p << '\n';
namespace weft {
inline namespace v0 {

/// The exception of a failed call. `what()` is the whole message; docs/errors.md describes the parts.
class Error : public std::exception {
 public:
  explicit Error(weft_status* status) : status_(status, weft_status_free) {}
  Error(weft_error_kind kind, const std::string& code, const std::string& text, const std::string& hint = {})
      : Error(weft_status_new(kind, code.c_str(), text.c_str(), nullptr, hint.c_str())) {}

  const char* what() const noexcept override { return weft_status_text(status_.get()); }
  weft_error_kind kind() const { return weft_status_kind(status_.get()); }
  std::string_view code() const { return weft_status_code(status_.get()); }
  std::string_view facts() const { return weft_status_what(status_.get()); }
  std::string_view where() const { return weft_status_where(status_.get()); }
  std::string_view why() const { return weft_status_why(status_.get()); }
  std::string_view hint() const { return weft_status_hint(status_.get()); }

 private:
  std::shared_ptr<weft_status> status_;
};

inline void check(weft_status* status) {
  if (status) throw Error(status);
}

/// The deleter of a C handle, and the pointer that owns one.
template <class T, void (*free)(T*)>
struct Freed {
  void operator()(T* handle) const { free(handle); }
};
template <class T, void (*free)(T*)>
using Owned = std::unique_ptr<T, Freed<T, free>>;

/// Calls `give(T** out)` and returns the object, owned.
template <class T, void (*free)(T*), class Give>
Owned<T, free> own(const Give& give) {
  T* handle = nullptr;
  check(give(&handle));
  return Owned<T, free>(handle);
}

template <class Give>
std::string own_text(const Give& give) {
  return own<char, weft_text_free>(give).get();
}

/// Returns the element type of a C++ type.
template <class T>
constexpr weft_dtype dtype_of() {
  if constexpr (std::is_same_v<T, bool>) return WEFT_BOOL;
  else if constexpr (std::is_same_v<T, float>) return WEFT_F32;
  else if constexpr (std::is_same_v<T, double>) return WEFT_F64;
  else {
    static_assert(std::is_integral_v<T>, "name the element type: weft::Tensor::view(WEFT_BF16, bytes, dims)");
    constexpr weft_dtype types[2][4] = {{WEFT_U8, WEFT_U16, WEFT_U32, WEFT_U64},
                                        {WEFT_I8, WEFT_I16, WEFT_I32, WEFT_I64}};
    return types[std::is_signed_v<T>][sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3];
  }
}

/// A dense row-major array in host memory. Copies share the memory; nothing changes it.
class Tensor {
 public:
  Tensor() = default;  ///< no tensor: an input that is left out
  explicit Tensor(weft_tensor* owned) : tensor_(owned, weft_tensor_free) {}

  /// Makes a tensor over the caller's memory, without copying. The memory must outlive the tensor and not change.
  static Tensor view(weft_dtype type, std::span<const std::byte> bytes, std::span<const int64_t> dims) {
    return make([&](weft_tensor** out) {
      return weft_tensor_wrap(type, dims.data(), dims.size(), bytes.data(), bytes.size(), nullptr, nullptr, out);
    });
  }
  /// Makes a tensor over a mapped file from `offset` on. Runs read the parts that they need.
  static Tensor map(weft_dtype type, const std::string& path, size_t offset, std::span<const int64_t> dims) {
    return make([&](auto out) { return weft_tensor_map(type, dims.data(), dims.size(), path.c_str(), offset, out); });
  }
  static Tensor copy(weft_dtype type, std::span<const std::byte> bytes, std::span<const int64_t> dims) {
    return make(
        [&](auto o) { return weft_tensor_copy(type, dims.data(), dims.size(), bytes.data(), bytes.size(), o); });
  }

  explicit operator bool() const { return tensor_ != nullptr; }
  weft_dtype dtype() const { return weft_tensor_dtype(get()); }
  std::span<const int64_t> dims() const { return {weft_tensor_dims(get()), weft_tensor_rank(get())}; }
  int64_t elements() const { return weft_tensor_elements(get()); }
  std::span<const std::byte> bytes() const {
    return {static_cast<const std::byte*>(weft_tensor_data(get())), weft_tensor_bytes(get())};
  }
  /// Returns the elements; throws unless they are of this type.
  template <class T>
  std::span<const T> as() const& {
    if (dtype() != dtype_of<T>())
      throw Error(
          WEFT_USAGE, "E210",
          std::string("the tensor holds ") + weft_dtype_name(dtype()) + ", not " + weft_dtype_name(dtype_of<T>()));
    return {static_cast<const T*>(weft_tensor_data(get())), static_cast<size_t>(elements())};
  }
  template <class T>
  void as() const&& = delete;  // a temporary tensor takes its memory with it
  std::string_view string(size_t index) const {
    size_t length = 0;
    const char* text = weft_tensor_string(get(), index, &length);
    return text ? std::string_view(text, length) : std::string_view();
  }
  /// Makes a sequence, optional or map of these items.
  static Tensor collect(weft_kind kind, const std::vector<Tensor>& items) {
    std::vector<const weft_tensor*> pointers;
    for (const Tensor& item : items) pointers.push_back(item.get());
    return make([&](weft_tensor** out) { return weft_tensor_collect(kind, pointers.data(), pointers.size(), out); });
  }
  Tensor item(size_t index) const {
    return make([&](weft_tensor** out) { return weft_tensor_item(get(), index, out); });
  }
  template <class Call>
  static Tensor make(const Call& call) {  ///< returns the tensor that a call of weft.h makes
    return Tensor(own<weft_tensor, weft_tensor_free>(call).release());
  }
  const weft_tensor* get() const { return tensor_.get(); }

 private:
  std::shared_ptr<weft_tensor> tensor_;
};

/// Makes a tensor over the caller's numbers, without copying. The numbers must outlive the tensor.
template <class T>
Tensor view(std::span<const T> values, std::initializer_list<int64_t> dims) {
  return Tensor::view(dtype_of<T>(), std::as_bytes(values), {dims.begin(), dims.size()});
}

/// weft_compile_options that own their strings; weft.h explains each option. Empty `static_inputs`: any input.
struct CompileOptions {
  std::string device = "auto";
  int threads = 0;
  weft_precision precision = WEFT_PRECISION_F32;
  std::vector<std::string> shapes{}, symbols{}, keep_f32{};
  std::string folder{}, dump_folder{};
  bool use_cache = true;
  std::function<void(std::string_view phase, size_t done, size_t total)> progress{};
  std::vector<std::pair<std::string, Tensor>> constants{};
  std::vector<std::string> fixed_defaults{};
  const weft_allocator* allocator = nullptr;
  const weft_executor* executor = nullptr;
  std::vector<std::string> donations{};
  std::vector<weft_operator> operators{};
  bool borrow = false;
  int64_t memory_limit = 0;
  double tune_seconds = 0;
  double deadline_seconds = 0;
  std::function<bool()> stop{};
  std::vector<std::string> static_inputs{};
  std::string tag{}, signature{};
  std::vector<std::string> outputs{};
  bool channels_first = false;
};

namespace detail {

inline std::vector<const char*> pointers(const std::vector<std::string>& strings) {
  std::vector<const char*> list;
  for (const std::string& text : strings) list.push_back(text.c_str());
  return list;
}

/// weft_compile_options over a CompileOptions that outlives it.
class CompileOptionsView {
 public:
  explicit CompileOptionsView(const CompileOptions& o) {
    give(o.device, c_.device), give(o.threads, c_.threads), give(o.precision, c_.precision);
    give(o.shapes, c_.shapes, c_.shape_count), give(o.symbols, c_.symbols, c_.symbol_count);
    give(o.keep_f32, c_.keep_f32, c_.keep_f32_count), give(o.folder, c_.folder), give(o.dump_folder, c_.dump_folder);
    c_.no_cache = !o.use_cache, give(o.progress, c_.progress, c_.progress_user);
    give(o.constants, c_.constant_names, c_.constants, c_.constant_count);
    give(o.fixed_defaults, c_.fixed_defaults, c_.fixed_default_count), give(o.allocator, c_.allocator);
    give(o.executor, c_.executor), give(o.donations, c_.donations, c_.donation_count);
    give(o.operators, c_.operators, c_.operator_count), give(o.borrow, c_.borrow);
    give(o.memory_limit, c_.memory_limit), give(o.tune_seconds, c_.tune_seconds);
    give(o.deadline_seconds, c_.deadline_seconds), give(o.stop, c_.stop, c_.stop_user);
    give(o.static_inputs, c_.static_inputs, c_.static_input_count), give(o.tag, c_.tag);
    give(o.signature, c_.signature), give(o.outputs, c_.outputs, c_.output_count);
    give(o.channels_first, c_.channels_first);
  }
  const weft_compile_options* get() const { return &c_; }

 private:
  template <class From, class To>
  static void give(const From& from, To& to) {
    to = from;
  }
  static void give(const std::string& from, const char*& to) { to = from.empty() ? nullptr : from.c_str(); }
  void give(const std::vector<std::string>& from, const char* const*& to, size_t& count) {
    std::vector<const char*>& list = lists_.emplace_back(pointers(from));
    to = list.empty() ? nullptr : list.data(), count = list.size();
  }
  void give(const std::vector<std::pair<std::string, Tensor>>& from, const char* const*& names,
            const weft_tensor* const*& values, size_t& count) {
    std::vector<const char*>& list = lists_.emplace_back();
    for (const auto& [name, value] : from) list.push_back(name.c_str()), constants_.push_back(value.get());
    names = list.data(), values = constants_.data(), count = list.size();
  }
  static void give(const std::vector<weft_operator>& from, const weft_operator*& to, size_t& count) {
    to = from.data(), count = from.size();
  }
  template <class Result, class... Given, class Call, class... Args>
  static void give(const std::function<Result(Given...)>& from, Call (*&call)(void*, Args...), void*& user) {
    if (!from) return;
    user = const_cast<void*>(static_cast<const void*>(&from));
    call = [](void* function, Args... args) -> Call {
      return (*static_cast<const std::function<Result(Given...)>*>(function))(args...);
    };
  }

  std::vector<std::vector<const char*>> lists_;
  std::vector<const weft_tensor*> constants_;
  weft_compile_options c_ WEFT_COMPILE_OPTIONS_INIT;
};

template <class Owner, class Get>
std::vector<weft_port> ports(Owner* owner, size_t count, Get get_port) {
  std::vector<weft_port> list(count, weft_port WEFT_PORT_INIT);
  for (size_t i = 0; i < count; ++i) check(get_port(owner, i, &list[i]));
  return list;
}

}  // namespace detail

/// An input or output of a program; the pointers live as long as the program.
using Port = weft_port;
inline std::span<const weft_dim> dims(const Port& port) { return {port.dims, port.rank}; }

struct RunOptions {
  std::vector<weft_buffer> outputs{};  ///< the caller's memory for the results, one for each output
  double deadline_seconds = 0;
  /// Allocates the other results (see weft_run_options); must not throw.
  void* (*allocate)(void* user, size_t output, const int64_t* dims, size_t rank, size_t bytes) = nullptr;
  void* allocate_user = nullptr;
  std::function<bool()> stop{};  ///< true ends the run with E404; called from any thread of the run, must not throw
  const weft_executor* executor = nullptr;
  int32_t on_device = 0;  ///< 1: inputs and outputs are memory of the GPU; 2: also, the work is queued on `stream`
  void* stream = nullptr;

  /// Returns the options in the form of weft.h, valid as long as this object.
  weft_run_options get() const {
    weft_run_options c WEFT_RUN_OPTIONS_INIT;
    c.outputs = outputs.empty() ? nullptr : outputs.data(), c.output_count = outputs.size();
    c.deadline_seconds = deadline_seconds, c.executor = executor;
    c.allocate = allocate, c.allocate_user = allocate_user;
    c.on_device = on_device, c.stream = stream;
    c.stop_user = const_cast<void*>(static_cast<const void*>(&stop));
    if (stop) c.stop = [](void* user) { return int32_t{(*static_cast<std::function<bool()>*>(user))()}; };
    return c;
  }
};

/// The working memory of one request; for one thread at a time. Keeps its program alive.
class Context {
 public:
  Context(weft_context* owned, size_t output_count) : context_(owned), output_count_(output_count) {}

  /// Runs the program. Inputs are in the order of Program::inputs(), results in that of Program::outputs().
  std::vector<Tensor> run(std::span<const Tensor> inputs, const RunOptions& options = {}) {
    std::vector<const weft_tensor*> in;
    for (const Tensor& input : inputs) in.push_back(input.get());
    std::vector<weft_tensor*> out(output_count_);
    weft_run_options c = options.get();
    check(weft_run(context_.get(), in.data(), in.size(), out.data(), out.size(), &c));
    std::vector<Tensor> outputs;
    for (weft_tensor* tensor : out) outputs.emplace_back(tensor);
    return outputs;
  }
  std::vector<Tensor> run(std::initializer_list<Tensor> inputs, const RunOptions& options = {}) {
    return run(std::span(inputs.begin(), inputs.size()), options);
  }
  weft_memory memory() const {
    weft_memory use WEFT_MEMORY_INIT;
    check(weft_context_memory_use(context_.get(), &use));
    return use;
  }

 private:
  Owned<weft_context, weft_context_free> context_;
  size_t output_count_;
};

/// A compiled model: immutable, for any number of threads. Copies share it.
class Program {
 public:
  explicit Program(weft_program* owned) : program_(owned, weft_program_free) {}

  std::vector<Port> inputs() const { return detail::ports(get(), weft_input_count(get()), weft_input); }
  std::vector<Port> outputs() const { return detail::ports(get(), weft_output_count(get()), weft_output); }
  Context new_context() const {
    auto context = own<weft_context, weft_context_free>([&](auto out) { return weft_context_new(get(), out); });
    return Context(context.release(), weft_output_count(get()));
  }
  std::string device() const { return weft_program_device(get()); }
  /// Returns a report as JSON; see weft_program_report.
  std::string report() const {
    return own_text([&](char** out) { return weft_program_report(get(), out); });
  }
  /// Returns the model's metadata under `key`; "" if there is none.
  std::string metadata(const std::string& key) const {
    const char* value = weft_program_metadata(get(), key.c_str());
    return value ? value : "";
  }
  void save(const std::string& path, const std::vector<std::string>& targets = {}) const {
    check(weft_save_for(get(), path.c_str(), detail::pointers(targets).data(), targets.size()));
  }
  /// Lets the caller free the memory of constants; see weft_program_detach.
  void detach() { check(weft_program_detach(program_.get())); }
  /// Makes a tensor that the caller fills through `data` before its first use; see weft_tensor_new.
  Tensor tensor(weft_dtype type, std::span<const int64_t> dims, void** data) const {
    return Tensor::make([&](auto o) { return weft_tensor_new(get(), type, dims.data(), dims.size(), o, data); });
  }
  const weft_program* get() const { return program_.get(); }

 private:
  std::shared_ptr<weft_program> program_;
};

namespace detail {
template <class Compile>
Program make_program(const CompileOptions& options, const Compile& compile) {
  CompileOptionsView view(options);
  return Program(own<weft_program, weft_program_free>([&](auto out) { return compile(view.get(), out); }).release());
}
}  // namespace detail

/// Compiles a model file, or loads a saved program (.weft); see weft_compile.
inline Program compile(const std::string& path, const CompileOptions& options = {}) {
  return detail::make_program(options, [&](auto o, auto out) { return weft_compile(path.c_str(), o, out); });
}
inline Program compile(std::span<const std::byte> model, const CompileOptions& options = {}) {
  return detail::make_program(options,
                              [&](auto o, auto out) { return weft_compile_bytes(model.data(), model.size(), o, out); });
}
/// Maps a saved program.
inline Program load(const std::string& path, const CompileOptions& options = {}) {
  return detail::make_program(options, [&](auto o, auto out) { return weft_load(path.c_str(), o, out); });
}

/// Returns as JSON which nodes of a model the options' device runs; see weft_support.
inline std::string support(const std::string& path, const CompileOptions& options = {}) {
  detail::CompileOptionsView view(options);
  return own_text([&](char** out) { return weft_support(path.c_str(), view.get(), out); });
}

/// A program under construction, in operators of Weft's text form.
///
///     weft::Graph graph("double");
///     auto x = graph.input("x", "f32[batch,64]");
///     graph.output("y", graph.append("add", {x, x}));
///     weft::Program program = graph.compile();
class Graph {
 public:
  explicit Graph(const std::string& name = {})
      : graph_(own<weft_graph, weft_graph_free>([&](auto out) { return weft_graph_new(name.c_str(), out); })) {}
  /// Parses a whole program in text form.
  static Graph parse(const std::string& text) {
    return Graph(own<weft_graph, weft_graph_free>([&](auto out) { return weft_graph_parse(text.c_str(), out); }));
  }
  /// Reads a model as a graph, before any pass; see weft_graph_read.
  static Graph read(const std::string& path, const CompileOptions& options = {}) {
    detail::CompileOptionsView view(options);
    auto call = [&](auto out) { return weft_graph_read(path.c_str(), view.get(), out); };
    return Graph(own<weft_graph, weft_graph_free>(call));
  }
  static Graph read(std::span<const std::byte> model, const CompileOptions& options = {}) {
    detail::CompileOptionsView view(options);
    auto call = [&](auto out) { return weft_graph_read_bytes(model.data(), model.size(), view.get(), out); };
    return Graph(own<weft_graph, weft_graph_free>(call));
  }

  std::vector<Port> inputs() const {
    return detail::ports(get(), weft_graph_input_count(get()), weft_graph_input_port);
  }
  std::vector<Port> outputs() const {
    return detail::ports(get(), weft_graph_output_count(get()), weft_graph_output_port);
  }
  void symbol(const std::string& name, int64_t min, int64_t max) {
    check(weft_graph_symbol(get(), name.c_str(), min, max));
  }
  weft_value input(const std::string& name, const std::string& type) {
    return value([&](weft_value* v) { return weft_graph_input(get(), name.c_str(), type.c_str(), v); });
  }
  weft_value constant(const Tensor& tensor) {
    return value([&](weft_value* v) { return weft_graph_constant(get(), tensor.get(), v); });
  }
  weft_value append(const std::string& op, std::span<const weft_value> inputs) {
    return value([&](auto v) { return weft_graph_append(get(), op.c_str(), inputs.data(), inputs.size(), v); });
  }
  weft_value append(const std::string& op, std::initializer_list<weft_value> inputs) {
    return append(op, std::span(inputs.begin(), inputs.size()));
  }
  void add_operator(const weft_operator& op) { check(weft_graph_operator(get(), &op)); }
  void source(const std::string& place) { check(weft_graph_source(get(), place.c_str())); }
  void output(const std::string& name, weft_value v) { check(weft_graph_output(get(), name.c_str(), v)); }
  std::string type(weft_value v) const {
    return own_text([&](char** out) { return weft_graph_type(get(), v, out); });
  }
  std::string print() const {
    return own_text([&](char** out) { return weft_graph_print(get(), out); });
  }
  Tensor to_onnx() const {  ///< returns the bytes of an ONNX file, u8[size]
    return Tensor::make([&](auto out) { return weft_graph_export(get(), out); });
  }
  weft_graph* get() const { return graph_.get(); }
  /// Compiles the graph, which can then no longer be used.
  Program compile(const CompileOptions& options = {}) {
    return detail::make_program(options, [&](auto o, auto out) { return weft_graph_compile(get(), o, out); });
  }

 private:
  explicit Graph(Owned<weft_graph, weft_graph_free> graph) : graph_(std::move(graph)) {}
  template <class Give>
  static weft_value value(const Give& give) {
    weft_value v{};
    check(give(&v));
    return v;
  }

  Owned<weft_graph, weft_graph_free> graph_;
};

inline std::string version() { return weft_version(); }

inline Tensor quantize(std::span<const std::byte> model, const weft_quantize_options& how) {  ///< u8[size]
  return Tensor::make([&](auto o) { return weft_quantize_bytes(model.data(), model.size(), &how, o, nullptr); });
}

}  // namespace v0
}  // namespace weft
