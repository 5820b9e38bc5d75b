// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace weft {

/// The values of all WEFT_ environment variables that the library reads (listed in knobs.def), read once at first use.
struct Knobs {
#define KNOB(name, type, value, sentence) type name = value;
#include "base/knobs.def"
#undef KNOB
};

const Knobs& knobs();

/// One row of `weft knobs`.
struct KnobInfo {
  std::string variable, value, default_value, sentence;
};
std::vector<KnobInfo> knob_list();

/// Returns an environment variable; "" if it is not set. Nothing else calls getenv. For WEFT_ variables, use `knobs`.
std::string environment(const char* name);

/// Returns the WEFT_* variables that are set but unknown, each with the known names that resemble it, for a warning.
std::vector<std::string> unknown_knobs();

}  // namespace weft
