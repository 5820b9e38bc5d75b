// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <vector>

/// The machine under this process, as far as the operating system tells.
namespace weft::driver {

struct Machine {
  std::string processor;              ///< "AMD EPYC 9654 96-Core Processor"
  int processors = 0;                 ///< that affinity allows
  double quota = 0;                   ///< processors' worth of time by the cgroup; 0: no limit
  int64_t memory = 0, available = 0;  ///< bytes
  int64_t memory_limit = 0;           ///< by the cgroup; 0: none
  std::vector<std::string> caches;    ///< "L1 data 32 KiB"
  std::string system;                 ///< "Linux 6.1.0"
};
Machine describe_machine();

/// Runnable processes, averaged over the last minute.
double load_average();
/// Of this process, all threads.
double cpu_seconds();
int64_t peak_memory_bytes();

/// The most that a device can do: products of each type in GFLOP/s (f16: bf16 too), GB/s of its memory.
struct Peaks {
  double f64 = 0, f32 = 0, f16 = 0, i8 = 0;
  double gbytes = 0;
};
/// Of this CPU with `threads` threads: measured in about 0.1 s by loops of multiply-adds in f32 and of reads, the other
/// types by what its instructions do more.
Peaks measure_peaks(int threads);

}  // namespace weft::driver
