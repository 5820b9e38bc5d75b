// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "frontends/onnx/file/model.h"
#include "runtime/executable.h"

/// Cuts a part out of an ONNX model: makes a model of some nodes. Its inputs are values that the nodes read.
namespace weft::driver {

/// Encodes a value as ONNX's test data does (TensorProto, SequenceProto, OptionalProto). Throws E215 for a map.
std::string value_bytes(const Tensor& value);

class ModelParts {
 public:
  explicit ModelParts(onnx::Model model);

  size_t node_count() const { return model_.graph.nodes.size(); }
  const onnx::Model& model() const { return model_; }

  /// Returns a model of the first `count` nodes, with all inputs of the whole model. All results of the nodes are
  /// outputs, in the order of `result_names`; if `count` is 0, the inputs are the outputs.
  std::string first_nodes(size_t count) const;
  std::vector<std::string> result_names(size_t count) const;

  /// Some nodes as a model. Weights stay weights; other values that the nodes read become inputs. Results that no node
  /// of the part reads become outputs.
  struct Part {
    std::string bytes;
    std::vector<std::string> inputs, outputs;
    bool is_whole = true;  ///< `values` has all results of other nodes that the part reads
  };
  /// Returns the nodes as a model. `values` gives the types and sizes of values, `open` the sizes that stay symbolic.
  Part part(std::span<const size_t> nodes, const std::map<std::string, Tensor>& values,
            const std::map<std::string, Dims>& open) const;

 private:
  std::string model_bytes(const std::string& graph) const;

  onnx::Model model_;
  std::vector<std::span<const std::byte>> nodes_;  // the encoded nodes, in the model's file
  std::vector<std::span<const std::byte>> rest_;   // the encoded other fields of the model, with their tags
  std::map<std::string_view, const onnx::TensorData*> weights_;
};

}  // namespace weft::driver
