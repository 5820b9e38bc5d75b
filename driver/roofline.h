// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "compile.h"
#include "driver/measure.h"

/// The peak rates of a device, and how near a kernel comes to them.
namespace weft::driver {

/// The peaks of the device that the program runs on. For a CPU they are measured with `threads` threads. For a GPU they
/// are those of the largest product with its chip, by the data sheet; all zero for a chip that is not in the table.
Peaks peaks_of(const Executable& executable, int threads);

/// Fills in the peak rate for the type in the kernel's name ("dot_bf16_add"; without one, of `precision`), and the
/// step's share of it.
void compare_with_peaks(StepFigures& step, const Peaks& peaks, Precision precision);

}  // namespace weft::driver
