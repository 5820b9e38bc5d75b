// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>

#include "base/host.h"
#include "targets/cpu/thread_pool.h"

namespace weft {

/// The threads that run the tasks of kernels: the library's pool or the embedder's executor.
class Workers {
 public:
  /// Throws E210 for an executor without a function or with a width below 1.
  explicit Workers(const Host& host);
  explicit Workers(const HostExecutor& executor);

  int width() const { return pool_ ? pool_->width() : executor_.width; }
  bool are_the_hosts() const { return pool_ == nullptr; }
  /// Does the same as ThreadPool::run. An executor gets up to width() calls; each takes pieces until none is left. No
  /// call waits for another, so an executor may run them on fewer threads.
  void run(int64_t tasks, ThreadPool::Body body, void* context) const;

 private:
  std::shared_ptr<ThreadPool> pool_;
  HostExecutor executor_;
};

}  // namespace weft
