// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>

#include "quantise/model_edit.h"

namespace weft::quantise {

/// The tensor of a Constant node that holds one, else null.
const onnx::TensorData* held_tensor(const onnx::Node& node);

/// Values of a model that no input has a part in: weights, Constant nodes, and what nodes make of these alone.
class Constants {
 public:
  explicit Constants(const ModelEdit& edit);

  bool contains(std::string_view name) const { return names_.contains(name); }
  /// The value; computed at its first use when nodes make it.
  const Tensor& value(const std::string& name) const;
  /// One that the edit has added.
  void add(const std::string& name, Tensor value);

 private:
  const ModelEdit& edit_;
  std::set<std::string, std::less<>> names_;
  mutable std::map<std::string, Tensor, std::less<>> values_;
};

}  // namespace weft::quantise
