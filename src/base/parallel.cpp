// SPDX-License-Identifier: Apache-2.0
#include "base/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "base/log.h"

namespace weft {

void run_parallel(size_t total, size_t threads, const std::function<void(size_t)>& work) {
  std::atomic<size_t> next = 0;
  std::exception_ptr first;
  std::mutex first_mutex;
  auto loop = [&] {
    try {
      for (size_t i; (i = next++) < total;) work(i);
    } catch (...) {
      std::scoped_lock lock(first_mutex);
      if (!first) first = std::current_exception();
      next = total;
    }
  };
  std::vector<std::thread> helpers;
  try {
    while (helpers.size() + 1 < std::min(threads, total)) helpers.emplace_back(loop);
  } catch (const std::system_error& error) {
    log(LogLevel::note, "only ", helpers.size() + 1, " threads could be started: ", error.what());
  }
  loop();
  for (std::thread& helper : helpers) helper.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace weft
