// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <set>
#include <string>

#include "quantise/model_edit.h"

namespace weft::quantise {

/// Returns the tensor of a Constant node; null for other nodes.
const onnx::TensorData* held_tensor(const onnx::Node& node);

/// The constant values of a model: weights, and results of nodes (except random ones) that read only constants.
class Constants {
 public:
  explicit Constants(const ModelEdit& edit);

  bool contains(std::string_view name) const { return names_.contains(name); }
  /// Returns the value; evaluates the nodes that compute it at the first call.
  const Tensor& value(const std::string& name) const;
  /// Adds a constant that was added to the ModelEdit.
  void add(const std::string& name, Tensor value);

 private:
  const ModelEdit& edit_;
  std::set<std::string, std::less<>> names_;
  mutable std::map<std::string, Tensor, std::less<>> values_;
};

}  // namespace weft::quantise
