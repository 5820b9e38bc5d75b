// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "compile.h"

/// Models of which the values of some inputs decide what there is to compile: axes, steps, the condition of branches of
/// different ranks. Such an input is static: the model is compiled for each value that it has in a run, at the first
/// run that has it, and what was compiled is kept.
namespace weft {

namespace onnx {
struct Model;
struct SizeDecisions;
struct StaticNeeds;
}  // namespace onnx

/// A model with static inputs. Immutable once it is compiled, but for `detach`.
class StaticModel {
 public:
  /// `options` say how the model is read.
  StaticModel(std::shared_ptr<const onnx::Model> model, const CompileOptions& options, std::vector<Port> inputs);

  const std::shared_ptr<const onnx::Model>& model() const { return model_; }
  const std::vector<Port>& inputs() const { return inputs_; }
  const std::vector<StaticInput>& statics() const { return statics_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// As the model declares them; of the ranks in the likely program where it does not.
  std::vector<Port> outputs(const Program* likely) const;
  std::vector<Tensor> likely_values() const;
  /// The options with these values of the static inputs, in their order.
  CompileOptions fixed(std::span<const Tensor> values) const;
  /// The model with these values of its static inputs, in their order, and the edits made since.
  std::unique_ptr<Program> program(std::span<const Tensor> values, onnx::SizeDecisions* decisions,
                                   onnx::StaticNeeds* needs = nullptr) const;
  /// The same for likely values, where some make a program; null: none does.
  std::unique_ptr<Program> likely_program(const onnx::StaticNeeds& first, const Error& refusal);
  /// Nothing is wrong with the model but what the values of a run may mend.
  bool may_wait() const { return may_wait_; }
  /// Changes every program that is made from now on.
  void add_edit(std::function<void(Program&)> edit) { edits_.push_back(std::move(edit)); }
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
  size_t found_ = 0;  // operands that made inputs static
  std::vector<std::function<void(Program&)>> edits_ = {};
};

/// What a model is before a run.
struct Imported {
  std::unique_ptr<Program> program = {};    ///< of a static model that for likely values; null: none of them makes one
  std::shared_ptr<StaticModel> model = {};  ///< null: nothing is static
};

/// Reads a model. With CompileOptions::static_inputs given, a model of which no likely value makes a program is
/// refused.
Imported import_static(std::shared_ptr<const onnx::Model> model, const CompileOptions& options,
                       onnx::SizeDecisions* decisions = nullptr);

/// A model in a file or in memory (external data is looked for in `folder`), or the program in a saved one.
Imported import_any(const std::filesystem::path& path, const CompileOptions& options);
Imported import_any(Bytes model, const CompileOptions& options, const std::filesystem::path& folder);
/// Compiles it, with options that do not say how it is read (E502).
std::shared_ptr<Executable> compile(Imported imported, const CompileOptions& options);

/// Runs a static model on the device of the options, which also said how it is read if `is_whole`. Throws what the
/// device cannot do of the likely program.
std::shared_ptr<Executable> make_specialising(Imported imported, const CompileOptions& options, bool is_whole,
                                              CompileReport report);

}  // namespace weft
