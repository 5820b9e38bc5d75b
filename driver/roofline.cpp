// SPDX-License-Identifier: Apache-2.0
#include "driver/roofline.h"

#include <algorithm>

#include "base/text.h"
#include "driver/on_device.h"

namespace weft::driver {
namespace {

/// Dense products, sums of f16 and bf16 in f32. On NVIDIA an f32 product is three of TF32 (kernels/matrix_core.h), or
/// the vector units' where they are faster. Of chips with several memories the greater product comes first.
struct Sheet {
  std::string_view chip;
  int least_gigabytes;
  double f64, f32, f16, i8;  // TFLOP/s
  double gbytes;             // GB/s
};

constexpr Sheet sheets[] = {
    {"sm_80", 0, 19.5, 52, 312, 624, 2039},               // A100
    {"sm_86", 0, 0.6, 40, 160, 320, 1008},                // RTX 3090 Ti
    {"sm_89", 0, 1.4, 91.6, 362, 733, 1008},              // L40S; memory: RTX 4090
    {"sm_90a", 120, 67, 165, 989, 1979, 4800},            // H200
    {"sm_90a", 0, 67, 165, 989, 1979, 3350},              // H100 SXM
    {"sm_100a", 0, 40, 367, 2250, 4500, 8000},            // B200
    {"sm_120a", 0, 1.64, 104.8, 209.5, 838, 1792},        // RTX 5090
    {"gfx906", 0, 6.7, 13.4, 26.8, 53, 1024},             // Instinct MI50
    {"gfx908", 0, 11.5, 46.1, 184.6, 184.6, 1229},        // MI100
    {"gfx90a", 0, 47.9, 47.9, 191.5, 191.5, 1638},        // half of an MI250X
    {"gfx942", 230, 163.4, 163.4, 1307.4, 2614.9, 6000},  // MI325X
    {"gfx942", 0, 163.4, 163.4, 1307.4, 2614.9, 5300},    // MI300X
    {"gfx950", 0, 78.6, 157.3, 2516.6, 5033, 8000},       // MI355X
    {"gfx1030", 0, 1.5, 23.8, 47.7, 95, 576},             // RX 6950 XT
    {"gfx1100", 0, 1.9, 61.4, 122.8, 122.8, 960},         // RX 7900 XTX
    {"gfx1101", 0, 1.2, 37.3, 74.6, 74.6, 624},           // RX 7800 XT
    {"gfx1102", 0, 0.7, 21.8, 43.5, 43.5, 288},           // RX 7600
    {"gfx1151", 0, 0.9, 29.7, 59.4, 59.4, 256},           // Radeon 8060S
    {"gfx1200", 0, 0.4, 25.6, 103, 205, 320},             // RX 9060 XT
    {"gfx1201", 0, 0.8, 48.7, 195, 389, 640},             // RX 9070 XT
};

Peaks data_sheet(const gpu::DeviceInfo& device) {
  const auto* s = std::ranges::find_if(sheets, [&](const Sheet& sheet) {
    return sheet.chip == device.chip.arch && device.memory >= int64_t{sheet.least_gigabytes} * 1'000'000'000;
  });
  if (s == std::end(sheets)) return {};
  return {.f64 = s->f64 * 1e3, .f32 = s->f32 * 1e3, .f16 = s->f16 * 1e3, .i8 = s->i8 * 1e3, .gbytes = s->gbytes};
}

/// GFLOP/s of the type that is in a kernel's name.
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
