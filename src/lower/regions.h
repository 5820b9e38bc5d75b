// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "ir/module.h"

namespace weft {

/// Instructions that become one kernel. The anchor (a dot, convolution, reduction ...) does the main work. Elementwise
/// instructions before it (`prologue`, of the anchor's first operand; for a GEMV also a norm) and after it (`epilogue`)
/// are fused. Without an anchor all are `epilogue`: a pointwise loop.
struct Region {
  Instruction* anchor = nullptr;
  Instruction* twin = nullptr;  ///< a second dot of the same rows, also read by the epilogue (gpu/gemv.h)
  std::vector<Instruction*> prologue = {};
  std::vector<Instruction*> epilogue = {};
  Dims dims = {};                   ///< of the results
  std::vector<Value> outputs = {};  ///< values that other regions read
};

/// Visits the members in the order in which the kernel computes them.
template <class Visit>
void for_each_member(const Region& region, const Visit& visit) {
  for (Instruction* i : region.prologue) visit(*i);
  if (region.anchor) visit(*region.anchor);
  if (region.twin) visit(*region.twin);
  for (Instruction* i : region.epilogue) visit(*i);
}

/// Elementwise instructions: a result element needs only the operands' elements at the same place.
bool is_pointwise(const Instruction& instruction);
/// Parameters, constants and views, which need no kernel of their own.
bool is_leaf(const Instruction& instruction);

/// Removes regions whose instructions others have taken over.
void erase_empty(std::vector<Region>& regions);

/// Groups the instructions of a module greedily, in order: an elementwise instruction joins the latest region that
/// computes one of its operands with the same sizes, unless another operand depends on that region. The result is in an
/// order of execution.
std::vector<Region> form_regions(const Module& module);

}  // namespace weft
