// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "ort/graph.h"
#include "ort/program_store.h"

/// Finds the nodes of a graph that Weft runs: those that it has compiled.
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
  std::vector<Refusal> refusals;  ///< by node
};

/// Compiles the whole graph. If the compiler refuses a node, the others are compiled in as few convex parts as
/// possible, until every part compiles. A part with only views and casts is not worth a call.
Capability find_capability(const GraphView& graph, ProgramStore& programs);

/// "3 x NonZero: ...": the refusals, a line for all with the same operator and reason.
std::string describe(const GraphView& graph, const std::vector<Refusal>& refusals);

}  // namespace weft::ort
