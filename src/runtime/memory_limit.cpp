// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory_limit.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "base/error.h"
#include "base/knobs.h"

namespace weft {
namespace {

/// What a container may take; INT64_MAX without a limit ("max", or no such file).
int64_t control_group_limit() {
  int64_t limit = 0;
  std::ifstream("/sys/fs/cgroup/memory.max") >> limit;
  return limit > 0 ? limit : INT64_MAX;
}

std::string in_mebibytes(int64_t bytes) { return cat(bytes >> 20, " MiB"); }

bool takes_memory(const PlanBuffer& buffer) {
  return buffer.kind == BufferKind::output || buffer.kind == BufferKind::arena;
}

}  // namespace

int64_t default_memory_limit() {
  if (knobs().memory_limit > 0) return knobs().memory_limit << 20;
  static const int64_t whole = std::min<int64_t>(
      static_cast<int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE), control_group_limit());
  return whole;
}

void check_memory(const Plan& plan, std::span<const int64_t> bytes, int64_t arena, int64_t limit) {
  if (limit <= 0) limit = default_memory_limit();
  int64_t total = arena;
  size_t largest = 0;
  bool overflows = false;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (!takes_memory(plan.buffers[i])) continue;
    if (plan.buffers[i].kind == BufferKind::output) overflows |= __builtin_add_overflow(total, bytes[i], &total);
    if (bytes[i] > bytes[largest] || !takes_memory(plan.buffers[largest])) largest = i;
  }
  if (!overflows && total <= limit) return;
  throw Error({.kind = ErrorKind::resource,
               .code = "E401",
               .what = cat("the run needs ", overflows ? "more than 2^63 bytes" : in_mebibytes(total),
                           ", the limit is ", in_mebibytes(limit)),
               .where = plan.buffers[largest].value,
               .why = cat("the largest piece has ", in_mebibytes(bytes[largest])),
               .hint = "use smaller sizes, or raise the limit (--memory-limit, WEFT_MEMORY_LIMIT)"});
}

}  // namespace weft
