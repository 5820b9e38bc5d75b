// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <string>

namespace weft {

/// The conditions that end a run or a compile early: its deadline has passed, or `stop` returns true. Every thread of
/// the run or compile checks them between pieces of work. `stop` must outlive the watch.
class Watch {
 public:
  using Deadline = std::optional<std::chrono::steady_clock::time_point>;
  Watch(const Deadline& deadline, const std::function<bool()>& stop) : deadline_(deadline), stop_(stop) {}

  bool is_needed() const { return deadline_ || stop_; }
  /// True once the work must stop; never becomes false again.
  bool is_over();
  /// Throws E403 or E404 if there is a reason to stop; `where` is the node that was not finished.
  void check(const std::string& where) {
    if (is_needed() && is_over()) end(where);
  }
  /// Throws as `check` does if any thread has seen a reason to stop, because that thread may have skipped work.
  void check_whole(const std::string& where) const {
    if (reason_ != none) end(where);
  }

 private:
  [[noreturn]] void end(const std::string& where) const;

  enum Reason : int { none, late, stopped };
  Deadline deadline_;
  const std::function<bool()>& stop_;
  std::atomic<int> reason_{none};
};

/// A scope in which check_watch on this thread checks `watch` (null: none).
class WatchScope {
 public:
  explicit WatchScope(Watch* watch);
  ~WatchScope();
  WatchScope(const WatchScope&) = delete;

  /// Returns this thread's watch, or null if there is nothing to check.
  static Watch* current();

 private:
  Watch* outer_;
};

/// Throws E403 or E404 if this thread's work must end. Cheap, so that long loops of a compile or of the reference can
/// call this function often.
inline void check_watch() {
  if (Watch* watch = WatchScope::current()) watch->check({});
}

}  // namespace weft
