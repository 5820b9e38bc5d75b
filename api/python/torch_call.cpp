// SPDX-License-Identifier: Apache-2.0
// Runs a program on tensors of torch, for weft/torch.py.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include "api/python/module.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

/// The first members of DLPack's table of C functions (DLPackExchangeAPI, DLPack 1.3), which torch has from 2.11 on.
struct ExchangeTable {
  uint32_t major, minor;
  const ExchangeTable* older;
  void *allocate, *take, *give;
  int (*look)(void* object, nb::dlpack::dltensor* out);  ///< views the tensor; returns 0, or -1 with an exception set
  void* stream;
};

struct Look {
  const void* data = nullptr;
  std::vector<int64_t> sizes = {};
  bool is_contiguous = true;
};

/// Reads a tensor by the Python methods that every version of torch has.
Look slow_look(nb::handle tensor) {
  Look found{.data = reinterpret_cast<const void*>(nb::cast<uintptr_t>(tensor.attr("data_ptr")()))};
  found.sizes = nb::cast<std::vector<int64_t>>(tensor.attr("shape"));
  found.is_contiguous = nb::cast<bool>(tensor.attr("is_contiguous")());
  return found;
}

bool is_contiguous(const nb::dlpack::dltensor& tensor) {
  int64_t step = 1;
  bool is_dense = true;
  for (int32_t a = tensor.ndim; a-- > 0; step *= tensor.shape[a]) {
    if (tensor.shape[a] == 0) return true;
    is_dense = is_dense && (tensor.shape[a] == 1 || !tensor.strides || tensor.strides[a] == step);
  }
  return is_dense;
}

class TorchCall {
 public:
  /// `order[i]` is the index of the program's input i among the arguments. makers[i] is called with the sizes of output
  /// i and returns a new tensor. `table`: Tensor.__dlpack_c_exchange_api__, or None. `held`: the arguments that are
  /// constants of the program, each as its index and its tensor.
  TorchCall(nb::handle model, nb::object tensor_type, nb::handle table, std::vector<size_t> order, nb::list makers,
            const std::vector<std::pair<size_t, nb::object>>& held)
      : program_(weft::python::program_of(model)), type_(tensor_type), order_(std::move(order)) {
    for (const weft::Port& port : program_.inputs()) types_.push_back(port.dtype);
    for (nb::handle maker : makers) makers_.push_back(nb::borrow(maker));
    if (!table.is_none()) {
      table_ = static_cast<const ExchangeTable*>(PyCapsule_GetPointer(table.ptr(), "dlpack_exchange_api"));
      if (!table_) throw nb::python_error();
      while (table_ && table_->major > 1) table_ = table_->older;
    }
    for (const auto& [place, tensor] : held) held_.push_back({place, data_of(tensor), version_of(tensor)});
  }

  /// Runs the program on tensors and integers. Returns a tuple of new tensors, or None if a constant of the program has
  /// changed. With a stream, the work is queued on it.
  nb::object run(nb::tuple arguments, std::optional<uintptr_t> stream) {
    for (const Held& each : held_) {
      nb::handle given = arguments[each.place];
      if (data_of(given) != each.data || version_of(given) != each.version) return nb::none();
    }
    Inputs inputs{std::vector<int64_t>(order_.size())};
    for (size_t i = 0; i < order_.size(); ++i) inputs.add(*this, i, arguments[order_[i]]);
    Outputs outputs{*this, std::vector<nb::object>(makers_.size())};
    weft::RunOptions options{.allocate = &Outputs::allocate, .allocate_user = &outputs};
    if (stream) options.on_device = 2, options.stream = reinterpret_cast<void*>(*stream);
    try {
      nb::gil_scoped_release no_gil;
      contexts_.run(program_, inputs.tensors, options);
    } catch (const weft::Error&) {
      if (outputs.error) std::rethrow_exception(outputs.error);
      throw;
    }
    nb::object results = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(makers_.size())));
    for (size_t i = 0; i < makers_.size(); ++i)
      PyTuple_SetItem(results.ptr(), static_cast<Py_ssize_t>(i), outputs.tensors[i].release().ptr());
    return results;
  }

 private:
  struct Inputs {
    std::vector<int64_t> numbers;
    std::vector<weft::Tensor> tensors = {};
    std::vector<nb::object> copies = {};

    void add(const TorchCall& call, size_t i, nb::handle given) {
      if (PyLong_Check(given.ptr())) {
        numbers[i] = nb::cast<int64_t>(given);
        return add(call.types_.at(i), {.data = &numbers[i]});
      }
      Look seen = call.look(given);
      if (!seen.is_contiguous) {
        copies.push_back(given.attr("contiguous")());
        seen = call.look(copies.back());
      }
      add(call.types_.at(i), seen);
    }
    void add(weft_dtype type, const Look& of) {
      int64_t bytes = weft_dtype_bits(type) / 8;
      for (int64_t size : of.sizes) bytes *= size;
      const void* data = of.data ? of.data : this;  // an empty tensor may have any address but null
      weft_tensor* tensor = nullptr;
      weft::check(weft_tensor_wrap(type, of.sizes.data(), of.sizes.size(), data, static_cast<size_t>(bytes), nullptr,
                                   nullptr, &tensor));
      tensors.emplace_back(tensor);
    }
  };

  struct Outputs {
    const TorchCall& call;
    std::vector<nb::object> tensors;
    std::exception_ptr error = {};

    static void* allocate(void* user, size_t output, const int64_t* dims, size_t rank, size_t) {
      auto& self = *static_cast<Outputs*>(user);
      nb::gil_scoped_acquire gil;
      try {
        nb::object sizes = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(rank)));
        for (size_t a = 0; a < rank; ++a)
          PyTuple_SetItem(sizes.ptr(), static_cast<Py_ssize_t>(a), PyLong_FromLongLong(dims[a]));
        nb::object& made = self.tensors.at(output);
        made = self.call.makers_.at(output)(sizes);
        return const_cast<void*>(self.call.look(made).data);
      } catch (...) {
        self.error = std::current_exception();
        return nullptr;
      }
    }
  };

  /// An argument that is a constant of the program: its index, its address, and torch's count of writes to it.
  struct Held {
    size_t place;
    const void* data;
    int64_t version;
  };
  int64_t version_of(nb::handle tensor) const { return nb::cast<int64_t>(tensor.attr(version_)); }

  /// Returns a DLPack view of a tensor by torch's table of functions; nullopt if this torch has no such table.
  std::optional<nb::dlpack::dltensor> borrowed(nb::handle given) const {
    if (!PyType_IsSubtype(Py_TYPE(given.ptr()), reinterpret_cast<PyTypeObject*>(type_.ptr())))
      throw nb::type_error("a call of torch.compile returns a value that is not a tensor");
    if (!table_ || !table_->look) return {};
    nb::dlpack::dltensor seen;
    if (table_->look(given.ptr(), &seen)) throw nb::python_error();
    return seen;
  }
  static const void* start_of(const nb::dlpack::dltensor& tensor) {
    return static_cast<const std::byte*>(tensor.data) + tensor.byte_offset;
  }
  const void* data_of(nb::handle given) const {
    auto seen = borrowed(given);
    return seen ? start_of(*seen) : slow_look(given).data;
  }
  Look look(nb::handle given) const {
    auto seen = borrowed(given);
    if (!seen) return slow_look(given);
    return {.data = start_of(*seen),
            .sizes = {seen->shape, seen->shape + seen->ndim},
            .is_contiguous = is_contiguous(*seen)};
  }

  weft::Program program_;
  nb::object type_;
  nb::str version_{"_version"};
  const ExchangeTable* table_ = nullptr;
  std::vector<size_t> order_;
  std::vector<weft_dtype> types_;
  std::vector<nb::object> makers_;
  std::vector<Held> held_;
  weft::python::Contexts contexts_;
};

}  // namespace

void weft::python::bind_torch_call(nb::module_& m) {
  nb::class_<TorchCall>(m, "TorchCall")
      .def(nb::init<nb::handle, nb::object, nb::handle, std::vector<size_t>, nb::list,
                    const std::vector<std::pair<size_t, nb::object>>&>(),
           "model"_a, "tensor_type"_a, "table"_a.none(), "order"_a, "makers"_a, "held"_a)
      .def("run", &TorchCall::run, "arguments"_a, "stream"_a.none());
}
