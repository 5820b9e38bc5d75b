// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "base/embedded.h"

namespace weft::driver {

/// Returns the files that are compiled into the command line.
std::span<const EmbeddedFile> embedded_texts();
inline std::string_view errors_text() { return embedded_texts()[0].text; }     ///< docs/errors.md
inline std::string_view perf_page_text() { return embedded_texts()[1].text; }  ///< driver/perf.html

}  // namespace weft::driver
