// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <vector>

#include "ir/module.h"

namespace weft {

/// A program for the processor, and those of its symbols that the program around it sets.
struct TakenPart {
  std::unique_ptr<Program> program;
  std::vector<std::string> names = {};
};

/// Takes out of a program for a GPU everything that no GPU runs: strings, sequences, optionals and maps, and operators
/// without a kernel for GPUs. Each piece becomes a program of its own for the processor, and a `cpu_part` instruction
/// takes its place. Instructions are reordered so that there are few pieces, because each costs a copy to the host and
/// one back.
std::vector<TakenPart> take_cpu_parts(Program& program);

}  // namespace weft
