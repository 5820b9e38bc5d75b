// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <functional>

namespace weft {

/// Runs `work(i)` for 0 <= i < total on at most `threads` threads, including the caller's; fewer if the system refuses
/// threads. After an exception, calls that have not begun are skipped, and the first exception is rethrown.
void run_parallel(size_t total, size_t threads, const std::function<void(size_t)>& work);

}  // namespace weft
