// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace weft {

/// Returns how many cores this process may use: its affinity, lowered by a cgroup quota and by OMP_NUM_THREADS.
int available_threads();

/// Threads that run the tasks of kernels. The process has one pool for each width; any number of callers may use it at
/// once.
///
/// Tasks are handed out in small pieces, and the caller waits for tasks, not for threads: a thread that the system does
/// not schedule delays only the piece that it holds. Each thread begins with its own share of the tasks, the same in
/// every call, and then helps the others. Neighbouring tasks touch neighbouring memory, so a thread mostly reads memory
/// that it wrote in the previous call (affinity scheduling: Markatos and LeBlanc, 1994). Otherwise cache lines would
/// move between cores without a shared cache. Idle threads look for work for about 20 microseconds, then sleep.
class ThreadPool {
 public:
  /// Runs tasks [begin, end). `worker` < width() is used by one thread at a time, so it may index scratch memory.
  using Body = void (*)(void* context, int64_t begin, int64_t end, int worker);

  /// Returns the process's pool of `width` threads; the caller counts as one of them.
  static std::shared_ptr<ThreadPool> shared(int width);
  explicit ThreadPool(int width);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;

  int width() const { return width_; }
  /// Runs body over [0, tasks) and returns when all are done. The body must not throw.
  void run(int64_t tasks, Body body, void* context);

 private:
  /// The state of one share of a call: (epoch << 32 | next task). The epoch keeps a late thread from taking a piece of
  /// a later call.
  struct alignas(64) Part {
    std::atomic<uint64_t> state{0};
  };
  static constexpr int slot_count = 16, max_parts = 16;
  /// The state of one running call.
  struct alignas(64) Slot {
    std::atomic<int64_t> total{0}, piece{1};
    std::atomic<Body> body{nullptr};
    std::atomic<void*> context{nullptr};
    Part parts[max_parts];
    alignas(64) std::atomic<int64_t> done{0};
    std::atomic<bool> taken{false};
  };

  void start();
  void work(int worker);
  int64_t part_begin(int64_t tasks, int part) const { return tasks * part / parts_; }
  bool take(Slot& slot, int part, int worker);
  bool help(Slot& slot, int worker);
  bool help_any(int worker);
  Slot* acquire_slot();
  void wake();

  const int width_, parts_;
  Slot slots_[slot_count];
  std::atomic<uint32_t> signal_{0};
  std::atomic<int> sleepers_{0};
  std::atomic<bool> stop_{false};
  std::mutex start_mutex_;
  std::atomic<int64_t> started_in_{0};  // process id, so that a forked child starts its own threads
  std::vector<std::thread> threads_;
};

}  // namespace weft
