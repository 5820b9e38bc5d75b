// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "runtime/executable.h"

/// Inputs and outputs of a run that share memory.
namespace weft {

/// The inputs that must be copied before output `index` is written to `memory`: those that overlap it, except the input
/// whose place the plan lets the output take.
std::vector<size_t> inputs_in_the_way(const Plan& plan, std::span<const Tensor> inputs, size_t index,
                                      std::span<const std::byte> memory);

/// E313 when an output's memory overlaps that of an output before it.
void refuse_overlap(const Plan& plan, std::span<const Tensor> outputs, size_t index);

/// The input that was donated to output `index` at compile time, if its memory is suitable: the caller gave it (it is
/// not a default) and it has `bytes` bytes. Otherwise null.
const Tensor* donated_input(const Plan& plan, std::span<const Tensor> given, size_t index, size_t bytes);

/// Whether each donation was possible, in a sentence each.
std::vector<std::string> donation_notes(const Plan& plan);

}  // namespace weft
