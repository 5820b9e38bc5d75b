// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace weft::adapters {

/// Returns the nearest of `names` by edit distance. `names` must not be empty.
const std::string& nearest(std::string_view name, const std::vector<std::string>& names);

/// Returns the MIGRAPHX_ variables that AMD documents, with the prefix.
std::vector<std::string> migraphx_variables();

/// Returns a line that names the environment variables with `prefix` that are set but have no effect; "" if there are
/// none. A variable has an effect if it is in `used`. The line gives the nearest name for a variable in neither list.
std::string idle_variables(std::string_view prefix, const std::vector<std::string>& used,
                           const std::vector<std::string>& idle);

}  // namespace weft::adapters
