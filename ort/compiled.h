// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <onnxruntime_c_api.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "weft/weft.hpp"

namespace weft::ort {

/// A compiled part of a graph. Runs at once in as many threads as call: each takes a context and gives it back.
class Compiled {
 public:
  explicit Compiled(Program program);

  /// Where the program's inputs and outputs lie among those of a fused node, by name.
  struct Binding {
    std::vector<size_t> inputs, outputs;
  };
  /// Throws E310 when the node lacks an input or has an output that the program does not compute.
  Binding bind(const std::vector<std::string>& inputs, const std::vector<std::string>& outputs) const;
  void run(OrtKernelContext* kernel, const Binding& binding) const;
  const Program& program() const { return program_; }

 private:
  std::unique_ptr<Context> take() const;
  void give_back(std::unique_ptr<Context> context) const;

  Program program_;
  std::vector<std::string> inputs_, outputs_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Context>> idle_;
};

}  // namespace weft::ort
