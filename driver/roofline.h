// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "compile.h"
#include "driver/measure.h"

/// What the device can do at most, and how near to that a kernel came.
namespace weft::driver {

/// The peaks of the device that the program runs on: of a CPU measured with `threads` threads; of a GPU what the data
/// sheet says of the largest product with such a chip, all zero for a chip that is not in the table.
Peaks peaks_of(const Executable& executable, int threads);

/// Fills in what the device can do of the type that the step's kernel multiplies ("dot_bf16_add"; that of `precision`
/// where the name has none), and how near the step came to it.
void compare_with_peaks(StepFigures& step, const Peaks& peaks, Precision precision);

}  // namespace weft::driver
