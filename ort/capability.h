// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "ort/graph.h"
#include "ort/program_store.h"

/// Which nodes of a graph Weft takes: those that it has compiled.
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

/// Compiles the graph whole; where the compiler refuses a node, without that node, in as few convex parts as there can
/// be, until every part compiles. A part that is left with nothing but views and casts is not worth a call of its own.
Capability find_capability(const GraphView& graph, ProgramStore& programs);

/// "3 x NonZero: ...": the refusals with equal operators and reasons gathered, a line each.
std::string describe(const GraphView& graph, const std::vector<Refusal>& refusals);

}  // namespace weft::ort
