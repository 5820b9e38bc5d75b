// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "adapters/served.h"
#include "migraphx/body.h"
#include "migraphx/builder.h"
#include "migraphx/handles.h"

/// A program is a recipe (a model in a file or in memory, or a module built by hand; its precision) and, once compiled,
/// Weft's program. A copy repeats the recipe and shares the compiled program.
namespace weft::mgx {

/// A model in its original form, read again for each graph. Weights are not copied.
struct Source {
  std::string path = {};                          ///< of a model in a file
  std::shared_ptr<const std::string> bytes = {};  ///< of a model in memory
  bool is_onnx = true;
  CompileOptions options = {};  ///< sizes, folder

  Graph read() const;
};

/// An argument as a tensor that fits the port; it lives as long as the argument.
Tensor as_port(const Port& port, const migraphx_argument& argument);

/// An error in a body of control flow that was compiled before it was known whether it would run (body.h).
struct Refusal {
  Error error;
  Body body;
};

/// A compiled program, run by any number of threads at once.
class Compiled {
 public:
  Compiled(Program program, bool gives_outputs, std::shared_ptr<const std::string> bytes);

  /// Outputs for which the caller gives memory, as parameters "main:#output_0" of the program.
  bool gives_outputs() const { return gives_outputs_; }
  const Program& program() const { return served_.program(); }
  migraphx_program_parameter_shapes parameters() const;
  migraphx_shapes results() const;
  /// With a stream (null: the driver's default one), a program over memory of an AMD GPU queues its work there and
  /// returns. Any other run waits for the stream's earlier work and ends before this returns.
  migraphx_arguments run(const migraphx_program_parameters& parameters, std::optional<void*> stream = {}) const;
  /// Waits for all work that runs have queued.
  void finish() const { served_.finish(); }
  /// "amd:0", or "" where no AMD GPU runs the program.
  std::string amd_gpu() const;

 private:
  /// "amd:0" when arguments are memory of that device; "" when they are the host's.
  std::string gpu() const;
  void wait_for(void* stream) const;

  std::shared_ptr<const std::string> bytes_;  // of the model, which the program reads
  adapters::Served served_;
  bool gives_outputs_;
  std::vector<Port> inputs_, outputs_;
};

}  // namespace weft::mgx

/// The context of a program: its executable, and its stream, the driver's default one.
struct migraphx_context {
  void* queue = nullptr;
  std::shared_ptr<weft::mgx::Compiled> made = {};
};

struct migraphx_program {
  migraphx_program() = default;
  migraphx_program(const migraphx_program& other) { *this = other; }
  migraphx_program& operator=(const migraphx_program& other);

  migraphx_module* main();
  /// The graph as it will be compiled.
  weft::Graph graph() const;
  void compile(const std::string& target, const migraphx_compile_options& how);
  weft::mgx::Compiled& compiled() const;
  void set_precision(weft_precision wanted);
  migraphx_program_parameter_shapes parameters() const;
  migraphx_shapes results() const;

  std::optional<weft::mgx::Source> source = {};
  std::vector<std::unique_ptr<migraphx_module>> modules = {};  ///< main comes first
  weft_precision precision = WEFT_PRECISION_F32;
  bool is_quantised = false;  ///< `source` is in 8 bits
  std::shared_ptr<weft::mgx::Compiled> made = {};
  std::optional<weft::mgx::Refusal> refusal = {};  ///< thrown by every call that needs the compiled program
  mutable migraphx_context context = {};
};
