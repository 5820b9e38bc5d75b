// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "compile.h"
#include "driver/measure.h"

/// Finds the peak rates of a device and the fraction of them that a kernel reaches.
namespace weft::driver {

/// Returns the peaks of the program's device. A CPU is measured with `threads` threads. A GPU has the
/// figures of a data sheet: those of the fastest model with its chip. All are zero for an unknown chip.
Peaks peaks_of(const Executable& executable, int threads);

/// Sets `peak_gflops` for the type in the kernel's name ("dot_bf16_add"; if it names none, `precision`). Sets
/// `roofline`: the least time that arithmetic or memory traffic needs at peak rate, divided by the measured time.
void compare_with_peaks(StepFigures& step, const Peaks& peaks, Precision precision);

}  // namespace weft::driver
