// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace weft {

/// Every environment variable that Weft reads, typed; the list is knobs.def. Read once, at first use.
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

/// An environment variable that is not Weft's own (HOME, XDG_CACHE_HOME, NO_COLOR ...). The tree's one use of getenv.
std::string environment(const char* name);

/// WEFT_* variables that are set but unknown, each with the nearest known name; the command line warns about them.
std::vector<std::string> unknown_knobs();

}  // namespace weft
