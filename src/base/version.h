// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string_view>

namespace weft {

/// Returns the version of Weft as "major.minor.patch"; the build generates the definition from CMakeLists.txt.
std::string_view version();

}  // namespace weft
