// SPDX-License-Identifier: Apache-2.0
// The native half of the Python package: programs, contexts and arrays. What is comfortable lies in weft/__init__.py.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <mutex>

#include "weft/weft.hpp"

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
    {WEFT_BOOL, nb::dlpack::dtype_code::Bool, 8},      {WEFT_U8, nb::dlpack::dtype_code::UInt, 8},
    {WEFT_U16, nb::dlpack::dtype_code::UInt, 16},      {WEFT_U32, nb::dlpack::dtype_code::UInt, 32},
    {WEFT_U64, nb::dlpack::dtype_code::UInt, 64},      {WEFT_I8, nb::dlpack::dtype_code::Int, 8},
    {WEFT_I16, nb::dlpack::dtype_code::Int, 16},       {WEFT_I32, nb::dlpack::dtype_code::Int, 32},
    {WEFT_I64, nb::dlpack::dtype_code::Int, 64},       {WEFT_F16, nb::dlpack::dtype_code::Float, 16},
    {WEFT_BF16, nb::dlpack::dtype_code::Bfloat, 16},   {WEFT_F32, nb::dlpack::dtype_code::Float, 32},
    {WEFT_F64, nb::dlpack::dtype_code::Float, 64},     {WEFT_C64, nb::dlpack::dtype_code::Complex, 64},
    {WEFT_C128, nb::dlpack::dtype_code::Complex, 128},
};

weft_dtype from_dlpack(nb::dlpack::dtype type) {
  for (const TypeRow& row : type_rows) {
    if (static_cast<uint8_t>(row.code) == type.code && row.bits == type.bits && type.lanes == 1) return row.type;
  }
  throw weft::Error(WEFT_USAGE, "E310", "an input has an element type that Weft does not take as an array");
}

nb::dlpack::dtype to_dlpack(weft_dtype type) {
  for (const TypeRow& row : type_rows) {
    if (row.type == type) return {static_cast<uint8_t>(row.code), row.bits, 1};
  }
  throw weft::Error(WEFT_UNSUPPORTED, "E310",
                    std::string("an output is ") + weft_dtype_name(type) + ", which no array type can hold");
}

// --- arrays in and out, without copies ---------------------------------------------------------------------------

using InputArray = nb::ndarray<nb::c_contig, nb::device::cpu, nb::ro>;

/// A tensor over an array's memory, which the tensor keeps alive: an output may be a view of an input.
weft::Tensor tensor_of(InputArray array) {
  std::vector<int64_t> dims;
  for (size_t i = 0; i < array.ndim(); ++i) dims.push_back(static_cast<int64_t>(array.shape(i)));
  weft_dtype type = from_dlpack(array.dtype());
  auto held = std::make_unique<InputArray>(array);
  auto release = [](void* user) {
    nb::gil_scoped_acquire gil;
    delete static_cast<InputArray*>(user);
  };
  weft_tensor* tensor = nullptr;
  InputArray* owner = held.release();
  weft::check(weft_tensor_wrap(type, dims.data(), dims.size(), array.data(), array.nbytes(), release, owner, &tensor));
  return weft::Tensor(tensor);
}

weft::Tensor tensor_of_strings(const std::vector<int64_t>& dims, const std::vector<std::string>& texts) {
  std::vector<const char*> pointers;
  std::vector<size_t> lengths;
  for (const std::string& text : texts) pointers.push_back(text.data()), lengths.push_back(text.size());
  weft_tensor* tensor = nullptr;
  weft::check(weft_tensor_strings(dims.data(), dims.size(), pointers.data(), lengths.data(), &tensor));
  return weft::Tensor(tensor);
}

nb::object strings_of(const weft::Tensor& tensor) {
  nb::list texts;
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    std::string_view text = tensor.string(static_cast<size_t>(i));
    texts.append(nb::bytes(text.data(), text.size()));
  }
  return nb::make_tuple(std::vector<int64_t>(tensor.dims().begin(), tensor.dims().end()), texts);
}

/// An array over the tensor's memory; over a copy when something else holds that memory too, because the caller may
/// write to it.
template <class Framework>
nb::object array_of(const weft::Tensor& tensor) {
  auto* held = new weft::Tensor(
      weft_tensor_is_shared(tensor.get()) ? weft::Tensor::copy(tensor.dtype(), tensor.bytes(), tensor.dims()) : tensor);
  nb::capsule owner(held, [](void* p) noexcept { delete static_cast<weft::Tensor*>(p); });
  std::vector<size_t> shape(tensor.dims().begin(), tensor.dims().end());
  void* data = const_cast<std::byte*>(held->bytes().data());
  return nb::cast(nb::ndarray<Framework>(data, shape.size(), shape.data(), owner, nullptr, to_dlpack(tensor.dtype())));
}

nb::object output_of(const weft::Tensor& tensor, const std::string& framework) {
  if (tensor.dtype() == WEFT_STRING) return strings_of(tensor);
  return framework == "torch" ? array_of<nb::pytorch>(tensor) : array_of<nb::numpy>(tensor);
}

// --- programs ----------------------------------------------------------------------------------------------------

/// An input or output as Python sees it: name, type text, element type, sizes.
using PortTuple = std::tuple<std::string, std::string, std::string, nb::object, bool, bool>;

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
  return {
      port.name,           port.type, port.is_tensor ? weft_dtype_name(port.dtype) : "", sizes, port.has_default != 0,
      port.is_donated != 0};
}

/// A program and contexts that are free: any number of threads may call it.
class Model {
 public:
  explicit Model(weft::Program program) : program_(std::move(program)) {}
  const weft::Program& program() const { return program_; }

  std::vector<nb::object> run(const std::vector<std::optional<weft::Tensor>>& inputs, const std::string& framework,
                              double deadline) {
    std::vector<weft::Tensor> tensors, outputs;
    for (const auto& input : inputs) tensors.push_back(input.value_or(weft::Tensor()));
    {
      nb::gil_scoped_release no_gil;
      weft::Context context = take();
      outputs = context.run(tensors, {.deadline_seconds = deadline});
      give_back(std::move(context));
      tensors.clear();
    }
    std::vector<nb::object> arrays;
    for (const weft::Tensor& output : outputs) arrays.push_back(output_of(output, framework));
    return arrays;
  }

 private:
  weft::Context take() {
    std::scoped_lock lock(mutex_);
    if (free_.empty()) return program_.new_context();
    weft::Context context = std::move(free_.back());
    free_.pop_back();
    return context;
  }
  void give_back(weft::Context context) {
    std::scoped_lock lock(mutex_);
    free_.push_back(std::move(context));
  }

  weft::Program program_;
  std::mutex mutex_;
  std::vector<weft::Context> free_;
};

using Progress = std::function<void(std::string, size_t, size_t)>;

struct Options {
  std::string device;
  int threads;
  std::string precision;
  std::vector<std::string> shapes, symbols, keep_f32;
  std::string folder, dump;
  bool cache;
  std::optional<Progress> progress;
  std::vector<std::string> fixed_defaults, donations;

  weft::CompileOptions get() const {
    weft::CompileOptions o{.device = device, .threads = threads, .precision = precision_of(precision)};
    o.shapes = shapes, o.symbols = symbols, o.keep_f32 = keep_f32;
    o.fixed_defaults = fixed_defaults, o.donations = donations;
    o.folder = folder, o.dump_folder = dump, o.use_cache = cache;
    if (!progress) return o;
    o.progress = [call = *progress](std::string_view phase, size_t done, size_t total) {
      nb::gil_scoped_acquire gil;
      call(std::string(phase), done, total);
    };
    return o;
  }

  static weft_precision precision_of(const std::string& name) {
    if (name == "f32" || name == "fp32") return WEFT_PRECISION_F32;
    if (name == "bf16") return WEFT_PRECISION_BF16;
    if (name == "f16" || name == "fp16") return WEFT_PRECISION_F16;
    throw weft::Error(WEFT_USAGE, "E203", "'" + name + "' is no precision", "one of f32, bf16, f16");
  }
};

template <class Compile>
Model* make_model(const Options& options, const Compile& compile) {
  weft::CompileOptions o = options.get();
  nb::gil_scoped_release no_gil;
  return new Model(compile(o));
}

// --- errors ------------------------------------------------------------------------------------------------------

/// Raises the class of weft._errors that belongs to the error's kind.
void raise(const weft::Error& error) {
  nb::object made = nb::module_::import_("weft._errors")
                        .attr("make")(static_cast<int>(error.kind()), error.what(), error.code(), error.where(),
                                      error.why(), error.hint());
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
          "constant", [](weft::Graph& g, InputArray array) { return g.constant(tensor_of(array)); }, "array"_a)
      .def(
          "append",
          [](weft::Graph& g, const std::string& op, const std::vector<weft_value>& inputs) {
            return g.append(op, inputs);
          },
          "op"_a, "inputs"_a)
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

NB_MODULE(_weft, m) {
  nb::register_exception_translator(translate);
  m.attr("__version__") = weft::version();
  nb::class_<weft::Tensor>(m, "Tensor");
  m.def("tensor", tensor_of, "array"_a);
  m.def("tensor_of_strings", tensor_of_strings, "dims"_a, "texts"_a);
  nb::class_<Options>(m, "Options")
      .def(
          "__init__",
          [](Options* self, std::string device, int threads, std::string precision, std::vector<std::string> shapes,
             std::vector<std::string> symbols, std::vector<std::string> keep_f32, std::string folder, std::string dump,
             bool cache, std::optional<Progress> progress, std::vector<std::string> fixed_defaults,
             std::vector<std::string> donations) {
            new (self) Options{device, threads, precision, shapes,   symbols,        keep_f32,
                               folder, dump,    cache,     progress, fixed_defaults, donations};
          },
          "device"_a, "threads"_a, "precision"_a, "shapes"_a, "symbols"_a, "keep_f32"_a, "folder"_a, "dump"_a,
          "cache"_a, "progress"_a.none(), "fixed_defaults"_a, "donations"_a);
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
      .def("save", [](const Model& m, const std::string& path) { m.program().save(path); })
      .def("run", &Model::run, "inputs"_a, "framework"_a, "deadline"_a);
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
  bind_graph(m);
}
