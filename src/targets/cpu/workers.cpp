// SPDX-License-Identifier: Apache-2.0
#include "targets/cpu/workers.h"

#include <algorithm>
#include <atomic>

#include "base/error.h"

namespace weft {
namespace {

/// The data that all strands (executor calls) of one kernel share.
struct Call {
  int64_t tasks, piece;
  ThreadPool::Body body;
  void* context;
  std::atomic<int64_t> next{0};

  static void strand(void* call_pointer, int64_t index) {
    auto& call = *static_cast<Call*>(call_pointer);
    for (int64_t begin; (begin = call.next.fetch_add(call.piece, std::memory_order_relaxed)) < call.tasks;) {
      call.body(call.context, begin, std::min(begin + call.piece, call.tasks), static_cast<int>(index));
    }
  }
};

}  // namespace

Workers::Workers(const Host& host) : executor_(host.executor) {
  if (!executor_.parallel_for) pool_ = ThreadPool::shared(host.threads);
  else *this = Workers(host.executor);
}

Workers::Workers(const HostExecutor& executor) : executor_(executor) {
  if (executor.parallel_for && executor.width >= 1) return;
  throw Error({.kind = ErrorKind::usage,
               .code = "E210",
               .what = cat("an executor of width ", executor.width,
                           executor.parallel_for ? "" : " without a function 'parallel_for'")});
}

void Workers::run(int64_t tasks, ThreadPool::Body body, void* context) const {
  if (pool_) return pool_->run(tasks, body, context);
  int64_t strands = std::min<int64_t>(tasks, executor_.width);
  if (tasks <= 0) return;
  if (strands == 1) return body(context, 0, tasks, 0);
  Call call{.tasks = tasks, .piece = std::max<int64_t>(1, tasks / (strands * 8)), .body = body, .context = context};
  executor_.parallel_for(executor_.user, strands, &Call::strand, &call);
  check(call.next.load() >= tasks, "an executor runs all of its strands");
}

}  // namespace weft
