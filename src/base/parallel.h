// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <functional>

namespace weft {

/// Runs `work(i)` for 0 <= i < total on at most `threads` threads, including the caller's; fewer if the system refuses
/// threads. The first exception is rethrown here, and items that have not begun by then are skipped.
void run_parallel(size_t total, size_t threads, const std::function<void(size_t)>& work);

}  // namespace weft
