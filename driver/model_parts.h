// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "frontends/onnx/file/model.h"
#include "runtime/executable.h"

/// Cuts ONNX models: some nodes become a model of their own, whose inputs are the values that they read.
namespace weft::driver {

/// A value as ONNX's test data holds it (TensorProto, SequenceProto, OptionalProto, MapProto).
std::string value_bytes(const Tensor& value);

class ModelParts {
 public:
  explicit ModelParts(onnx::Model model);

  size_t node_count() const { return model_.graph.nodes.size(); }
  const onnx::Model& model() const { return model_; }

  /// The model's first `count` nodes with all of its inputs; outputs are all results, in the order of `result_names`,
  /// or the inputs where there is no node.
  std::string first_nodes(size_t count) const;
  std::vector<std::string> result_names(size_t count) const;

  /// Nodes as a model. Weights that they read stay weights, other values that they read become inputs, and values that
  /// no node reads become outputs. `values` gives types and sizes; `open` names the sizes that stay open.
  struct Part {
    std::string bytes;
    std::vector<std::string> inputs, outputs;
    bool is_whole = true;  ///< every value that it reads is known
  };
  Part part(std::span<const size_t> nodes, const std::map<std::string, Tensor>& values,
            const std::map<std::string, Dims>& open) const;

 private:
  std::string model_bytes(const std::string& graph) const;

  onnx::Model model_;
  std::vector<std::span<const std::byte>> nodes_;  // as bytes of the file
  std::vector<std::span<const std::byte>> rest_;   // fields of the model but its graph, with their tags
  std::map<std::string_view, const onnx::TensorData*> weights_;
};

}  // namespace weft::driver
