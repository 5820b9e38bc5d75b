// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>

#include "wave.h"

namespace weft::amdemu {

struct LaunchSizes {
  u32 groups[3] = {1, 1, 1}, threads[3] = {1, 1, 1}, dynamic_lds = 0;
  u64 group_count() const { return u64{groups[0]} * groups[1] * groups[2]; }
  u32 thread_count() const { return threads[0] * threads[1] * threads[2]; }
};

/// Runs a kernel to its end on the threads of the host; throws Fault if the kernel makes an error. `arguments` is
/// the explicit part of its argument segment.
Counters run_kernel(const Kernel& kernel, const LaunchSizes& sizes, std::span<const u8> arguments);

/// Runs one instruction; tests use it on a wave of their own.
void execute(Wave& wave, const Instruction& i);

/// Returns a wave of `kernel` in `group` with poisoned registers and all lanes on.
std::unique_ptr<Wave> new_wave(const Kernel& kernel, WorkGroup& group, u32 id);

}  // namespace weft::amdemu
