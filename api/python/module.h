// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <nanobind/nanobind.h>

#include <map>
#include <mutex>

#include "weft/weft.hpp"

/// Functions that the source files of the Python module share.
namespace weft::python {

/// Makes a Python exception; the error's kind chooses its class in weft/_errors.py.
nanobind::object exception_of(const weft::Error& error);
/// Converts a result to a numpy array, or, if numpy cannot hold it, to a tuple for `_result` in weft/__init__.py.
nanobind::object array_of(const weft::Tensor& tensor, bool is_own = false);
weft::Program program_of(nanobind::handle model);

/// A program's free contexts, grouped by the stream of their last run. A run takes a context that was last used on the
/// same stream, because the stream already orders the context's runs. Any number of threads may use it.
class Contexts {
 public:
  std::vector<weft::Tensor> run(weft::Program& program, std::span<const weft::Tensor> inputs,
                                const weft::RunOptions& options) {
    weft::Context context = take(program, options.stream);
    std::vector<weft::Tensor> outputs = context.run(inputs, options);
    std::scoped_lock lock(mutex_);
    free_[options.stream].push_back(std::move(context));
    return outputs;
  }

 private:
  weft::Context take(weft::Program& program, void* stream) {
    std::scoped_lock lock(mutex_);
    auto& free = free_[stream];
    if (free.empty()) return program.new_context();
    weft::Context context = std::move(free.back());
    free.pop_back();
    return context;
  }

  std::mutex mutex_;
  std::map<void*, std::vector<weft::Context>> free_;
};

void bind_batcher(nanobind::module_& m);
void bind_torch_call(nanobind::module_& m);

}  // namespace weft::python
