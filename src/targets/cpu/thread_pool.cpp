// SPDX-License-Identifier: Apache-2.0
#include "targets/cpu/thread_pool.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <map>
#include <string>
#include <system_error>

#include "base/knobs.h"
#include "base/log.h"

namespace weft {

constexpr auto spin_time = std::chrono::microseconds(20);
constexpr uint64_t closed = 0xffffffff;  // beyond all tasks: nothing can be taken from the part

static void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

/// Returns the number of cores that the cgroup's quota allows; a large number if there is none.
static double quota_cores() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0) return 1e6;
  return std::atof(quota.c_str()) / period;
}

static int affinity_cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return static_cast<int>(std::thread::hardware_concurrency());
  return CPU_COUNT(&set);
}

int available_threads() {
  int cores = std::min(affinity_cores(), static_cast<int>(std::ceil(std::min(quota_cores(), 1e6))));
  int hint = std::atoi(environment("OMP_NUM_THREADS").c_str());
  if (hint > 0) cores = std::min(cores, hint);
  return std::max(cores, 1);
}

std::shared_ptr<ThreadPool> ThreadPool::shared(int width) {
  static std::mutex mutex;
  static std::map<int, std::weak_ptr<ThreadPool>> pools;
  std::scoped_lock lock(mutex);
  auto pool = pools[width].lock();
  if (!pool) pools[width] = pool = std::make_shared<ThreadPool>(width);
  return pool;
}

ThreadPool::ThreadPool(int width) : width_(std::max(width, 1)), parts_(std::min(width_, max_parts)) {}

ThreadPool::~ThreadPool() {
  stop_ = true;
  wake();
  // After a fork the threads do not exist in the child, so their handles are only dropped.
  bool ours = started_in_ == getpid();
  for (std::thread& thread : threads_) ours ? thread.join() : thread.detach();
}

void ThreadPool::start() {
  std::scoped_lock lock(start_mutex_);
  if (started_in_ == getpid()) return;
  for (std::thread& thread : threads_) thread.detach();
  threads_.clear();
  sleepers_ = 0;
  started_in_ = getpid();
  try {
    for (int worker = 1; worker < width_; ++worker) threads_.emplace_back([this, worker] { work(worker); });
  } catch (const std::system_error& error) {
    log(LogLevel::warning, "only ", threads_.size() + 1, " of ", width_, " threads could be started: ", error.what());
  }
}

ThreadPool::Slot* ThreadPool::acquire_slot() {
  for (Slot& slot : slots_) {
    bool expected = false;
    if (!slot.taken.load(std::memory_order_relaxed) && slot.taken.compare_exchange_strong(expected, true)) return &slot;
  }
  return nullptr;
}

void ThreadPool::wake() {
  signal_.fetch_add(1);
  if (sleepers_.load() > 0) signal_.notify_all();
}

void ThreadPool::run(int64_t tasks, Body body, void* context) {
  if (tasks <= 0) return;
  Slot* slot = width_ > 1 && tasks > 1 && tasks < INT32_MAX ? acquire_slot() : nullptr;
  if (!slot) return body(context, 0, tasks, 0);  // one thread, one task, too many tasks, or no free slot
  if (started_in_.load(std::memory_order_relaxed) != getpid()) start();
  // The parts are closed first, so that a late thread with the previous call's state cannot take a piece.
  const uint64_t epoch = ((slot->parts[0].state.load(std::memory_order_relaxed) >> 32) + 1) << 32;
  for (int part = 0; part < parts_; ++part) slot->parts[part].state.store(epoch | closed, std::memory_order_relaxed);
  slot->total.store(tasks, std::memory_order_release);
  slot->piece.store(std::max<int64_t>(1, tasks / (width_ * 8)), std::memory_order_release);
  slot->body.store(body, std::memory_order_release);
  slot->context.store(context, std::memory_order_release);
  slot->done.store(0, std::memory_order_relaxed);
  for (int part = 0; part < parts_; ++part) {
    const auto first = static_cast<uint64_t>(part_begin(tasks, part));
    slot->parts[part].state.store(epoch | first, std::memory_order_release);
  }
  wake();
  help(*slot, 0);
  for (int spins = 0; slot->done.load(std::memory_order_acquire) < tasks; ++spins) {
    if (spins < 2000) pause();
    else std::this_thread::yield();
  }
  slot->taken.store(false, std::memory_order_release);
}

/// Runs one piece of a part; returns false if none is left.
bool ThreadPool::take(Slot& slot, int part, int worker) {
  std::atomic<uint64_t>& place = slot.parts[part].state;
  uint64_t state = place.load(std::memory_order_acquire);
  for (;;) {
    auto next = static_cast<int64_t>(state & 0xffffffff);
    int64_t total = slot.total.load(std::memory_order_acquire), piece = slot.piece.load(std::memory_order_acquire);
    Body body = slot.body.load(std::memory_order_acquire);
    void* context = slot.context.load(std::memory_order_acquire);
    const int64_t last = part_begin(total, part + 1);
    if (next >= last || !body) return false;
    int64_t end = std::min(next + piece, last);
    uint64_t taken = (state >> 32 << 32) | static_cast<uint64_t>(end);
    // If this succeeds, the fields that were read belong to the current call.
    if (!place.compare_exchange_weak(state, taken, std::memory_order_acq_rel, std::memory_order_acquire)) continue;
    body(context, next, end, worker);
    slot.done.fetch_add(end - next, std::memory_order_release);
    return true;
  }
}

/// Runs pieces, of the thread's own part first, until none is left. Returns false if there was none.
bool ThreadPool::help(Slot& slot, int worker) {
  const int own = worker * parts_ / width_;
  bool helped = false;
  for (int i = 0; i < parts_; ++i) {
    while (take(slot, (own + i) % parts_, worker)) helped = true;
  }
  return helped;
}

bool ThreadPool::help_any(int worker) {
  bool helped = false;
  for (Slot& slot : slots_) helped |= help(slot, worker);
  return helped;
}

void ThreadPool::work(int worker) {
  auto idle_since = std::chrono::steady_clock::now();
  while (!stop_.load(std::memory_order_relaxed)) {
    uint32_t seen = signal_.load();
    if (help_any(worker)) {
      idle_since = std::chrono::steady_clock::now();
    } else if (std::chrono::steady_clock::now() - idle_since < spin_time) {
      for (int i = 0; i < 16; ++i) pause();
    } else {
      sleepers_.fetch_add(1);
      signal_.wait(seen);
      sleepers_.fetch_sub(1);
      idle_since = std::chrono::steady_clock::now();
    }
  }
}

}  // namespace weft
