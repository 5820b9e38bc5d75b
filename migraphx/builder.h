// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "migraphx/handles.h"
#include "migraphx/operators.h"

namespace weft::mgx {

class CustomOperators;

/// A step (instruction) of a module. The steps are kept to build the graph again for a copy of the program and for each
/// compilation.
struct Step {
  enum class Kind : uint8_t { parameter, literal, allocation, operation };
  Kind kind = Kind::operation;
  std::string name = {};        ///< of the parameter or the operator
  std::string attributes = {};  ///< JSON
  migraphx_shape shape = {};    ///< of a parameter
  Tensor tensor = {};           ///< of a literal or an allocation
  std::vector<size_t> operands = {};
};

/// Builds a graph and keeps the steps that built it.
class Builder {
 public:
  explicit Builder(std::string name) : name_(std::move(name)), graph_(name_) {}
  Builder(const Builder& other);

  /// Adds the step to the graph and returns its index. Throws at once for a step that is not valid.
  size_t add(Step step);
  void set_results(std::vector<size_t> steps);

  const std::string& name() const { return name_; }
  const std::vector<Step>& steps() const { return steps_; }
  /// Returns the indices of the steps that the module returns; the last step if `set_results` was not called.
  std::vector<size_t> results() const;
  const Graph& graph() const { return graph_; }
  const Values& values(size_t step) const { return item(values_, step); }
  migraphx_shape shape(size_t step) const;
  /// Builds a new graph from the steps, with the module's results as outputs.
  Graph build() const;

 private:
  std::string name_;
  std::vector<Step> steps_ = {};
  std::optional<std::vector<size_t>> results_ = {};
  Graph graph_;
  std::vector<Values> values_ = {};
};

/// Converts the type of a port to a shape of MIGraphX; a symbolic size becomes its range.
migraphx_shape shape_of(const Port& port);

}  // namespace weft::mgx

struct migraphx_module {
  explicit migraphx_module(std::string name) : builder(std::move(name)) {}
  weft::mgx::Builder builder;
  bool is_read = false;  ///< main module of a program that was read or is compiled; nothing can be added
};

struct migraphx_instruction {
  migraphx_module* module = nullptr;
  size_t step = 0;
};
struct migraphx_instructions {
  std::vector<migraphx_instruction> list = {};
};
struct migraphx_modules {
  std::vector<migraphx_module*> list = {};
};
