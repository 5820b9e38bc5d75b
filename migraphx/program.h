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

/// A program of MIGraphX: its source (a model, or a module that the caller built), its precision and, once compiled, a
/// program of Weft. A copy has its own source and precision, and shares the compiled program.
namespace weft::mgx {

/// A model as the caller gave it. Every graph is read from it anew; weights are not copied.
struct Source {
  std::string path = {};                          ///< of the model's file
  std::shared_ptr<const std::string> bytes = {};  ///< of a model in memory
  bool is_onnx = true;
  CompileOptions options = {};  ///< sizes, folder

  Graph read() const;
};

/// Returns a tensor for the port: a view of the argument's memory, which must outlive the tensor, or a row-major copy.
Tensor as_port(const Port& port, const migraphx_argument& argument);

/// An error in the body of an If, Loop or Scan, kept until the body runs (body.h).
struct Refusal {
  Error error;
  Body body;
};

/// A compiled program. Any number of threads may run it at once.
class Compiled {
 public:
  Compiled(Program program, bool gives_outputs, std::shared_ptr<const std::string> bytes);

  /// True if the caller may give the memory for outputs, by parameters "main:#output_0", "main:#output_1", ...
  bool gives_outputs() const { return gives_outputs_; }
  const Program& program() const { return served_.program(); }
  migraphx_program_parameter_shapes parameters() const;
  migraphx_shapes results() const;
  /// Runs the program. With a stream (null: the driver's default) and arguments in memory of an AMD GPU, queues the
  /// work on the stream and returns. Else waits for the stream's earlier work and returns when the run is done.
  migraphx_arguments run(const migraphx_program_parameters& parameters, std::optional<void*> stream = {}) const;
  /// Waits until all queued work of runs is done.
  void finish() const { served_.finish(); }
  /// Returns the device, such as "amd:0"; "" if the program does not run on an AMD GPU.
  std::string amd_gpu() const;

 private:
  /// Returns the device whose memory the arguments are in, such as "amd:0"; "" for host memory.
  std::string gpu() const;
  void wait_for(void* stream) const;

  std::shared_ptr<const std::string> bytes_;  // bytes of the model; the program's weights are views of them
  adapters::Served served_;
  bool gives_outputs_;
  std::vector<Port> inputs_, outputs_;
};

}  // namespace weft::mgx

/// The context of a program: the compiled program and its stream, which is the driver's default stream.
struct migraphx_context {
  void* queue = nullptr;
  std::shared_ptr<weft::mgx::Compiled> made = {};
};

struct migraphx_program {
  migraphx_program() = default;
  migraphx_program(const migraphx_program& other) { *this = other; }
  migraphx_program& operator=(const migraphx_program& other);

  migraphx_module* main();
  /// Returns a new graph of the source or of the main module.
  weft::Graph graph() const;
  void compile(const std::string& target, const migraphx_compile_options& how);
  weft::mgx::Compiled& compiled() const;
  void set_precision(weft_precision wanted);
  migraphx_program_parameter_shapes parameters() const;
  migraphx_shapes results() const;

  std::optional<weft::mgx::Source> source = {};
  std::vector<std::unique_ptr<migraphx_module>> modules = {};  ///< main comes first
  weft_precision precision = WEFT_PRECISION_F32;
  bool is_quantised = false;  ///< `source` has quantised layers
  std::shared_ptr<weft::mgx::Compiled> made = {};
  std::optional<weft::mgx::Refusal> refusal = {};  ///< thrown by every call that needs the compiled program
  mutable migraphx_context context = {};
};
