// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "ir/module.h"

namespace weft {

/// Instructions that become one kernel. The anchor (a dot, convolution, reduction ...) does the main work. Elementwise
/// instructions on its first operand (`prologue`; for a GEMV also a norm) and on its result (`epilogue`) are fused into
/// it. A region without an anchor is a pointwise loop with all instructions in `epilogue`.
struct Region {
  Instruction* anchor = nullptr;
  std::vector<Instruction*> siblings = {};  ///< dots with the same rows, whose results the epilogue reads (gpu/gemv.h)
  std::vector<Instruction*> prologue = {};
  std::vector<Instruction*> epilogue = {};
  Dims dims = {};                   ///< sizes of the results
  std::vector<Value> outputs = {};  ///< values that other regions read, or results of the module
};

/// Visits the members in the order in which the kernel computes them.
template <class Visit>
void for_each_member(const Region& region, const Visit& visit) {
  for (Instruction* i : region.prologue) visit(*i);
  if (region.anchor) visit(*region.anchor);
  for (Instruction* i : region.siblings) visit(*i);
  for (Instruction* i : region.epilogue) visit(*i);
}

/// True if each element of the result depends only on the operands' elements at the same index.
bool is_pointwise(const Instruction& instruction);
/// True for parameters, constants and views, which need no kernel of their own.
bool is_leaf(const Instruction& instruction);

/// Removes regions whose instructions other regions have taken.
void erase_empty(std::vector<Region>& regions);

/// Groups a module's instructions greedily, in program order. An elementwise instruction joins a region of the same
/// sizes that computes one of its operands (preferably a region with an anchor), unless another operand depends on that
/// region. With `joins_gates`, the products of a cell's gates (passes/split_gates.h) are siblings in one region. Returns
/// the regions in an order in which they can be executed.
std::vector<Region> form_regions(const Module& module, bool joins_gates = false);

}  // namespace weft
