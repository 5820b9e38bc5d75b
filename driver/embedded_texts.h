// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string_view>

namespace weft::driver {

/// Files that the command line carries inside; the build makes their definitions (cmake/embed_texts.cmake).
std::string_view errors_text();     ///< docs/errors.md
std::string_view perf_page_text();  ///< driver/perf.html

}  // namespace weft::driver
