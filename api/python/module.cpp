// SPDX-License-Identifier: Apache-2.0
// The native half of the Python package: programs, contexts and arrays. weft/__init__.py wraps it for users.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <csignal>

#include "api/python/module.h"
#include "driver/verbs.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

// --- element types -----------------------------------------------------------------------------------------------

struct TypeRow {
  weft_dtype type;
  nb::dlpack::dtype_code code;
  uint8_t bits;
};
constexpr TypeRow type_rows[] = {
    {WEFT_F8E4M3FN, nb::dlpack::dtype_code::Float8_E4M3FN, 8},
    {WEFT_F8E4M3FNUZ, nb::dlpack::dtype_code::Float8_E4M3FNUZ, 8},
    {WEFT_F8E5M2, nb::dlpack::dtype_code::Float8_E5M2, 8},
    {WEFT_F8E5M2FNUZ, nb::dlpack::dtype_code::Float8_E5M2FNUZ, 8},
    {WEFT_F8E8M0, nb::dlpack::dtype_code::Float8_E8M0FNU, 8},
    {WEFT_F4E2M1, nb::dlpack::dtype_code::Float4_E2M1FN, 4},
    {WEFT_U4, nb::dlpack::dtype_code::UInt, 4},
    {WEFT_I4, nb::dlpack::dtype_code::Int, 4},
    {WEFT_U2, nb::dlpack::dtype_code::UInt, 2},
    {WEFT_I2, nb::dlpack::dtype_code::Int, 2},
    {WEFT_BOOL, nb::dlpack::dtype_code::Bool, 8},
    {WEFT_U8, nb::dlpack::dtype_code::UInt, 8},
    {WEFT_U16, nb::dlpack::dtype_code::UInt, 16},
    {WEFT_U32, nb::dlpack::dtype_code::UInt, 32},
    {WEFT_U64, nb::dlpack::dtype_code::UInt, 64},
    {WEFT_I8, nb::dlpack::dtype_code::Int, 8},
    {WEFT_I16, nb::dlpack::dtype_code::Int, 16},
    {WEFT_I32, nb::dlpack::dtype_code::Int, 32},
    {WEFT_I64, nb::dlpack::dtype_code::Int, 64},
    {WEFT_F16, nb::dlpack::dtype_code::Float, 16},
    {WEFT_BF16, nb::dlpack::dtype_code::Bfloat, 16},
    {WEFT_F32, nb::dlpack::dtype_code::Float, 32},
    {WEFT_F64, nb::dlpack::dtype_code::Float, 64},
    {WEFT_C64, nb::dlpack::dtype_code::Complex, 64},
    {WEFT_C128, nb::dlpack::dtype_code::Complex, 128},
};

/// Returns Weft's type for a DLPack type. A type of less than 8 bits may have several lanes, if they fill one byte.
weft_dtype from_dlpack(nb::dlpack::dtype type) {
  for (const TypeRow& row : type_rows) {
    bool is_same = static_cast<uint8_t>(row.code) == type.code && row.bits == type.bits;
    if (is_same && (type.lanes == 1 || type.lanes * row.bits == 8)) return row.type;
  }
  throw weft::Error(WEFT_USAGE, "E310", "an input has an element type that Weft does not take as an array");
}

nb::dlpack::dtype to_dlpack(weft_dtype type) {
  for (const TypeRow& row : type_rows) {
    if (row.type == type && row.bits >= 8) return {static_cast<uint8_t>(row.code), row.bits, 1};
  }
  throw weft::Error(WEFT_UNSUPPORTED, "E310",
                    std::string("an output is ") + weft_dtype_name(type) + ", which a torch tensor cannot hold",
                    "give numpy arrays as inputs, and results are arrays of ml_dtypes");
}

// --- arrays in and out, without copies ---------------------------------------------------------------------------

using InputArray = nb::ndarray<nb::c_contig, nb::device::cpu, nb::ro>;
using OutputArray = nb::ndarray<nb::c_contig, nb::device::cpu>;

weft_dtype type_named(const std::string& name) {
  for (const TypeRow& row : type_rows) {
    if (name == weft_dtype_name(row.type)) return row.type;
  }
  throw weft::Error(WEFT_USAGE, "E310", "there is no element type '" + name + "'");
}

/// Returns a tensor over an array's memory. The tensor keeps the array alive, because an output may be a view of an
/// input.
weft::Tensor tensor_over(InputArray array, weft_dtype type, const std::vector<int64_t>& dims) {
  size_t bytes = array.nbytes();
  if (weft_dtype_bits(type) < 8) {  // nbytes counts a whole byte for each element
    int64_t count = 1;
    for (int64_t size : dims) count *= size;
    bytes = static_cast<size_t>((count * weft_dtype_bits(type) + 7) / 8);
  }
  auto held = std::make_unique<InputArray>(array);
  auto release = [](void* user) {
    nb::gil_scoped_acquire gil;
    delete static_cast<InputArray*>(user);
  };
  weft_tensor* tensor = nullptr;
  InputArray* owner = held.release();
  weft::check(weft_tensor_wrap(type, dims.data(), dims.size(), array.data(), bytes, release, owner, &tensor));
  return weft::Tensor(tensor);
}

weft::Tensor tensor_of(InputArray array) {
  std::vector<int64_t> dims;
  for (size_t i = 0; i < array.ndim(); ++i) dims.push_back(static_cast<int64_t>(array.shape(i)));
  if (!dims.empty()) dims.back() *= array.dtype().lanes;
  return tensor_over(array, from_dlpack(array.dtype()), dims);
}

/// Returns a tensor of `type` over an array of integers that hold the bits of its elements.
weft::Tensor tensor_of_bits(InputArray array, const std::string& type, const std::vector<int64_t>& dims) {
  return tensor_over(array, type_named(type), dims);
}

/// Returns address, sizes and element type of a contiguous array in any memory, also of a GPU.
nb::tuple memory_of(const nb::ndarray<nb::c_contig, nb::ro>& array) {
  std::vector<int64_t> dims;
  for (size_t i = 0; i < array.ndim(); ++i) dims.push_back(static_cast<int64_t>(array.shape(i)));
  return nb::make_tuple(reinterpret_cast<uintptr_t>(array.data()), dims, weft_dtype_name(from_dlpack(array.dtype())));
}

weft::Tensor tensor_of_strings(const std::vector<int64_t>& dims, const std::vector<nb::bytes>& strings) {
  std::vector<const char*> pointers;
  std::vector<size_t> lengths;
  for (const nb::bytes& text : strings) pointers.push_back(text.c_str()), lengths.push_back(text.size());
  weft_tensor* tensor = nullptr;
  weft::check(weft_tensor_strings(dims.data(), dims.size(), pointers.data(), lengths.data(), &tensor));
  return weft::Tensor(tensor);
}

nb::object strings_of(const weft::Tensor& tensor) {
  nb::list strings;
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    std::string_view text = tensor.string(static_cast<size_t>(i));
    strings.append(nb::bytes(text.data(), text.size()));
  }
  return nb::make_tuple(std::vector<int64_t>(tensor.dims().begin(), tensor.dims().end()), strings);
}

/// Returns an array over the tensor's memory. The caller may write to the array, so memory that may be shared is
/// copied, unless `is_own` says that it belongs to this tensor alone.
template <class Framework>
nb::object array_of(const weft::Tensor& tensor, std::vector<size_t> shape, nb::dlpack::dtype type, bool is_own) {
  bool copies = !is_own && weft_tensor_is_shared(tensor.get());
  auto* held = new weft::Tensor(copies ? weft::Tensor::copy(tensor.dtype(), tensor.bytes(), tensor.dims()) : tensor);
  nb::capsule owner(held, [](void* p) noexcept { delete static_cast<weft::Tensor*>(p); });
  void* data = const_cast<std::byte*>(held->bytes().data());
  return nb::cast(nb::ndarray<Framework>(data, shape.size(), shape.data(), owner, nullptr, type));
}

/// Returns type name, sizes and bytes of a tensor of a type that numpy lacks.
nb::object bits_of(const weft::Tensor& tensor, bool is_own) {
  nb::object bytes = array_of<nb::numpy>(tensor, {tensor.bytes().size()}, nb::dtype<uint8_t>(), is_own);
  return nb::make_tuple(weft_dtype_name(tensor.dtype()),
                        std::vector<int64_t>(tensor.dims().begin(), tensor.dims().end()), bytes);
}

bool is_numpys(weft_dtype type) {
  return weft_dtype_bits(type) >= 8 && type != WEFT_BF16 && (type < WEFT_F8E4M3FN || type > WEFT_F8E8M0);
}

nb::object output_of(const weft::Tensor& tensor, const std::string& framework, bool is_own = false) {
  weft_kind kind = weft_tensor_kind(tensor.get());
  if (kind != WEFT_TENSOR) {
    constexpr const char* names[] = {"tensor", "sequence", "optional", "map"};
    nb::list items;
    for (int64_t i = 0; i < tensor.elements(); ++i)
      items.append(output_of(tensor.item(static_cast<size_t>(i)), kind == WEFT_MAP ? "numpy" : framework, is_own));
    return nb::make_tuple(names[kind], items);
  }
  if (tensor.dtype() == WEFT_STRING) return strings_of(tensor);
  std::vector<size_t> shape(tensor.dims().begin(), tensor.dims().end());
  if (framework == "torch") return array_of<nb::pytorch>(tensor, std::move(shape), to_dlpack(tensor.dtype()), is_own);
  if (!is_numpys(tensor.dtype())) return bits_of(tensor, is_own);
  return array_of<nb::numpy>(tensor, std::move(shape), to_dlpack(tensor.dtype()), is_own);
}

// --- programs ----------------------------------------------------------------------------------------------------

/// An input or output for Python: name, type text, element type, sizes, has_default, is_donated, is_static.
using PortTuple = std::tuple<std::string, std::string, std::string, nb::object, bool, bool, bool>;

PortTuple port_tuple(const weft::Port& port) {
  nb::object sizes = nb::none();
  if (port.is_tensor) {
    nb::list list;
    for (const weft_dim& dim : weft::dims(port)) {
      if (dim.value >= 0) list.append(dim.value);
      else list.append(nb::make_tuple(dim.text, dim.min, dim.max));
    }
    sizes = list;
  }
  const char* dtype = port.is_tensor ? weft_dtype_name(port.dtype) : "";
  return {port.name, port.type, dtype, sizes, port.has_default != 0, port.is_donated != 0, port.is_static != 0};
}

/// A custom operator (weft_operator). `call` gets the attributes, the addresses of operands and results, and
/// `size_count` sizes; it never raises.
struct Operator {
  using Call = std::function<int(std::string, std::vector<uintptr_t>, std::vector<int64_t>)>;
  std::string name, rule, source, function, tasks;
  bool is_pointwise;
  std::optional<Call> call;
  size_t buffer_count, size_count;

  weft_operator get() {
    weft_operator op WEFT_OPERATOR_INIT;
    op.name = name.c_str(), op.rule = rule.c_str(), op.source = source.c_str(), op.function = function.c_str();
    op.tasks = tasks.c_str(), op.is_pointwise = is_pointwise;
    if (call) op.call = &Operator::run, op.user = this;
    return op;
  }

 private:
  static int32_t run(void* user, const char* attributes, void* const* buffers, const int64_t* sizes) {
    auto& self = *static_cast<Operator*>(user);
    nb::gil_scoped_acquire gil;
    std::vector<uintptr_t> addresses;
    for (size_t i = 0; i < self.buffer_count; ++i) addresses.push_back(reinterpret_cast<uintptr_t>(buffers[i]));
    return (*self.call)(attributes, addresses, {sizes, sizes + self.size_count});
  }
};

/// A program and its free contexts. Any number of threads may call it.
class Model {
 public:
  Model(weft::Program program, std::vector<std::shared_ptr<Operator>> operators)
      : operators_(std::move(operators)), program_(std::move(program)) {
    for (const weft::Port& port : program_.inputs()) input_types_.push_back(port.dtype);
  }
  const weft::Program& program() const { return program_; }

  /// Runs the model and returns its outputs. out[i], if given, is the array that output i is written to; then only the
  /// sizes of output i are returned. `out` may be empty. is_bits[i]: out[i] holds the elements' bits as integers.
  std::vector<nb::object> run(const std::vector<std::optional<weft::Tensor>>& inputs,
                              const std::vector<std::optional<OutputArray>>& out, const std::vector<bool>& is_bits,
                              const std::string& framework, double deadline) {
    std::vector<weft::Tensor> tensors, outputs;
    for (const auto& input : inputs) tensors.push_back(input.value_or(weft::Tensor()));
    weft::RunOptions options{.outputs = buffers_of(out, is_bits), .deadline_seconds = deadline};
    {
      nb::gil_scoped_release no_gil;
      outputs = contexts_.run(program_, tensors, options);
      tensors.clear();
    }
    std::vector<nb::object> arrays;
    for (size_t i = 0; i < outputs.size(); ++i) {
      bool is_given = i < out.size() && out[i];
      auto dims = outputs[i].dims();
      arrays.push_back(is_given ? nb::cast(std::vector<int64_t>(dims.begin(), dims.end()))
                                : output_of(outputs[i], framework));
    }
    return arrays;
  }

  /// Runs on memory of the caller. Each input has an address and sizes; it is contiguous and of the program's type.
  /// `allocate` gets the index and sizes of an output and returns its address. With a stream, all addresses are memory
  /// of the program's GPU, and the work is queued on that stream.
  void run_at(const std::vector<uintptr_t>& addresses, const std::vector<std::vector<int64_t>>& sizes,
              nb::callable allocate, std::optional<uintptr_t> stream, double deadline) {
    std::vector<weft::Tensor> tensors;
    for (size_t i = 0; i < addresses.size(); ++i) tensors.push_back(memory_at(i, addresses[i], sizes.at(i)));
    Allocator allocator{allocate, {}};
    weft::RunOptions options{.deadline_seconds = deadline, .allocate = &Allocator::call, .allocate_user = &allocator};
    if (stream) options.on_device = 2, options.stream = reinterpret_cast<void*>(*stream);
    try {
      nb::gil_scoped_release no_gil;
      contexts_.run(program_, tensors, options);
    } catch (const weft::Error&) {
      if (allocator.error) std::rethrow_exception(allocator.error);
      throw;
    }
  }

 private:
  struct Allocator {
    nb::callable function;
    std::exception_ptr error;

    static void* call(void* user, size_t output, const int64_t* dims, size_t rank, size_t) {
      auto& self = *static_cast<Allocator*>(user);
      nb::gil_scoped_acquire gil;
      try {
        return reinterpret_cast<void*>(
            nb::cast<uintptr_t>(self.function(output, std::vector<int64_t>(dims, dims + rank))));
      } catch (...) {
        self.error = std::current_exception();
        return nullptr;
      }
    }
  };

  weft::Tensor memory_at(size_t i, uintptr_t address, const std::vector<int64_t>& dims) const {
    weft_dtype type = input_types_.at(i);
    int64_t count = weft_dtype_bits(type) / 8;
    for (int64_t size : dims) count *= size;
    weft_tensor* tensor = nullptr;
    const void* data = address ? reinterpret_cast<const void*>(address) : this;  // an empty input: any but null
    weft::check(
        weft_tensor_wrap(type, dims.data(), dims.size(), data, static_cast<size_t>(count), nullptr, nullptr, &tensor));
    return weft::Tensor(tensor);
  }

  std::vector<weft_buffer> buffers_of(const std::vector<std::optional<OutputArray>>& out,
                                      const std::vector<bool>& is_bits) const {
    std::vector<weft_buffer> buffers;
    auto ports = program_.outputs();
    for (size_t i = 0; i < out.size(); ++i) {
      if (out[i] && !is_bits.at(i) && from_dlpack(out[i]->dtype()) != ports.at(i).dtype)
        throw weft::Error(WEFT_USAGE, "E310",
                          std::string("the array for output '") + ports[i].name + "' does not hold " +
                              weft_dtype_name(ports[i].dtype));
      buffers.push_back(out[i] ? weft_buffer{out[i]->data(), out[i]->nbytes()} : weft_buffer{nullptr, 0});
    }
    return buffers;
  }

  std::vector<std::shared_ptr<Operator>> operators_;  // kept alive: the program may call them
  weft::Program program_;
  std::vector<weft_dtype> input_types_;
  weft::python::Contexts contexts_;
};

using Progress = std::function<void(std::string, size_t, size_t)>;

/// For each kind of option, the C++ type that its Python value is converted to.
namespace option {
using text = std::string;
using path = std::string;
using number = int;
using bytes = int64_t;
using seconds = double;
using deadline = double;
using flag = bool;
using cache = bool;
using precision = std::string;
using texts = std::vector<std::string>;
using shapes = texts;
using symbols = texts;
using donations = texts;
using constants = std::vector<std::pair<std::string, weft::Tensor>>;
using operators = std::vector<std::shared_ptr<Operator>>;
using progress = std::optional<Progress>;
struct Absent {};  ///< the type of an option that Python does not have
using allocator = Absent;
using executor = Absent;
using borrow = Absent;
using stop = Absent;
using static_inputs = Absent;
}  // namespace option

template <class From, class To>
void give(const From& from, To& to) {
  if constexpr (!std::is_same_v<From, option::Absent> && !std::is_same_v<From, option::progress>) to = from;
}

void give(const std::string& name, weft_precision& to) {
  if (name.empty() || name == "f32" || name == "fp32") to = WEFT_PRECISION_F32;
  else if (name == "bf16") to = WEFT_PRECISION_BF16;
  else if (name == "f16" || name == "fp16") to = WEFT_PRECISION_F16;
  else throw weft::Error(WEFT_USAGE, "E203", "'" + name + "' is not a precision", "one of f32, bf16, f16");
}

void give(const option::operators& operators, std::vector<weft_operator>& to) {
  for (const auto& op : operators) to.push_back(op->get());
}

/// A `progress` function during one compile. An exception of the function ends the compile; it may not pass through
/// the C interface, so `result_of` throws it afterwards.
class WatchedProgress {
 public:
  explicit WatchedProgress(const option::progress& call) : call_(call) {}
  WatchedProgress(const WatchedProgress&) = delete;

  void give_to(weft::CompileOptions& options) {
    if (!call_) return;
    options.progress = [this](std::string_view phase, size_t done, size_t total) {
      if (has_failed_) return;
      nb::gil_scoped_acquire gil;
      try {
        (*call_)(std::string(phase), done, total);
      } catch (...) {
        error_ = std::current_exception();
        has_failed_ = true;
      }
    };
    options.stop = [this] { return has_failed_.load(); };
  }

  /// Returns the result of `compile`, or throws the exception of the function.
  template <class Compile>
  auto result_of(const Compile& compile) {
    try {
      auto made = compile();
      if (!has_failed_) return made;
    } catch (const weft::Error&) {
      if (!has_failed_) throw;
    }
    std::rethrow_exception(error_);
  }

 private:
  const option::progress& call_;
  std::exception_ptr error_;
  std::atomic<bool> has_failed_ = false;
};

struct Options {
#define OPTION(kind, name, initial, ...) option::kind name = initial;
#include "compile/options.def"

  weft::CompileOptions get() const {  ///< without `progress`, see WatchedProgress
    weft::CompileOptions o;
#define no_cache use_cache  // the C option no_cache is called use_cache in weft::CompileOptions
#define OPTION(kind, name, initial, api, ...) give(name, o.api);
#include "compile/options.def"
#undef no_cache
    return o;
  }
};

template <class T>
void add_option(nb::class_<Options>& options, const char* name, T Options::* member) {
  if constexpr (std::is_same_v<T, option::progress>) options.def_rw(name, member, nb::arg().none());
  else if constexpr (!std::is_same_v<T, option::Absent>) options.def_rw(name, member);
}

template <class Compile>
Model* make_model(const Options& options, const Compile& compile) {
  weft::CompileOptions o = options.get();
  WatchedProgress progress(options.progress);
  progress.give_to(o);
  nb::gil_scoped_release no_gil;
  return new Model(progress.result_of([&] { return compile(o); }), options.operators);
}

// --- quantisation ------------------------------------------------------------------------------------------------

/// The options of weft.quantize and its Python callbacks. The callbacks never raise: _quantize.py catches exceptions of
/// the caller's functions and raises them after the run.
struct Quantization {
  /// Gets an index; returns the result of weft_quantize_options.item (a number) and the input tensors.
  using Item = std::function<std::pair<int, std::vector<std::optional<weft::Tensor>>>(size_t)>;
  std::string to, method, weights, ranges;
  double percentile = 0, budget = 0, smooth = 0;
  int block = 0, threads = 0;
  bool symmetric = false, per_tensor = false, keep_bias = false, qdq = false, reduce_range = false;
  std::vector<std::string> keep;
  std::optional<Item> item;
  std::optional<std::function<double(std::string)>> metric;
  std::optional<Progress> progress;

  std::string run(const std::string& model, const std::string& output) {
    std::vector<const char*> patterns = weft::detail::pointers(keep);
    weft_quantize_options o WEFT_QUANTIZE_OPTIONS_INIT;
    auto text = [](const std::string& given) { return given.empty() ? nullptr : given.c_str(); };
    o.to = text(to), o.method = text(method), o.weights = text(weights), o.ranges = text(ranges);
    o.percentile = percentile, o.budget = budget, o.smooth = smooth, o.block = block, o.threads = threads;
    o.symmetric = symmetric, o.per_tensor = per_tensor, o.keep_bias = keep_bias, o.qdq = qdq;
    o.reduce_range = reduce_range;
    o.keep = patterns.data(), o.keep_count = patterns.size(), o.user = this;
    if (item) o.item = &Quantization::give_item;
    if (metric) o.metric = &Quantization::give_metric;
    if (progress) o.progress = &Quantization::show_progress;
    nb::gil_scoped_release no_gil;
    return weft::own_text([&](char** report) { return weft_quantize(model.c_str(), output.c_str(), &o, report); });
  }

 private:
  static int32_t give_item(void* user, size_t index, weft_tensor** inputs) {
    nb::gil_scoped_acquire gil;
    auto [answer, given] = (*static_cast<Quantization*>(user)->item)(index);
    for (size_t i = 0; i < given.size(); ++i)
      if (given[i]) weft_status_free(weft_tensor_share(given[i]->get(), &inputs[i]));
    return answer;
  }
  static double give_metric(void* user, const char* path) {
    nb::gil_scoped_acquire gil;
    return (*static_cast<Quantization*>(user)->metric)(path);
  }
  static void show_progress(void* user, const char* phase, size_t done, size_t total) {
    nb::gil_scoped_acquire gil;
    (*static_cast<Quantization*>(user)->progress)(phase, done, total);
  }
};

// --- errors ------------------------------------------------------------------------------------------------------

void raise(const weft::Error& error) {
  nb::object made = weft::python::exception_of(error);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(made.ptr())), made.ptr());
}

void translate(const std::exception_ptr& pointer, void*) {
  try {
    std::rethrow_exception(pointer);
  } catch (const weft::Error& error) {
    raise(error);
  }
}

void bind_graph(nb::module_& m) {
  nb::class_<weft_value>(m, "Value");
  nb::class_<weft::Graph>(m, "Graph")
      .def(nb::init<const std::string&>(), "name"_a = "")
      .def_static("parse", &weft::Graph::parse, "text"_a)
      .def("symbol", &weft::Graph::symbol, "name"_a, "min"_a, "max"_a)
      .def("input", &weft::Graph::input, "name"_a, "type"_a)
      .def(
          "constant", [](weft::Graph& g, const weft::Tensor& tensor) { return g.constant(tensor); }, "tensor"_a)
      .def(
          "append",
          [](weft::Graph& g, const std::string& op, const std::vector<weft_value>& inputs) {
            return g.append(op, inputs);
          },
          "op"_a, "inputs"_a)
      .def("add_operator", [](weft::Graph& g, const std::shared_ptr<Operator>& op) { g.add_operator(op->get()); })
      .def("source", &weft::Graph::source, "place"_a)
      .def("output", &weft::Graph::output, "name"_a, "value"_a)
      .def("type", &weft::Graph::type, "value"_a)
      .def("compile",
           [](weft::Graph& g, const Options& o) {
             return make_model(o, [&](const weft::CompileOptions& options) { return g.compile(options); });
           })
      .def("__str__", &weft::Graph::print);
}

}  // namespace

namespace weft::python {

nb::object exception_of(const weft::Error& error) {
  return nb::module_::import_("weft._errors")
      .attr("make")(static_cast<int>(error.kind()), error.what(), error.code(), error.where(), error.why(),
                    error.hint());
}
nb::object array_of(const weft::Tensor& tensor, bool is_own) { return output_of(tensor, "numpy", is_own); }
weft::Program program_of(nb::handle model) { return nb::cast<const Model&>(model).program(); }

}  // namespace weft::python

/// Runs the `weft` command in this process; see driver/verbs.h. SIGINT and SIGPIPE end the process, as for any command.
int command(const std::vector<std::string>& words, std::vector<std::string> program) {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGPIPE, SIG_DFL);
  return weft::driver::command(words, std::move(program));
}

NB_MODULE(_weft, m) {
  nb::register_exception_translator(translate);
  m.attr("__version__") = weft::version();
  m.def("command", command, "words"_a, "program"_a, nb::call_guard<nb::gil_scoped_release>());
  nb::class_<weft::Tensor>(m, "Tensor");
  m.def("tensor", tensor_of, "array"_a);
  m.def("memory_of", memory_of, nb::arg("array").noconvert());
  m.def("tensor_of_bits", tensor_of_bits, "bits"_a, "dtype"_a, "dims"_a);
  m.def("tensor_of_strings", tensor_of_strings, "dims"_a, "strings"_a);
  nb::class_<Operator>(m, "Operator")
      .def(
          "__init__",
          [](Operator* self, std::string name, std::string rule, std::string source, std::string function,
             std::string tasks, bool is_pointwise, std::optional<Operator::Call> call, size_t buffer_count,
             size_t size_count) {
            new (self) Operator{name, rule, source, function, tasks, is_pointwise, call, buffer_count, size_count};
          },
          "name"_a, "rule"_a, "source"_a, "function"_a, "tasks"_a, "is_pointwise"_a, "call"_a.none(), "buffer_count"_a,
          "size_count"_a);
  m.def(
      "collect",
      [](int kind, const std::vector<weft::Tensor>& items) {
        return weft::Tensor::collect(static_cast<weft_kind>(kind), items);
      },
      "kind"_a, "items"_a);
  nb::class_<Options> options(m, "Options");
  options.def(nb::init<>());
#define OPTION(kind, name, ...) add_option(options, #name, &Options::name);
#include "compile/options.def"
  nb::class_<Quantization>(m, "Quantization")
      .def(nb::init<>())
      .def_rw("to", &Quantization::to)
      .def_rw("method", &Quantization::method)
      .def_rw("weights", &Quantization::weights)
      .def_rw("ranges", &Quantization::ranges)
      .def_rw("percentile", &Quantization::percentile)
      .def_rw("budget", &Quantization::budget)
      .def_rw("smooth", &Quantization::smooth)
      .def_rw("block", &Quantization::block)
      .def_rw("threads", &Quantization::threads)
      .def_rw("symmetric", &Quantization::symmetric)
      .def_rw("per_tensor", &Quantization::per_tensor)
      .def_rw("keep_bias", &Quantization::keep_bias)
      .def_rw("qdq", &Quantization::qdq)
      .def_rw("reduce_range", &Quantization::reduce_range)
      .def_rw("keep", &Quantization::keep)
      .def_rw("item", &Quantization::item, nb::arg().none())
      .def_rw("metric", &Quantization::metric, nb::arg().none())
      .def_rw("progress", &Quantization::progress, nb::arg().none())
      .def("run", &Quantization::run, "model"_a, "output"_a);
  m.def("model_inputs", [](const std::string& path) {
    weft::Graph graph = weft::Graph::read(path);
    std::vector<PortTuple> ports;
    for (const weft::Port& port : graph.inputs()) ports.push_back(port_tuple(port));
    return ports;
  });
  nb::class_<Model>(m, "Model")
      .def_prop_ro("device", [](const Model& m) { return m.program().device(); })
      .def_prop_ro("inputs",
                   [](const Model& m) {
                     std::vector<PortTuple> ports;
                     for (const weft::Port& port : m.program().inputs()) ports.push_back(port_tuple(port));
                     return ports;
                   })
      .def_prop_ro("outputs",
                   [](const Model& m) {
                     std::vector<PortTuple> ports;
                     for (const weft::Port& port : m.program().outputs()) ports.push_back(port_tuple(port));
                     return ports;
                   })
      .def("report", [](const Model& m) { return m.program().report(); })
      .def("save",
           [](const Model& m, const std::string& path, const std::vector<std::string>& targets) {
             nb::gil_scoped_release no_gil;
             m.program().save(path, targets);
           })
      .def("run_at", &Model::run_at, "addresses"_a, "sizes"_a, "allocate"_a, "stream"_a.none(), "deadline"_a)
      .def("run", &Model::run, "inputs"_a, "out"_a, "is_bits"_a, "framework"_a, "deadline"_a);
  m.def("compile", [](const std::string& path, const Options& o) {
    return make_model(o, [&](const weft::CompileOptions& options) { return weft::compile(path, options); });
  });
  m.def("compile_bytes", [](nb::bytes model, const Options& o) {
    std::span bytes(reinterpret_cast<const std::byte*>(model.c_str()), model.size());
    return make_model(o, [&](const weft::CompileOptions& options) { return weft::compile(bytes, options); });
  });
  m.def("load", [](const std::string& path, const Options& o) {
    return make_model(o, [&](const weft::CompileOptions& options) { return weft::load(path, options); });
  });
  m.def("print_model", [](const std::string& path, const std::string& stage, const Options& o) {
    weft::CompileOptions options = o.get();
    weft::detail::CompileOptionsView view(options);
    return weft::own_text([&](char** out) { return weft_print(path.c_str(), view.get(), stage.c_str(), out); });
  });
  m.def("support", [](const std::string& path, const Options& o) { return weft::support(path, o.get()); });
  bind_graph(m);
  weft::python::bind_batcher(m);
  weft::python::bind_torch_call(m);
}
