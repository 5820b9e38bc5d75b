// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "compile.h"
#include "driver/measure.h"

/// The peak rates of a device, and what share of them a kernel reaches.
namespace weft::driver {

/// Returns the peaks of the program's device. A CPU is measured with `threads` threads. For a GPU they are the data
/// sheet's figures of the largest product with its chip; all are zero for an unknown chip.
Peaks peaks_of(const Executable& executable, int threads);

/// Sets the peak rate for the type in the kernel's name ("dot_bf16_add"; if it names none, `precision`), and the step's
/// share of that peak.
void compare_with_peaks(StepFigures& step, const Peaks& peaks, Precision precision);

}  // namespace weft::driver
