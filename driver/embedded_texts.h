// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string_view>

namespace weft::driver {

/// Return the texts of files that are compiled into the command line (by cmake/embed_texts.cmake).
std::string_view errors_text();     ///< docs/errors.md
std::string_view perf_page_text();  ///< driver/perf.html

}  // namespace weft::driver
