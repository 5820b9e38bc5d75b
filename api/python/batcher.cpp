// SPDX-License-Identifier: Apache-2.0
#include "api/serve/batcher.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <future>
#include <system_error>

#include "api/python/module.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace weft::python {
namespace {

using Given = std::vector<std::optional<Tensor>>;

/// Tensors that wait to be freed; their memory belongs to Python objects. Any thread may add tensors; a thread that
/// holds the interpreter's lock (GIL) frees them.
class Leftovers {
 public:
  void add(Tensor tensor) {
    std::scoped_lock lock(mutex_);
    tensors_.push_back(std::move(tensor));
  }
  void free() {
    std::vector<Tensor> freed;
    std::scoped_lock lock(mutex_);
    freed.swap(tensors_);
  }

 private:
  std::mutex mutex_;
  std::vector<Tensor> tensors_;
};

/// Returns a new tensor over the memory of `tensor`. Threads without the interpreter's lock may free the new tensor.
/// Returns strings and containers unchanged.
Tensor lent(const Tensor& tensor, const std::shared_ptr<Leftovers>& leftovers) {
  bool has_bytes = weft_tensor_kind(tensor.get()) == WEFT_TENSOR && tensor.dtype() != WEFT_STRING;
  if (!has_bytes) return tensor;
  struct Loan {
    Tensor tensor;
    std::shared_ptr<Leftovers> leftovers;
  };
  auto release = [](void* user) {
    std::unique_ptr<Loan> loan(static_cast<Loan*>(user));
    loan->leftovers->add(std::move(loan->tensor));
  };
  auto dims = tensor.dims();
  auto bytes = tensor.bytes();
  weft_tensor* made = nullptr;
  check(weft_tensor_wrap(tensor.dtype(), dims.data(), dims.size(), bytes.data(), bytes.size(), release,
                         new Loan{tensor, leftovers}, &made));
  return Tensor(made);
}

std::optional<serve::Clock::time_point> point_after(double seconds) {
  if (seconds <= 0) return {};
  auto time = std::chrono::duration<double>(std::min(seconds, 1e9));
  return serve::Clock::now() + std::chrono::duration_cast<serve::Clock::duration>(time);
}

/// A Batcher with a queue of answers. Its file descriptor is readable while answers wait, so that an event loop can
/// watch it.
class Queue {
 public:
  Queue(const std::vector<nb::object>& models, int64_t max_rows, double delay, size_t max_waiting)
      : event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (event_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
    std::vector<Program> programs;
    for (const nb::object& model : models) programs.push_back(program_of(model));
    is_ref_ = programs.at(0).device().starts_with("ref");
    nb::gil_scoped_release no_gil;
    serve::BatchOptions options{.max_rows = max_rows, .max_waiting = max_waiting};
    options.delay = std::chrono::nanoseconds(static_cast<int64_t>(delay * 1e9));
    serve::BatchRule rule{.reason = "the options limit a batch to one row"};
    if (max_rows > 1) rule = serve::find_batch_rule(programs.at(0));
    batcher_ = std::make_unique<serve::Batcher>(std::move(programs), options, std::move(rule));
  }
  ~Queue() {
    {
      nb::gil_scoped_release no_gil;
      batcher_.reset();
      ::close(event_);
    }
    leftovers_->free();
  }
  Queue(const Queue&) = delete;

  uint64_t submit(const Given& given, double deadline) {
    leftovers_->free();
    nb::gil_scoped_release no_gil;
    return batcher_->submit(inputs_of(given), point_after(deadline), [this](auto id, auto outputs, auto failure) {
      std::scoped_lock lock(mutex_);
      finished_.push_back({id, std::move(outputs), failure});
      eventfd_write(event_, 1);
    });
  }

  /// Returns (id, outputs, None) or (id, None, error) for each request that was answered since the last call.
  nb::list take() {
    std::vector<Finished> finished;
    {
      std::scoped_lock lock(mutex_);
      finished.swap(finished_);
      eventfd_t count = 0;
      eventfd_read(event_, &count);
    }
    leftovers_->free();
    nb::list list;
    for (const Finished& one : finished) {
      if (one.failure) list.append(nb::make_tuple(one.id, nb::none(), error_of(one.failure)));
      else list.append(nb::make_tuple(one.id, arrays_of(one.outputs), nb::none()));
    }
    return list;
  }

  /// Runs one request and waits for its answer.
  nb::list run(const Given& given, double deadline) {
    leftovers_->free();
    std::vector<Tensor> outputs;
    {
      nb::gil_scoped_release no_gil;
      auto promise = std::make_shared<std::promise<std::vector<Tensor>>>();
      auto done = [promise](uint64_t, std::vector<Tensor> results, const std::exception_ptr& failure) {
        if (failure) promise->set_exception(failure);
        else promise->set_value(std::move(results));
      };
      batcher_->submit(inputs_of(given), point_after(deadline), done);
      outputs = promise->get_future().get();
    }
    return arrays_of(outputs);
  }

  nb::dict stats() const {
    serve::BatchStats stats = batcher_->stats();
    nb::dict dict;
    dict["answered"] = stats.answered, dict["failed"] = stats.failed, dict["cancelled"] = stats.cancelled;
    dict["expired"] = stats.expired, dict["refused"] = stats.refused;
    dict["queue_ns"] = stats.queue_ns, dict["run_ns"] = stats.run_ns;
    dict["waiting"] = stats.waiting, dict["running"] = stats.running;
    nb::dict runs;
    for (const auto& [rows, run] : stats.runs_by_rows) runs[nb::cast(rows)] = nb::make_tuple(run.count, run.ns);
    dict["runs_by_rows"] = runs;
    return dict;
  }

  serve::Batcher& batcher() const { return *batcher_; }
  int descriptor() const { return event_; }

 private:
  struct Finished {
    uint64_t id;
    std::vector<Tensor> outputs;
    std::exception_ptr failure;
  };

  serve::Inputs inputs_of(const Given& given) const {
    serve::Inputs inputs;
    for (const auto& tensor : given) inputs.push_back(tensor ? lent(*tensor, leftovers_) : Tensor());
    return inputs;
  }

  /// Converts outputs to arrays. No copy is needed, because requests of a joint run get disjoint parts of its outputs.
  /// On `ref`, an output may share the memory of an input, so shared memory is copied there.
  nb::list arrays_of(const std::vector<Tensor>& outputs) const {
    nb::list list;
    for (const Tensor& output : outputs) list.append(array_of(output, !is_ref_));
    return list;
  }

  static nb::object error_of(const std::exception_ptr& failure) {
    try {
      std::rethrow_exception(failure);
    } catch (const Error& error) {
      return exception_of(error);
    } catch (const std::exception& error) {
      return exception_of(Error(WEFT_INTERNAL, "E900", error.what()));
    }
  }

  int event_;
  bool is_ref_ = false;
  std::mutex mutex_;
  std::vector<Finished> finished_;
  std::shared_ptr<Leftovers> leftovers_ = std::make_shared<Leftovers>();
  std::unique_ptr<serve::Batcher> batcher_;
};

}  // namespace

void bind_batcher(nb::module_& m) {
  m.def("gpus", [] {
    std::vector<std::string> names;
    for (size_t i = 0; const char* name = weft_gpu(i); ++i) names.emplace_back(name);
    return names;
  });
  nb::class_<Queue>(m, "Queue")
      .def(nb::init<const std::vector<nb::object>&, int64_t, double, size_t>(), "models"_a, "max_rows"_a, "delay"_a,
           "max_waiting"_a)
      .def("submit", &Queue::submit, "inputs"_a, "deadline"_a)
      .def("run", &Queue::run, "inputs"_a, "deadline"_a)
      .def("take", &Queue::take)
      .def("fileno", &Queue::descriptor)
      .def("cancel",
           [](Queue& queue, uint64_t id) {
             nb::gil_scoped_release no_gil;
             queue.batcher().cancel(id);
           })
      .def("close", [](Queue& queue) { queue.batcher().close(); })
      .def("wait_until_idle",
           [](Queue& queue) {
             nb::gil_scoped_release no_gil;
             queue.batcher().wait_until_idle();
           })
      .def("stats", &Queue::stats)
      .def_prop_ro("joins", [](const Queue& queue) { return queue.batcher().rule().joins; })
      .def_prop_ro("length", [](const Queue& queue) { return queue.batcher().rule().length; })
      .def_prop_ro("reason", [](const Queue& queue) { return queue.batcher().rule().reason; });
}

}  // namespace weft::python
