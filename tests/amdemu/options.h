// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

namespace weft::amdemu {

/// The emulator's options, from environment variables; options.def describes each.
struct Options {
#define OPTION(name, type, fallback, sentence) type name = fallback;
#include "options.def"
#undef OPTION
};

/// Returns the options, which are read once for each process.
const Options& options();

}  // namespace weft::amdemu
