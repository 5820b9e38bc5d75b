// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "runtime/executable.h"

namespace weft {

/// True if two ranges of memory have a byte in common.
bool overlap(std::span<const std::byte> a, std::span<const std::byte> b);

/// Returns the numbers of the inputs to copy before output `index` is written to `memory`: those that overlap `memory`,
/// except an input that the plan lets the output overwrite.
std::vector<size_t> inputs_in_the_way(const Plan& plan, std::span<const Tensor> inputs, size_t index,
                                      std::span<const std::byte> memory);

/// Throws E313 if the memory of output `index` overlaps the memory of an output with a smaller index.
void refuse_overlap(const Plan& plan, std::span<const Tensor> outputs, size_t index);

/// Returns the input that was donated to output `index` at compile time. Returns null if no input was donated, the
/// caller left it out, or its size is not `bytes` bytes. An input that one step copies whole may be larger.
const Tensor* donated_input(const Plan& plan, std::span<const Tensor> given, size_t index, size_t bytes);

/// Returns a sentence about each donation: whether it was possible, and why not.
std::vector<std::string> donation_notes(const Plan& plan);

}  // namespace weft
