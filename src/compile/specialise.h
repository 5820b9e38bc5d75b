// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "compile.h"

/// Models that are compiled for known values of some inputs, called static inputs: axes, steps, the condition of an If
/// with branches of different rank. The first run with new values compiles a program for them, which is kept.
namespace weft {

namespace onnx {
struct Model;
struct SizeDecisions;
struct StaticNeeds;
}  // namespace onnx

/// A model with static inputs. Immutable after compiling, except for `detach`.
class StaticModel {
 public:
  StaticModel(std::shared_ptr<const onnx::Model> model, const CompileOptions& options, std::vector<Port> inputs);

  const std::shared_ptr<const onnx::Model>& model() const { return model_; }
  const std::vector<Port>& inputs() const { return inputs_; }
  const std::vector<StaticInput>& statics() const { return statics_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// Returns the declared outputs. An output without a declared rank gets the rank that it has in the likely program.
  std::vector<Port> outputs(const Program* likely) const;
  std::vector<Tensor> likely_values() const;
  /// Returns the options for the given values of the static inputs, in the order of these inputs.
  CompileOptions fixed(std::span<const Tensor> values) const;
  /// Returns the program for the given values of the static inputs, in the order of these inputs.
  std::unique_ptr<Program> program(std::span<const Tensor> values, onnx::SizeDecisions* decisions,
                                   onnx::StaticNeeds* needs = nullptr) const;
  /// Returns the program for the most likely values with which the model can be imported; null if there are none.
  std::unique_ptr<Program> likely_program(const onnx::StaticNeeds& first, const Error& refusal);
  /// True if other values of the static inputs may avoid all import errors found so far.
  bool may_wait() const { return may_wait_; }
  /// Copies constants that are in the caller's memory.
  void detach();

 private:
  void add(const onnx::StaticNeeds& needs, const Error& refusal);
  bool guess(size_t guess);
  std::unique_ptr<Program> attempt();

  std::shared_ptr<const onnx::Model> model_;
  CompileOptions options_;
  std::vector<Port> inputs_;
  std::vector<StaticInput> statics_ = {};
  std::map<std::string, std::string> metadata_ = {};
  bool may_wait_ = true;
  size_t found_ = 0;  // how often `add` has added or changed a static input
};

/// A model that was read but is not yet compiled.
struct Imported {
  std::unique_ptr<Program> program = {};    ///< with static inputs: for likely values, or null if none can be imported
  std::shared_ptr<StaticModel> model = {};  ///< null: no input is static
};

/// Translates a model and finds its static inputs. With CompileOptions::static_inputs, throws if the model cannot be
/// translated for any of the likely values.
Imported import_static(std::shared_ptr<const onnx::Model> model, const CompileOptions& options,
                       onnx::SizeDecisions* decisions = nullptr);

/// Reads a model from a file or from memory (external data from options.folder), or the program in a saved program.
Imported import_any(const std::filesystem::path& path, const CompileOptions& options);
Imported import_any(Bytes model, const CompileOptions& options);
/// Compiles an imported model. Throws E502 if the options choose sizes or constants, which the import has fixed.
std::shared_ptr<Executable> compile(Imported imported, const CompileOptions& options);

/// Makes an executable that runs a model with static inputs on the device of the options. `is_whole`: the options also
/// apply to importing the model. Throws if the device cannot run the likely program.
std::shared_ptr<Executable> make_specialising(Imported imported, const CompileOptions& options, bool is_whole,
                                              CompileReport report);

}  // namespace weft
