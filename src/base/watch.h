// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <string>

namespace weft {

/// Looks whether a run or a compile should end early: its deadline passed, or its caller wants no answer any more.
/// Asked by all threads of the work between pieces of it. `stop` has to outlive it.
class Watch {
 public:
  using Deadline = std::optional<std::chrono::steady_clock::time_point>;
  Watch(const Deadline& deadline, const std::function<bool()>& stop) : deadline_(deadline), stop_(stop) {}

  bool is_needed() const { return deadline_ || stop_; }
  /// True from the first time on that there is a reason to end.
  bool is_over();
  /// Throws E403 or E404 when there is a reason to end, `where` being the node that was not done.
  void check(const std::string& where) {
    if (is_needed() && is_over()) end(where);
  }
  /// The same when somebody saw a reason already and may have left work out.
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

/// While it lives, the work of this thread heeds `watch` (null: none), however far below its caller it is done.
class WatchScope {
 public:
  explicit WatchScope(Watch* watch);
  ~WatchScope();
  WatchScope(const WatchScope&) = delete;

  /// That of this thread, when it has to be heeded; else null.
  static Watch* current();

 private:
  Watch* outer_;
};

/// Throws E403 or E404 when this thread's work is to end. Costs next to nothing: it stands in every loop of a compile,
/// or of the reference, that may go on for more than some milliseconds.
inline void heed_watch() {
  if (Watch* watch = WatchScope::current()) watch->check({});
}

}  // namespace weft
