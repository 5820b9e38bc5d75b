// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>
#include <string>
#include <vector>

#include "weft/weft.hpp"

/// Builds MIGraphX's operators from Weft's.
namespace weft::mgx {

/// The results of one instruction. More than one result stands for a tuple of MIGraphX.
using Values = std::vector<weft_value>;

/// The element type and sizes of a type of the graph, such as "f32[batch,3]".
struct ValueType {
  std::string dtype = {};
  std::vector<std::string> dims = {};

  size_t rank() const { return dims.size(); }
  /// Returns the sizes as text: "[batch, 3]".
  std::string list() const;
};
ValueType type_of(const Graph& graph, weft_value value);
/// Formats strings or numbers as "[a, b]".
std::string list_of(const std::vector<std::string>& items);
std::string list_of(const std::vector<int64_t>& items);

/// Appends MIGraphX's operator `name` to the graph. Throws E218 for an unknown name, E210 for operands or attributes
/// that do not fit.
Values append_operator(Graph& graph, const std::string& name, const std::string& attributes,
                       std::span<const Values> operands);

/// Returns all names that append_operator accepts, in alphabetical order.
std::vector<std::string> operator_names();

}  // namespace weft::mgx
