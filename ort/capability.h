// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "ort/graph.h"
#include "ort/program_store.h"

/// Finds the nodes of a graph that Weft can run, by compiling them.
namespace weft::ort {

struct Part {
  std::vector<size_t> nodes;  ///< of the graph, in topological order
  std::shared_ptr<Compiled> program;
};

struct Refusal {
  size_t node;
  std::string reason;
};

struct Capability {
  std::vector<Part> parts;
  std::vector<Refusal> refusals;  ///< in the order of the nodes
};

/// Compiles the whole graph. If the compiler refuses a node, splits the other nodes into as few convex parts as
/// possible and compiles these, until every part compiles. If a node was refused, leaves out the parts that
/// have only operators of negligible cost, such as views, casts and constants.
Capability find_capability(const GraphView& graph, ProgramStore& programs);

/// Returns the refusals as text, one line for each operator and reason: "3 x NonZero: ...".
std::string describe(const GraphView& graph, const std::vector<Refusal>& refusals);

}  // namespace weft::ort
