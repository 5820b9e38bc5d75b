// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "runtime/executable.h"

/// Inputs and outputs of a run that are the same memory.
namespace weft {

/// The inputs that must be copied aside before output `index` is written to `memory`: those that overlap it, unless it
/// is the one whose place the plan lets the output take.
std::vector<size_t> inputs_in_the_way(const Plan& plan, std::span<const Tensor> inputs, size_t index,
                                      std::span<const std::byte> memory);

/// E313 when an output's memory overlaps that of an output before it.
void refuse_overlap(const Plan& plan, std::span<const Tensor> outputs, size_t index);

/// The input that the caller donated to output `index` when the program was compiled, if its memory will do: it was
/// given by the caller (not a default) and is as large as `bytes`. Null when there is none.
const Tensor* donated_input(const Plan& plan, std::span<const Tensor> given, size_t index, size_t bytes);

/// What became of the donations, a sentence each.
std::vector<std::string> donation_notes(const Plan& plan);

}  // namespace weft
