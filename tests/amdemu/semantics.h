// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <unordered_map>

#include "instruction.h"

/// The table of instructions: for each canonical name its function and its unit. Its entries come from scalar.def,
/// vector.def and a few functions; the names of memory and matrix instructions are parsed.
namespace weft::amdemu {

struct Semantics {
  Action action = nullptr;
  Unit unit = Unit::none;
};
using SemanticsTable = std::unordered_map<std::string, Semantics>;

/// Returns null for a name that is not in the table.
const Semantics* semantics_of(const std::string& name);
const SemanticsTable& semantics_table();

void add_scalar(SemanticsTable& table);
void add_vector_arithmetic(SemanticsTable& table);
void add_vector_others(SemanticsTable& table);

/// If the name is that of a load, store or atomic, sets shape, action and unit and returns true.
bool prepare_memory(Instruction& i);
/// If the name is that of an MFMA or WMMA instruction, sets shape, action and unit and returns true.
bool prepare_matrix(Instruction& i);

}  // namespace weft::amdemu
