// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <span>
#include <vector>

namespace weft::ort {

/// Gathers the nodes of one side into as few parts as can each run as one node: no path leaves a part and comes back.
/// Nodes are numbered in topological order; `reads[i]` are the nodes whose values node i reads. Each part is in
/// topological order, and so are the parts.
///
/// A node's level counts how often the paths to it change sides: a path that leaves a part meets it again two levels
/// higher at the soonest, so the nodes of one level and side are convex together.
std::vector<std::vector<size_t>> convex_parts(std::span<const std::vector<size_t>> reads,
                                              const std::vector<bool>& is_ours);

}  // namespace weft::ort
