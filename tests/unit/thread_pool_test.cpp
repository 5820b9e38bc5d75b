// SPDX-License-Identifier: Apache-2.0
#include "targets/cpu/thread_pool.h"

#include <doctest/doctest.h>

#include "counts.h"

using namespace weft;

TEST_CASE("thread pool: every task of every call runs once, whatever sizes follow each other") {
  constexpr int most = 64;
  ThreadPool pool(4);
  std::atomic<int> runs[most];
  auto body = [](void* context, int64_t begin, int64_t end, int) {
    auto* counts = static_cast<std::atomic<int>*>(context);
    for (int64_t task = begin; task < end; ++task) counts[task].fetch_add(1, std::memory_order_relaxed);
  };
  int wrong = 0;
  const int calls = test::cases(300'000, 3'000'000);
  for (int call = 0; call < calls; ++call) {
    const int tasks = 2 + call * 37 % (most - 2);  // long calls after short calls detect threads that are late
    for (auto& count : runs) count.store(0, std::memory_order_relaxed);
    pool.run(tasks, body, runs);
    for (int task = 0; task < most; ++task) wrong += runs[task].load(std::memory_order_relaxed) != (task < tasks);
  }
  CHECK(wrong == 0);
}
