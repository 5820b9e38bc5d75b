// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "api/serve/batch_rule.h"

/// A queue of requests for one program, or for copies of it on several devices:
///
///     Batcher batcher({program}, {}, find_batch_rule(program));
///     uint64_t id = batcher.submit(inputs, {}, [](auto id, auto outputs, auto failure) { ... });
///     batcher.cancel(id);
///
/// Each program has a thread, which takes the oldest request and the waiting requests that may share its run. If fewer
/// requests are open than before (`usual_`), the thread waits for further requests, at most until the delay is over.
namespace weft::serve {

using Clock = std::chrono::steady_clock;

struct BatchOptions {
  int64_t max_rows = 64;  ///< most rows of a joint run; a single request may have more
  std::chrono::nanoseconds delay = std::chrono::milliseconds(2);  ///< how long the oldest request waits for others
  size_t max_waiting = 256;  ///< most requests in the queue; more are refused with E407
};

/// The number of runs with a certain number of rows, and their total time.
struct Runs {
  uint64_t count = 0, ns = 0;
};

/// Counts since the start; `waiting`, `running` and `usual` are current numbers. `queue_ns` and `run_ns` are sums over
/// requests.
struct BatchStats {
  uint64_t answered = 0, failed = 0, cancelled = 0, expired = 0, refused = 0;
  uint64_t queue_ns = 0, run_ns = 0;
  size_t waiting = 0, running = 0;
  size_t usual = 0;                           ///< a batch waits for so many open requests, at most for the delay
  std::map<int64_t, Runs> runs_by_rows = {};  ///< key: rows of a run; 1 if requests are not joined
};

class Batcher {
 public:
  /// Receives the outputs or the error. Called once for each accepted request, from any thread; must not throw.
  using Done = std::function<void(uint64_t id, std::vector<Tensor> outputs, std::exception_ptr failure)>;

  Batcher(std::vector<Program> programs, BatchOptions options, BatchRule rule);
  /// Ends current runs; the remaining requests fail with E404.
  ~Batcher();
  Batcher(const Batcher&) = delete;

  /// Queues a request; its tensors must own their memory. Throws the errors of weft_output_sizes for inputs that do not
  /// fit, E407 if the queue is full, E404 after `close`.
  uint64_t submit(Inputs inputs, std::optional<Clock::time_point> deadline, Done done);
  /// Fails a waiting request with E404 at once, a running one at the end of its run. A run ends early if all of its
  /// requests are cancelled. Does nothing for a finished request.
  void cancel(uint64_t id);
  /// Refuses new requests; requests in the queue are still answered.
  void close();
  /// Waits until all requests are answered.
  void wait_until_idle();
  BatchStats stats() const;
  const BatchRule& rule() const { return rule_; }

 private:
  struct Request;
  using Shared = std::shared_ptr<Request>;
  using Batch = std::vector<Shared>;

  void work(const Program& program);
  Batch next_batch(std::unique_lock<std::mutex>& lock);
  void take_fitting(Batch& batch);
  bool is_worth_waiting(const Batch& batch) const;
  void run(Context& context, Joiner& joiner, const Batch& batch);
  void run_together(Context& context, Joiner& joiner, const Batch& batch);
  void note_run(const Batch& batch, Clock::duration time);
  void answer(const Shared& request, std::vector<Tensor> outputs, std::exception_ptr failure);
  void check_fit(const Inputs& inputs) const;

  std::vector<Program> programs_;
  std::vector<Port> inputs_, outputs_;
  BatchOptions options_;
  BatchRule rule_;
  mutable std::mutex mutex_;
  std::condition_variable arrived_, idle_;
  std::deque<Shared> queue_;
  std::map<uint64_t, Shared> open_;  ///< accepted and not answered
  uint64_t next_id_ = 1;
  size_t peak_ = 0;   ///< the greatest number of open requests at the end of a run since the last batch began
  size_t usual_ = 1;  ///< the greatest number of open requests; it falls by an eighth for each batch, at least by 1
  bool is_closed_ = false;
  std::atomic<bool> is_ending_ = false;
  BatchStats stats_;
  std::vector<std::thread> threads_;
};

}  // namespace weft::serve
