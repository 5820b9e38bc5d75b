// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <sys/syscall.h>
#include <unistd.h>

/// Linux hands out AMX's tile registers only to a process that asks (ARCH_REQ_XCOMP_PERM, state 18).
inline bool may_use_amx() {
#if defined(__x86_64__)
  return ::syscall(SYS_arch_prctl, 0x1023, 18) == 0;
#else
  return false;
#endif
}
