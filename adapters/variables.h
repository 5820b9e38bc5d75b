// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace weft::adapters {

/// Of `names` the one that the fewest changes of a letter lead to.
const std::string& nearest(std::string_view name, const std::vector<std::string>& names);

/// The MIGRAPHX_ variables that AMD documents, with the prefix.
std::vector<std::string> migraphx_variables();

/// A line about the environment variables that begin with `prefix` and change nothing: those of `idle`, and those that
/// are in neither list, each with the nearest name. "" where there are none; variables of `used` do what they say.
std::string idle_variables(std::string_view prefix, const std::vector<std::string>& used,
                           const std::vector<std::string>& idle);

}  // namespace weft::adapters
