// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <vector>

/// Reads facts about this machine from the operating system, and measures its peak rates.
namespace weft::driver {

struct Machine {
  std::string processor;              ///< "AMD EPYC 9654 96-Core Processor"
  int processors = 0;                 ///< allowed by the affinity mask
  double quota = 0;                   ///< processors that the cgroup's quota allows; 0: no limit
  int64_t memory = 0, available = 0;  ///< bytes
  int64_t memory_limit = 0;           ///< bytes that the cgroup allows; 0: no limit
  std::vector<std::string> caches;    ///< "L1 data 32K"
  std::string system;                 ///< "Linux 6.1.0"
};
Machine describe_machine();

/// Returns the number of runnable processes, averaged over the last minute.
double load_average();
/// Returns the processor seconds of this process over all threads.
double cpu_seconds();
int64_t peak_memory_bytes();

/// The peak rates of a device: matrix products of each type in GFLOP/s (f16 also holds for bf16), memory in GB/s.
struct Peaks {
  double f64 = 0, f32 = 0, f16 = 0, i8 = 0;
  double gbytes = 0;
};
/// Measures the peaks of this CPU with `threads` threads, in about 0.1 s, by loops of f32 multiply-adds and of reads.
/// The rates of other types are multiples of the f32 rate, by the instruction sets of the CPU.
Peaks measure_peaks(int threads);

}  // namespace weft::driver
