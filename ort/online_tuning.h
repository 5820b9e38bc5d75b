// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "adapters/served.h"

namespace weft::ort {

/// Looks for faster kernels while a program is in use. Measuring begins with the program's first run, in a thread of
/// its own; later runs use the resulting program.
class OnlineTuning {
 public:
  /// Makes the tuned program; null if there is none. Returns soon after `stop` has become true. Does not throw.
  using Tune = std::function<std::shared_ptr<const adapters::Served>(const std::function<bool()>& stop)>;
  explicit OnlineTuning(Tune tune) : tune_(std::move(tune)) {}
  OnlineTuning(const OnlineTuning&) = delete;
  ~OnlineTuning();

  void begin();
  /// Null until tuning has ended.
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
