// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string_view>

namespace weft {

/// Returns the version of Weft as "major.minor.patch"; the build makes its definition from the one in CMakeLists.txt.
std::string_view version();

}  // namespace weft
