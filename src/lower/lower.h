// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/module.h"
#include "plan/plan.h"

namespace weft {

struct LowerOptions {
  /// GPUs: the type (f16 or bf16) of f32 values in memory between kernels and of operands of matrix units; sums and
  /// values inside a kernel stay f32. Inputs and outputs keep their types.
  DType storage = DType::f32;
  std::vector<std::string> keep_f32 = {};  ///< nodes whose results and products stay f32; * and ? match
  VendorLibraries libraries = {};          ///< GPUs: those on this machine, which are further candidates
  Chooser choose = {};                     ///< among kernels that do the same work; empty: the cost model's choice
  bool are_connected = false;              ///< as of Ranks (passes/pipeline.h)
  int compute_units = 0;                   ///< GPUs: of the device; 0: of the chip's usual model
};

/// Turns an optimised program into kernel calls for a chip: regions, views, buffers, kernel sources. Memory is placed
/// by the runtime. Throws E402 naming every instruction that has no kernel on this target.
Plan lower(const Program& program, const Chip& chip, const LowerOptions& options = {});

/// Something of a program that has no kernel on any chip.
struct Unsupported {
  std::string what;    ///< "sort", "output 'y'"
  std::string source;  ///< the node of the model that it came from
  std::string node;    ///< of the main graph: the If around `source`, else the same
  std::string why;
};
std::vector<Unsupported> unsupported(const Program& program);
/// Throws E402 with all of them, so that the user sees the whole list.
void refuse_unsupported(const Program& program, const Chip& chip);

}  // namespace weft
