// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

namespace weft::amdemu {

/// What the environment asks of the emulator; options.def says each in a sentence.
struct Options {
#define OPTION(name, type, fallback, sentence) type name = fallback;
#include "options.def"
#undef OPTION
};

/// Read once for the process.
const Options& options();

}  // namespace weft::amdemu
