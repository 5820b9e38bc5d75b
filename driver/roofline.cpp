// SPDX-License-Identifier: Apache-2.0
#include "driver/roofline.h"

#include <algorithm>

#include "base/text.h"
#include "driver/on_device.h"

namespace weft::driver {
namespace {

/// Peak rates of a GPU, from its vendor's data sheet.
struct Sheet {
  std::string_view chip;
  int least_gigabytes;
  double f64, f32, f16, i8;  // TFLOP/s
  double gbytes;             // GB/s
};

constexpr Sheet sheets[] = {
#define GPU_PEAKS(chip, ...) {#chip, __VA_ARGS__},
#include "base/chips.def"
};

Peaks data_sheet(const gpu::DeviceInfo& device) {
  const auto* s = std::ranges::find_if(sheets, [&](const Sheet& sheet) {
    return sheet.chip == device.chip.arch && device.memory >= int64_t{sheet.least_gigabytes} * 1'000'000'000;
  });
  if (s == std::end(sheets)) return {};
  return {.f64 = s->f64 * 1e3, .f32 = s->f32 * 1e3, .f16 = s->f16 * 1e3, .i8 = s->i8 * 1e3, .gbytes = s->gbytes};
}

/// Returns the peak GFLOP/s for the element type in a kernel's name; without one, for `precision`.
double gflops_of(const Peaks& peaks, std::string_view kernel, Precision precision) {
  for (std::string_view word : split(kernel, '_')) {
    if (word == "f64") return peaks.f64;
    if (word == "f32" || word == "i32") return peaks.f32;
    if (word == "f16" || word == "bf16") return peaks.f16;
    if (word == "i8" || word == "u8" || word == "bytes") return peaks.i8;
  }
  return precision == Precision::f32 ? peaks.f32 : peaks.f16;
}

}  // namespace

Peaks peaks_of(const Executable& executable, int threads) {
  std::string name = executable.device();
  if (!name.starts_with("amd:") && !name.starts_with("nvidia:")) return measure_peaks(threads);
  return data_sheet(device_of(executable)->info());
}

void compare_with_peaks(StepFigures& step, const Peaks& peaks, Precision precision) {
  if (step.seconds <= 0 || peaks.f32 <= 0) return;
  step.peak_gflops = gflops_of(peaks, step.info.kernel, precision);
  double work = static_cast<double>(step.flops) / (step.peak_gflops * 1e9),
         traffic = static_cast<double>(step.bytes) / (peaks.gbytes * 1e9);
  step.roofline = std::max(work, traffic) / step.seconds;
}

}  // namespace weft::driver
