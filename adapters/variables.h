// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace weft::adapters {

/// Returns the nearest of `names` by edit distance.
const std::string& nearest(std::string_view name, const std::vector<std::string>& names);

/// Returns the MIGRAPHX_ variables that AMD documents, with the prefix.
std::vector<std::string> migraphx_variables();

/// Returns a line about the set environment variables that begin with `prefix` and have no effect: those in `idle`, and
/// those in neither list, each with the nearest known name. "" if there are none. Variables of `used` have an effect
/// and are left out.
std::string idle_variables(std::string_view prefix, const std::vector<std::string>& used,
                           const std::vector<std::string>& idle);

}  // namespace weft::adapters
