// SPDX-License-Identifier: Apache-2.0
#include "frontends/tensorflow/graph_index.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "frontends/tensorflow/fault.h"

namespace weft::tensorflow {
namespace {

bool is_op(const GraphNode* node, std::string_view op) {
  if (!node) return false;
  std::string_view own = node->node.op;
  return own == op || (own.starts_with("Ref") && own.substr(3) == op);
}

bool is_constant_entry(const GraphNode& enter) {
  const auto* given = attribute_of<bool>(enter.node, "is_constant");
  return given && *given;
}

std::string_view frame_name(const GraphNode& enter) {
  const auto* name = attribute_of<std::string>(enter.node, "frame_name");
  if (!name) fail("E142", "Enter needs attribute 'frame_name'", describe(enter.node));
  return *name;
}

}  // namespace

GraphIndex::GraphIndex(std::span<const GraphNode> nodes) : nodes_(nodes) {
  for (const GraphNode& node : nodes) {
    if (!by_name_.emplace(node.node.name, &node).second)
      fail("E131", cat("two nodes are called '", printable(node.node.name), "'"));
  }
  find_loops();
}

const GraphNode* GraphIndex::find(std::string_view name) const {
  auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

const GraphNode* GraphIndex::maker_of(const GraphNode& node, size_t input) const {
  return input < node.inputs.size() ? maker(node.inputs[input]) : nullptr;
}

void GraphIndex::find_loops() {
  for (const GraphNode& node : nodes_) {
    if (is_op(&node, "Enter") && is_constant_entry(node)) loops_[frame_name(node)].entries.push_back(&node);
    if (!is_op(&node, "Merge")) continue;
    const GraphNode* enter = maker_of(node, 0);
    const GraphNode* next = maker_of(node, 1);
    if (!is_op(enter, "Enter")) std::swap(enter, next);
    if (!is_op(enter, "Enter")) continue;
    frame_of_[&node] = frame_name(*enter);
    loops_[frame_name(*enter)].carried.push_back({&node, enter, is_op(next, "NextIteration") ? next : nullptr});
  }
  for (const GraphNode& node : nodes_) {
    const GraphNode* merge = is_op(&node, "Switch") ? maker_of(node, 0) : nullptr;
    auto frame = frame_of_.find(merge);
    if (frame == frame_of_.end()) continue;
    LoopNodes& loop = loops_[frame->second];
    std::ranges::find(loop.carried, merge, &LoopNodes::Carried::merge)->switches.push_back(&node);
    if (!loop.condition) loop.condition = maker_of(node, 1);
  }
  for (const GraphNode& node : nodes_) {
    if (!is_op(&node, "Exit")) continue;
    for (auto& [name, loop] : loops_) {
      for (auto& carried : loop.carried) {
        if (std::ranges::find(carried.switches, maker_of(node, 0)) == carried.switches.end()) continue;
        carried.exits.push_back(&node), frame_of_[&node] = name;
      }
    }
  }
}

const LoopNodes& GraphIndex::loop_of(const GraphNode& exit) {
  auto frame = frame_of_.find(&exit);
  if (frame == frame_of_.end()) fail("E108", "Exit leaves no loop", describe(exit.node));
  const LoopNodes& loop = loops_[frame->second];
  if (!is_op(loop.condition, "LoopCond") || loop.condition->inputs.empty())
    fail("E108", cat("the loop '", printable(frame->second), "' has no LoopCond"), describe(exit.node));
  for (const auto& carried : loop.carried) {
    if (carried.enter->inputs.empty() || (carried.next && carried.next->inputs.empty()))
      fail("E108", cat("the loop '", printable(frame->second), "' has a node without operands"), describe(exit.node));
  }
  for (const GraphNode* entry : loop.entries) {
    if (entry->inputs.empty()) fail("E108", "Enter has no operand", describe(entry->node));
  }
  return loop;
}

/// Returns the value at the start of a chain of Identity nodes.
std::string_view GraphIndex::root_of(std::string_view value) const {
  for (size_t steps = 0; steps <= nodes_.size(); ++steps) {
    const GraphNode* node = maker(value);
    if (!node || node->node.op != "Identity" || node->inputs.empty()) break;
    value = node->inputs[0];
  }
  return value;
}

/// True if the edge from `from` to `node` leads from the end of a loop's body back to the loop's Merge.
bool GraphIndex::comes_back(const GraphNode& node, const GraphNode& from) const {
  return is_op(&node, "Merge") && frame_of_.contains(&node) && !is_op(&from, "Enter");
}

/// Returns the predicates on which a node depends, each with its side: those of its operands and of Switches it reads.
GraphIndex::Sides GraphIndex::computed_sides(const GraphNode& node) {
  Sides sides;
  bool is_merge = is_op(&node, "Merge");
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const GraphNode* from = maker(node.inputs[i]);
    if (!from || comes_back(node, *from)) continue;
    Sides own = sides_.at(from);
    if (is_op(from, "Switch") && from->inputs.size() > 1)
      own[root_of(from->inputs[1])] = parse(node.inputs[i]).is_order_only ? 2 : parse(node.inputs[i]).number ? 1 : 0;
    for (auto [predicate, side] : own) {
      auto [known, is_new] = sides.emplace(predicate, side);
      if (!is_new && known->second != side && is_merge) known->second = 2;
    }
  }
  if (is_merge) std::erase_if(sides, [](const auto& entry) { return entry.second == 2; });
  auto frame = frame_of_.find(&node);
  if (frame != frame_of_.end() && !is_merge) {  // node is an Exit
    for (auto it = sides.begin(); it != sides.end();)
      it = maker(it->first) == loops_[frame->second].condition ? sides.erase(it) : std::next(it);
  }
  return sides;
}

const GraphIndex::Sides& GraphIndex::sides_of(const GraphNode& node) {
  std::vector<const GraphNode*> pending = {&node};
  std::set<const GraphNode*> open;
  while (!pending.empty()) {
    const GraphNode* next = pending.back();
    if (sides_.contains(next)) {
      pending.pop_back();
      continue;
    }
    bool is_first = open.insert(next).second, is_ready = true;
    for (size_t i = 0; is_first && i < next->inputs.size(); ++i) {
      const GraphNode* from = maker(next->inputs[i]);
      if (!from || sides_.contains(from) || comes_back(*next, *from)) continue;
      if (open.contains(from)) fail("E130", cat("cycle: ", describe(from->node), " needs its own result"));
      pending.push_back(from), is_ready = false;
    }
    if (!is_ready) continue;
    pending.pop_back();
    Sides sides = computed_sides(*next);
    sides_[next] = std::move(sides);
  }
  return sides_.at(&node);
}

/// Finds the Switches and outer values that one side of a Merge reads: walks back from the Merge's operand.
void GraphIndex::collect(BranchNodes& branch, int side) {
  std::vector<std::string_view> pending = {branch.sides[side]};
  std::set<std::string_view> seen;
  while (!pending.empty()) {
    std::string_view value = pending.back();
    pending.pop_back();
    const GraphNode* node = maker(value);
    if (!node || !seen.insert(node->node.name).second) continue;
    if (is_op(node, "Switch") && node->inputs.size() > 1 && root_of(node->inputs[1]) == branch.predicate) {
      branch.switches[side][node->node.name] = node->inputs[0];
    } else if (!sides_of(*node).contains(branch.predicate)) {
      branch.outside[side].push_back(value);
    } else {
      for (auto input : node->inputs) {
        if (!parse(input).is_order_only) pending.push_back(input);
      }
    }
  }
}

const BranchNodes& GraphIndex::branch_of(const GraphNode& merge) {
  auto [place, is_new] = branches_.try_emplace(&merge);
  BranchNodes& branch = place->second;
  if (!is_new) return branch;
  if (merge.inputs.size() != 2)
    fail("E122", cat("Merge of ", merge.inputs.size(), " values is not supported"), describe(merge.node));
  Sides own[2];
  for (size_t i = 0; i < 2; ++i) {
    const GraphNode* from = maker(merge.inputs[i]);
    if (!from) fail("E132", cat("'", printable(merge.inputs[i]), "' is made by no node"), describe(merge.node));
    own[i] = sides_of(*from);
    if (is_op(from, "Switch") && from->inputs.size() > 1)
      own[i][root_of(from->inputs[1])] = parse(merge.inputs[i]).number ? 1 : 0;
  }
  for (auto [predicate, side] : own[0]) {
    auto other = own[1].find(predicate);
    if (other == own[1].end() || side + other->second != 1) continue;
    branch.predicate = predicate;
    for (size_t i = 0; i < 2; ++i) {
      size_t at = i == 0 ? side : 1 - side;
      branch.sides[at] = merge.inputs[i], branch.places[at] = i;
    }
    for (int at : {0, 1}) collect(branch, at);
    return branch;
  }
  fail("E122", "Merge of values that no Switch chooses between is not supported", describe(merge.node));
}

std::vector<std::string_view> GraphIndex::needs(const GraphNode& node, bool is_ordered) {
  std::vector<std::string_view> values;
  if (is_op(&node, "Exit")) {
    const LoopNodes& loop = loop_of(node);
    for (const auto& carried : loop.carried) values.push_back(carried.enter->inputs[0]);
    for (const GraphNode* entry : loop.entries) values.push_back(entry->inputs[0]);
  } else if (is_op(&node, "Merge")) {
    const BranchNodes& branch = branch_of(node);
    values.push_back(branch.predicate);
    for (int side : {0, 1}) {
      for (auto [name, value] : branch.switches[side]) values.push_back(value);
      values.insert(values.end(), branch.outside[side].begin(), branch.outside[side].end());
    }
  } else {
    bool is_dropped = node.node.op == "Assert" || node.node.op == "NoOp";
    for (auto input : node.inputs) {
      if (parse(input).is_order_only ? is_ordered : !is_dropped) values.push_back(input);
    }
  }
  return values;
}

}  // namespace weft::tensorflow
