// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>

#include "frontends/common/control.h"
#include "frontends/tensorflow/call.h"

/// Loops, and the lists of tensors that they fill. A list of n elements of one size is one tensor [n, sizes...]. A list
/// that was only reserved has no sizes yet: until its first element is written it is a handle (a constant string).
namespace weft::tensorflow {

struct FlowLoop {
  Values carried;           ///< initial values
  std::vector<bool> stays;  ///< true: the body returns the value unchanged, so it is not carried
  std::function<Value(const Builder&, const Values&)> holds;  ///< builds the condition for another trip
  std::function<Values(const Builder&, const Values&)> step;  ///< builds a trip and returns the new carried values
};
/// Builds the loop; returns the values after the last trip. E158 if the body drops a list or writes it only sometimes.
Values run_loop(Call& c, const FlowLoop& loop);

/// Returns the list that a handle names; null for a tensor or another handle.
const OpenList* reserved(Call& c, Value value);
/// Returns zeros, or empty strings for `type` string.
frontend::Expr zeros(const Builder& b, DType type, const Dims& dims);
/// Returns `list` as a tensor of zeros or empty strings; `element` are the sizes of an element.
frontend::Expr filled(const Builder& b, const OpenList& list, const Dims& element);

}  // namespace weft::tensorflow
