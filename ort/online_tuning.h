// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "adapters/served.h"

namespace weft::ort {

/// Measures kernels in a thread of its own while a program is in use, from the first run on. Runs after the
/// measurements use the tuned program.
class OnlineTuning {
 public:
  /// Makes the tuned program, or null if there is none. Returns soon after `stop` returns true. Does not throw.
  using Tune = std::function<std::shared_ptr<const adapters::Served>(const std::function<bool()>& stop)>;
  explicit OnlineTuning(Tune tune) : tune_(std::move(tune)) {}
  OnlineTuning(const OnlineTuning&) = delete;
  ~OnlineTuning();

  void begin();
  /// Returns the tuned program; null until tuning has succeeded.
  std::shared_ptr<const adapters::Served> result() const {
    std::lock_guard lock(mutex_);
    return tuned_;
  }

 private:
  void run() noexcept;

  Tune tune_;
  std::once_flag begun_;
  std::atomic<bool> stops_ = false;
  mutable std::mutex mutex_;
  std::shared_ptr<const adapters::Served> tuned_ = {};
  std::thread thread_ = {};
};

}  // namespace weft::ort
