// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <span>
#include <vector>

namespace weft::ort {

/// Gathers the nodes of one side (ours or not) into as few convex parts as possible: no path leaves a part and comes
/// back, so each can run as one node. Nodes are numbered in topological order; `reads[i]` are the nodes whose values
/// node i reads. Each part is in topological order, and so are the parts.
///
/// A node's level counts how often a path to it changes sides, at most. A path that leaves a part returns at least two
/// levels higher, so all nodes of one level and side are convex together.
std::vector<std::vector<size_t>> convex_parts(std::span<const std::vector<size_t>> reads,
                                              const std::vector<bool>& is_ours);

}  // namespace weft::ort
