// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "plan/plan.h"

namespace weft {

/// A buffer to place in working memory. The buffer is in use from step `first` to step `last`, inclusive.
struct ArenaRequest {
  int64_t bytes = 0;
  StepId first = {}, last = {};
};

struct ArenaLayout {
  std::vector<int64_t> offsets;  ///< of each request, in bytes; multiples of 64
  int64_t bytes = 0;
};

/// Places buffers so that those in use at the same time do not overlap. Places the largest first, and each into the
/// lowest gap that fits (greedy by size: Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net
/// Inference", 2020).
ArenaLayout place(std::span<const ArenaRequest> requests);

}  // namespace weft
