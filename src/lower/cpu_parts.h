// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <vector>

#include "ir/module.h"

namespace weft {

/// A program for the CPU. `names` lists the symbols that get their values from the surrounding program.
struct TakenPart {
  std::unique_ptr<Program> program;
  std::vector<std::string> names = {};
};

/// Moves everything that no GPU can run (strings, sequences, optionals, maps, operators without a GPU kernel) into
/// programs for the CPU, each of which a `cpu_part` instruction then calls. Reorders instructions so that there are few
/// parts, because each part costs copies to the host and back.
std::vector<TakenPart> take_cpu_parts(Program& program);

}  // namespace weft
