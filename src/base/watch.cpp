// SPDX-License-Identifier: Apache-2.0
#include "base/watch.h"

#include "base/error.h"

namespace weft {
namespace {

thread_local Watch* heeded = nullptr;

}  // namespace

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
               .what = is_late ? "the deadline passed" : "the work was stopped by its caller",
               .where = where});
}

WatchScope::WatchScope(Watch* watch) : outer_(heeded) { heeded = watch && watch->is_needed() ? watch : nullptr; }
WatchScope::~WatchScope() { heeded = outer_; }
Watch* WatchScope::current() { return heeded; }

}  // namespace weft
