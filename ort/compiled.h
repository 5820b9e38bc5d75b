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

/// The memory that holds the inputs and outputs of a run (host or GPU), and the stream of the run.
struct RunPlace {
  const Device* gpu = nullptr;            ///< null: host memory
  bool waits_for_default_stream = false;  ///< runs wait for the user's work on the default stream
  void* stream = nullptr;                 ///< the user's stream for runs; null: runs are synchronous
};

/// A compiled part of a graph. Any number of threads may run it at once: each run has a context of its own.
///
/// Sizes that neither the model nor onnxruntime names become symbols. Where an operator relates two such sizes, the
/// program is compiled for equal ones. If they differ in a run (one is 1 and broadcasts), the part is compiled again
/// for the sizes of that run.
class Compiled {
 public:
  /// Compiles the same part again with these sizes of its inputs ("x=2,3").
  using Again = std::function<Program(const std::vector<std::string>& shapes)>;
  /// `memory` allocates the program's memory; if null, the library does.
  Compiled(Program program, std::shared_ptr<Memory> memory, const RunPlace& place, Again again = {});
  /// Starts `tune` in the background at the first run. Later runs use the program that `tune` returns.
  void tune_while_serving(OnlineTuning::Tune tune) { tuning_ = std::make_unique<OnlineTuning>(std::move(tune)); }

  /// For each input and output of the program, its index among the inputs or outputs of the fused node.
  struct Binding {
    std::vector<size_t> inputs, outputs;
  };
  /// Matches inputs and outputs by name. Throws E310 if the node lacks an input or an output of the program.
  Binding bind(const std::vector<std::string>& inputs, const std::vector<std::string>& outputs) const;
  void run(OrtKernelContext* kernel, const Binding& binding) const;
  const Program& program() const { return served_.program(); }

 private:
  void run(OrtKernelContext* kernel, const Binding& binding, const std::vector<Tensor>& inputs) const;
  std::shared_ptr<const Compiled> variant_for_sizes(const std::vector<Tensor>& inputs) const;
  /// Runs the tuned program if there is one, else the first program.
  std::vector<Tensor> run_best(const std::vector<Tensor>& inputs, const RunOptions& options) const;

  std::shared_ptr<Memory> memory_;  // outlives the program
  adapters::Served served_;
  RunPlace place_;
  Again again_;
  std::vector<std::string> inputs_, outputs_;
  std::vector<bool> is_optional_;  // for each input
  mutable Variants<Compiled> variants_;
  std::unique_ptr<OnlineTuning> tuning_;  // null: nothing is tuned
};

}  // namespace weft::ort
