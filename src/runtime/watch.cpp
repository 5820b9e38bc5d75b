// SPDX-License-Identifier: Apache-2.0
#include "runtime/watch.h"

#include "base/error.h"

namespace weft {

bool Watch::is_over() {
  if (reason_.load(std::memory_order_relaxed) != none) return true;
  if (deadline_ && std::chrono::steady_clock::now() > *deadline_) reason_ = late;
  else if (stop_ && stop_()) reason_ = stopped;
  return reason_.load(std::memory_order_relaxed) != none;
}

void Watch::end(const std::string& where) const {
  bool is_late = reason_ == late;
  throw Error({.kind = ErrorKind::resource,
               .code = is_late ? "E403" : "E404",
               .what = is_late ? "the deadline passed" : "the run was stopped by its caller",
               .where = where});
}

}  // namespace weft
