// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <span>
#include <vector>

namespace weft::ort {

/// Groups our nodes (`is_ours`) into as few convex parts as possible. No path leaves a convex part and comes back, so
/// the part can run as one node. Nodes are numbered in topological order; reads[i] has the nodes that make the operands
/// of node i. Parts, and the nodes in each part, are in topological order.
///
/// There are two sides, our nodes and the others. The level of a node is the greatest number of changes of side on a
/// path to it, where each path counts as starting on our side. A path that leaves a part comes back at least two levels
/// higher, so our nodes of one level are convex.
std::vector<std::vector<size_t>> convex_parts(std::span<const std::vector<size_t>> reads,
                                              const std::vector<bool>& is_ours);

}  // namespace weft::ort
