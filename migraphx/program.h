// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "migraphx/builder.h"
#include "migraphx/handles.h"

/// A program is a recipe (a model in a file or in memory, or a module built by hand; its precision) and, once compiled,
/// what Weft made of it. A copy repeats the recipe and shares what was compiled.
namespace weft::mgx {

/// A model as it came, read again for each graph that is made of it. Weights are not copied.
struct Source {
  std::string path = {};                          ///< of a model in a file
  std::shared_ptr<const std::string> bytes = {};  ///< of a model in memory
  CompileOptions options = {};                    ///< sizes, folder

  Graph read() const;
};

/// A compiled program with contexts for as many threads as run it at once.
class Compiled {
 public:
  Compiled(Program program, bool gives_outputs, std::shared_ptr<const std::string> bytes);

  /// Outputs that the caller gives memory for, as parameters "main:#output_0" of the program.
  bool gives_outputs() const { return gives_outputs_; }
  const Program& program() const { return program_; }
  migraphx_program_parameter_shapes parameters() const;
  migraphx_shapes results() const;
  migraphx_arguments run(const migraphx_program_parameters& parameters);

 private:
  Context take();
  /// "amd:0" when arguments are memory of that device; "" when they are the host's.
  std::string gpu() const;

  std::shared_ptr<const std::string> bytes_;  // of the model, which the program reads
  Program program_;
  bool gives_outputs_;
  std::vector<Port> inputs_, outputs_;
  std::mutex mutex_;
  std::vector<Context> idle_ = {};
};

}  // namespace weft::mgx

/// Of a program: what runs and its stream. Runs have ended when they return, so there is nothing to wait for.
struct migraphx_context {
  void* queue = nullptr;
};

struct migraphx_program {
  migraphx_program() = default;
  migraphx_program(const migraphx_program& other) { *this = other; }
  migraphx_program& operator=(const migraphx_program& other);

  migraphx_module* main();
  /// The graph as it will be compiled.
  weft::Graph graph() const;
  void compile(const std::string& target, bool offload_copy);
  weft::mgx::Compiled& compiled() const;
  void set_precision(weft_precision wanted);
  migraphx_program_parameter_shapes parameters() const;
  migraphx_shapes results() const;

  std::optional<weft::mgx::Source> source = {};
  std::vector<std::unique_ptr<migraphx_module>> modules = {};  ///< main comes first
  weft_precision precision = WEFT_PRECISION_F32;
  int products = 0;                           ///< that run in int8, as weft_graph_quantize numbers them
  std::vector<weft::Tensor> magnitudes = {};  ///< of what they multiply
  std::shared_ptr<weft::mgx::Compiled> made = {};
  mutable migraphx_context context = {};
};
