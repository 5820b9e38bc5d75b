// SPDX-License-Identifier: Apache-2.0
#include "runtime/arena.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace weft {

ArenaLayout place(std::span<const ArenaRequest> requests) {
  constexpr int64_t alignment = 64;
  std::vector<size_t> by_size(requests.size());
  std::iota(by_size.begin(), by_size.end(), size_t{0});
  std::ranges::sort(by_size, [&](size_t a, size_t b) {
    return requests[a].bytes != requests[b].bytes ? requests[a].bytes > requests[b].bytes : a < b;
  });
  ArenaLayout layout{.offsets = std::vector<int64_t>(requests.size()), .bytes = 0};
  std::vector<size_t> placed;  // sorted by offset
  for (size_t i : by_size) {
    const ArenaRequest& request = requests[i];
    int64_t offset = 0;
    for (size_t other : placed) {
      const ArenaRequest& neighbour = requests[other];
      if (neighbour.last < request.first || request.last < neighbour.first) continue;
      if (layout.offsets[other] - offset >= request.bytes) break;
      int64_t end = layout.offsets[other] + neighbour.bytes;
      offset = std::max(offset, (end + alignment - 1) / alignment * alignment);
    }
    int64_t end = 0;
    if (__builtin_add_overflow(offset, request.bytes, &end) || end > INT64_MAX - alignment) {
      throw Error(
          {.kind = ErrorKind::resource, .code = "E401", .what = "working memory of more than 2^63 bytes is needed"});
    }
    layout.offsets[i] = offset;
    layout.bytes = std::max(layout.bytes, end);
    placed.insert(std::ranges::upper_bound(placed, offset, {}, [&](size_t p) { return layout.offsets[p]; }), i);
  }
  return layout;
}

}  // namespace weft
