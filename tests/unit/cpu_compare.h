// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/tensor.h"

namespace weft {

/// The sizes of each input in each run.
using InputSizes = std::vector<std::vector<std::vector<int64_t>>>;

/// Compiles a program in text form for the CPU, and runs it with random inputs of these sizes on one and two threads.
/// Compares the results with the reference. Integers are 0 to 4. `storage` is LowerOptions::storage.
void compare_on_cpu(const std::string& text, const InputSizes& cases, DType storage = DType::f32);

/// Applies the passes for each of three x86-64 chips to a program with quantised values, runs it on this processor, and
/// compares it with the original program on the reference. Each case runs with random integers of the whole range, with
/// the smallest integer only, and with the largest only. Results must be equal.
void compare_quantized_on_cpu(const std::string& text, const InputSizes& cases);
/// Makes the same comparison, with these inputs only.
void compare_quantized_on_cpu(const std::string& text, const std::vector<Tensor>& inputs);

/// Runs a program on the CPU, without a comparison.
std::vector<Tensor> run_on_cpu(const std::string& text, const std::vector<Tensor>& inputs, DType storage = DType::f32);

}  // namespace weft
