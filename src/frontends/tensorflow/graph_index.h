// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "frontends/tensorflow/graph_model.h"

namespace weft::tensorflow {

/// A loop in control flow of TensorFlow 1: Enter passes each initial value to its Merge; LoopCond holds the condition;
/// Switch passes the value on to the body, which ends in NextIteration, or to Exit.
struct LoopNodes {
  struct Carried {
    const GraphNode* merge;
    const GraphNode* enter;
    const GraphNode* next;                        ///< NextIteration; null: trips pass no new value on
    std::vector<const GraphNode*> switches = {};  ///< Switches of this value
    std::vector<const GraphNode*> exits = {};
  };
  std::vector<Carried> carried;
  std::vector<const GraphNode*> entries;  ///< Enters of loop invariants
  const GraphNode* condition = nullptr;   ///< the node LoopCond
};

/// A branch of TensorFlow 1: Merge takes the value of the side that the predicate of its Switch nodes selected.
struct BranchNodes {
  std::string_view predicate;  ///< the name of a value
  std::string_view sides[2];   ///< the operands of Merge if the predicate is false, true
  size_t places[2] = {0, 0};   ///< the indices of `sides` among Merge's operands
  std::map<std::string_view, std::string_view> switches[2] = {};  ///< read by each side: Switch's name -> its operand
  std::vector<std::string_view> outside[2] = {};                  ///< values that each side reads without a Switch
};

/// The nodes of a graph or function by name, and its loops and branches.
class GraphIndex {
 public:
  /// E131 if two nodes have the same name.
  explicit GraphIndex(std::span<const GraphNode> nodes);

  std::span<const GraphNode> nodes() const { return nodes_; }
  const GraphNode* find(std::string_view name) const;
  /// Returns the loop that an Exit leaves; E108 if there is none.
  const LoopNodes& loop_of(const GraphNode& exit);
  /// Returns the branch that a Merge ends; E122 if there is none.
  const BranchNodes& branch_of(const GraphNode& merge);
  /// Returns the values read by a node, or by the loop or branch that the node ends; `is_ordered` adds "^name".
  std::vector<std::string_view> needs(const GraphNode& node, bool is_ordered);

 private:
  using Sides = std::map<std::string_view, int>;  // predicate -> side (0: false, 1: true, 2: both)

  const GraphNode* maker(std::string_view value) const { return find(parse(value).node); }
  const GraphNode* maker_of(const GraphNode& node, size_t input) const;
  void find_loops();
  std::string_view root_of(std::string_view value) const;
  bool comes_back(const GraphNode& node, const GraphNode& from) const;
  const Sides& sides_of(const GraphNode& node);
  Sides computed_sides(const GraphNode& node);
  void collect(BranchNodes& branch, int side);

  std::span<const GraphNode> nodes_;
  std::unordered_map<std::string_view, const GraphNode*> by_name_;
  std::map<std::string_view, LoopNodes> loops_;                      // by the name of the loop's frame
  std::unordered_map<const GraphNode*, std::string_view> frame_of_;  // an Exit or Merge -> the frame of its loop
  std::unordered_map<const GraphNode*, Sides> sides_;
  std::unordered_map<const GraphNode*, BranchNodes> branches_;
};

}  // namespace weft::tensorflow
