// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "compile.h"
#include "driver/measure.h"

/// Finds the peak rates of a device and the fraction of them that a kernel reaches.
namespace weft::driver {

/// Returns the peaks of the program's device. A CPU is measured with `threads` threads. A GPU has the figures of the
/// data sheet that fits its chip and memory size (base/chips.def). All peaks are zero for a GPU without a sheet.
Peaks peaks_of(const Executable& executable, int threads);

/// Sets `peak_gflops` to the peak of the type in the kernel's name ("dot_bf16_add"), or of `precision` if the name has
/// no type. Sets `roofline`: the longer of the times for arithmetic and for memory traffic at peak rate, divided by the
/// measured time. Sets neither without a measured time or known peaks.
void compare_with_peaks(StepFigures& step, const Peaks& peaks, Precision precision);

}  // namespace weft::driver
