// SPDX-License-Identifier: Apache-2.0
#include "ort/partition.h"

#include <algorithm>

namespace weft::ort {

std::vector<std::vector<size_t>> convex_parts(std::span<const std::vector<size_t>> reads,
                                              const std::vector<bool>& is_ours) {
  // Our nodes get even levels, other nodes odd levels.
  std::vector<size_t> levels(reads.size());
  std::vector<std::vector<size_t>> parts;
  for (size_t i = 0; i < reads.size(); ++i) {
    size_t level = is_ours[i] ? 0 : 1;
    for (size_t from : reads[i]) level = std::max(level, levels[from] + (is_ours[from] != is_ours[i] ? 1 : 0));
    levels[i] = level;
    if (!is_ours[i]) continue;
    if (parts.size() <= level / 2) parts.resize(level / 2 + 1);
    parts[level / 2].push_back(i);
  }
  std::erase_if(parts, [](const auto& part) { return part.empty(); });
  return parts;
}

}  // namespace weft::ort
