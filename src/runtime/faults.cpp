// SPDX-License-Identifier: Apache-2.0
#include "runtime/faults.h"

#include "base/error.h"

namespace weft {

static const char* what_is_wrong(FaultKind kind) {
  switch (kind) {
    case FaultKind::out_of_bounds: return "which lie outside it";
    case FaultKind::race: return "which another task of the step has written";
    case FaultKind::unwritten: return "which nobody has written";
    default: internal_error(cat("fault ", static_cast<int>(kind), " is not an access to memory"));
  }
}

[[noreturn]] static void refuse_step(const char* code, std::string what, const PlanStep& step) {
  throw Error({.kind = ErrorKind::usage, .code = code, .what = std::move(what), .where = step.source});
}

/// Throws the error for a memory access that a checked kernel found to be wrong.
[[noreturn]] static void report_access(const Plan& plan, const PlanStep& step, const PlanKernel& kernel,
                                       const KernelFault& fault) {
  BufferId buffer = step.buffers.at(fault.buffer);
  std::string what =
      cat("kernel ", kernel.name, " touches bytes ", fault.offset, " to ", fault.offset + fault.size, " of the ",
          fault.bytes, " of buffer ", fault.buffer, " (", plan.buffers[buffer].value, "), ", what_is_wrong(fault.kind));
  if (kernel.kind == KernelKind::custom)
    refuse_step("E302", cat("the source of a custom operator is wrong: ", what), step);
  try {
    internal_error(std::move(what));
  } catch (Error& error) {
    error.set_where(step.source);
    throw;
  }
}

void report_fault(const Plan& plan, const PlanStep& step, KernelId kernel, const KernelFault& fault) {
  if (fault.kind == FaultKind::index)
    refuse_step("E301", cat("index ", fault.offset, " is outside [", -fault.size, ", ", fault.size - 1, "]"), step);
  if (fault.kind == FaultKind::host_function)
    refuse_step("E302", cat("the host's function for a custom operator failed with ", fault.offset), step);
  report_access(plan, step, plan.kernels[kernel], fault);
}

}  // namespace weft
