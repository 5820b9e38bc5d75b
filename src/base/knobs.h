// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace weft {

/// Every environment variable that Weft reads, with its type (the list is knobs.def). They are read once, at first use.
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

/// Returns an environment variable that is not Weft's own (HOME, NO_COLOR ...). Nothing else calls getenv.
std::string environment(const char* name);

/// Returns the WEFT_* variables that are set but unknown, each with the nearest known name, for a warning.
std::vector<std::string> unknown_knobs();

}  // namespace weft
