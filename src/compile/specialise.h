// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "compile.h"

/// Models that are specialised for values of some inputs: axes, steps, the condition of branches of different ranks.
/// Such an input is called static. The first run with a new value compiles the model for it, and the program is kept.
namespace weft {

namespace onnx {
struct Model;
struct SizeDecisions;
struct StaticNeeds;
}  // namespace onnx

/// A model with static inputs. Immutable after compiling, except for `detach`.
class StaticModel {
 public:
  /// `options` say how the model is read.
  StaticModel(std::shared_ptr<const onnx::Model> model, const CompileOptions& options, std::vector<Port> inputs);

  const std::shared_ptr<const onnx::Model>& model() const { return model_; }
  const std::vector<Port>& inputs() const { return inputs_; }
  const std::vector<StaticInput>& statics() const { return statics_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// Outputs as the model declares them; if it declares no rank, with the ranks of the likely program.
  std::vector<Port> outputs(const Program* likely) const;
  std::vector<Tensor> likely_values() const;
  /// The options with these values of the static inputs, in their order.
  CompileOptions fixed(std::span<const Tensor> values) const;
  /// The model with these values of its static inputs, in their order.
  std::unique_ptr<Program> program(std::span<const Tensor> values, onnx::SizeDecisions* decisions,
                                   onnx::StaticNeeds* needs = nullptr) const;
  /// The same for likely values; null if the model compiles for none of them.
  std::unique_ptr<Program> likely_program(const onnx::StaticNeeds& first, const Error& refusal);
  /// True if other values of the static inputs may correct every error found so far.
  bool may_wait() const { return may_wait_; }
  /// Copies constants that lie in memory of the caller's.
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
  size_t found_ = 0;  // operands that made inputs static, so far
};

/// A model before its first run.
struct Imported {
  std::unique_ptr<Program> program = {};    ///< if static: compiled for likely values; null: none compiles
  std::shared_ptr<StaticModel> model = {};  ///< null: nothing is static
};

/// Reads a model. If CompileOptions::static_inputs is given, a model for which no likely value makes a program is
/// refused.
Imported import_static(std::shared_ptr<const onnx::Model> model, const CompileOptions& options,
                       onnx::SizeDecisions* decisions = nullptr);

/// Reads a model from a file or from memory (external data is looked for in `folder`), or the program in a saved one.
Imported import_any(const std::filesystem::path& path, const CompileOptions& options);
Imported import_any(Bytes model, const CompileOptions& options, const std::filesystem::path& folder);
/// Compiles what was imported. Refuses options about reading the model (E502).
std::shared_ptr<Executable> compile(Imported imported, const CompileOptions& options);

/// Runs a static model on the device of the options. With `is_whole` these options also say how to read the model.
/// Throws if the device cannot run the likely program.
std::shared_ptr<Executable> make_specialising(Imported imported, const CompileOptions& options, bool is_whole,
                                              CompileReport report);

}  // namespace weft
