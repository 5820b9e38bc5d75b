// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <vector>

/// Facts about this machine from the operating system.
namespace weft::driver {

struct Machine {
  std::string processor;              ///< "AMD EPYC 9654 96-Core Processor"
  int processors = 0;                 ///< allowed by the affinity mask
  double quota = 0;                   ///< processors that the cgroup's quota allows; 0: no limit
  int64_t memory = 0, available = 0;  ///< bytes
  int64_t memory_limit = 0;           ///< by the cgroup; 0: no limit
  std::vector<std::string> caches;    ///< "L1 data 32 KiB"
  std::string system;                 ///< "Linux 6.1.0"
};
Machine describe_machine();

/// Runnable processes, averaged over the last minute.
double load_average();
/// Processor time of this process, all threads.
double cpu_seconds();
int64_t peak_memory_bytes();

/// The peak rates of a device: products of each type in GFLOP/s (f16 stands for bf16 too), GB/s of its memory.
struct Peaks {
  double f64 = 0, f32 = 0, f16 = 0, i8 = 0;
  double gbytes = 0;
};
/// The peaks of this CPU with `threads` threads. Loops of f32 multiply-adds and of reads measure them in about 0.1 s;
/// the rates of other types follow from the width of their instructions.
Peaks measure_peaks(int threads);

}  // namespace weft::driver
