// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <onnxruntime_c_api.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "adapters/served.h"
#include "ort/online_tuning.h"
#include "ort/variants.h"

namespace weft::ort {

struct Device;
class Memory;

/// Whether the inputs and outputs of a run are in host or device memory.
struct RunPlace {
  const Device* gpu = nullptr;            ///< null: in the host's memory
  bool waits_for_default_stream = false;  ///< the user's stream is the default one: runs wait for the work queued there
  void* stream = nullptr;                 ///< the user's, on which runs are queued; null: runs end with the call
};

/// A compiled part of a graph. Runs at once in as many threads as call: each takes a context and gives it back.
///
/// Sizes that neither the model nor onnxruntime names are symbols of their own, and where an operator needs two of them
/// to be equal, the program is compiled for equal sizes. When they differ in a run (one of them is 1, and broadcasts),
/// the part is compiled again for the sizes of that run.
class Compiled {
 public:
  /// Compiles the same part again with its inputs' sizes as given, "x=2,3".
  using Again = std::function<Program(const std::vector<std::string>& shapes)>;
  /// `memory` provides the program's memory; null: the library's own.
  Compiled(Program program, std::shared_ptr<Memory> memory, const RunPlace& place, Again again = {});
  /// Tunes in the background from the first run on; the program that `tune` returns then replaces this one.
  void tune_while_serving(OnlineTuning::Tune tune) { tuning_ = std::make_unique<OnlineTuning>(std::move(tune)); }

  /// The position of the program's inputs and outputs among those of a fused node, by name.
  struct Binding {
    std::vector<size_t> inputs, outputs;
  };
  /// Throws E310 if the node lacks an input, or has an output that the program does not compute.
  Binding bind(const std::vector<std::string>& inputs, const std::vector<std::string>& outputs) const;
  void run(OrtKernelContext* kernel, const Binding& binding) const;
  const Program& program() const { return served_.program(); }

 private:
  void run(OrtKernelContext* kernel, const Binding& binding, const std::vector<Tensor>& inputs) const;
  std::shared_ptr<const Compiled> variant_for_sizes(const std::vector<Tensor>& inputs) const;
  /// Runs the program, or the faster one that tuning has found.
  std::vector<Tensor> run_best(const std::vector<Tensor>& inputs, const RunOptions& options) const;

  std::shared_ptr<Memory> memory_;  // outlives the program
  adapters::Served served_;
  RunPlace place_;
  Again again_;
  std::vector<std::string> inputs_, outputs_;
  std::vector<bool> is_optional_;  // of the inputs
  mutable Variants<Compiled> variants_;
  std::unique_ptr<OnlineTuning> tuning_;  // null: nothing is tuned
};

}  // namespace weft::ort
