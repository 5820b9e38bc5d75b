// SPDX-License-Identifier: Apache-2.0
#include "base/random.h"

#include <unistd.h>

#include <atomic>
#include <random>

namespace weft {

/// Mixes the bits with the last steps of SplitMix64 (Steele, Lea and Flood 2014): nearby inputs give unrelated results.
static uint64_t mixed(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

int64_t fresh_seed() {
  static const uint64_t start = [] {
    std::random_device entropy;
    return uint64_t{entropy()} << 32 | entropy();
  }();
  static std::atomic<uint64_t> count = 0;
  // A forked process inherits the start and the count, so its process id is mixed in.
  uint64_t process = static_cast<uint64_t>(getpid()) << 40;
  return static_cast<int64_t>(mixed(start + process + ++count * 0x9e3779b97f4a7c15) >> 2);
}

}  // namespace weft
