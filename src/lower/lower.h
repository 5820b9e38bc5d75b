// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/module.h"
#include "plan/plan.h"

namespace weft {

struct LowerOptions {
  /// The type in which kernels store and multiply f32 values: f32, or f16 or bf16 on GPUs and on CPUs that multiply the
  /// type. Sums and values inside a kernel stay f32; inputs and outputs keep their types.
  DType storage = DType::f32;
  std::vector<std::string> keep_f32 = {};  ///< patterns (*, ?) of nodes whose results and products stay f32
  VendorLibraries libraries = {};          ///< GPUs: libraries on this machine, candidates besides Weft's kernels
  Chooser choose = {};                     ///< chooses among kernels for the same work; empty: by the cost model
  bool are_connected = false;              ///< see Ranks (passes/pipeline.h)
  int compute_units = 0;                   ///< GPUs: their number on the device; 0: that of the chip's usual model
};

/// Returns a plan of kernel calls that computes an optimised program on a chip. The runtime places the memory. Throws
/// E402 naming every instruction without a kernel on this chip.
Plan lower(const Program& program, const Chip& chip, const LowerOptions& options = {});

/// An instruction that has no kernel on any chip.
struct Unsupported {
  std::string what;    ///< the operator's name: "sort"
  std::string source;  ///< the node of the model that it came from
  std::string node;    ///< the node of the main graph: the If or loop around `source`, else `source`
  std::string why;
};
std::vector<Unsupported> unsupported(const Program& program);
/// Throws E402 that lists everything unsupported.
void refuse_unsupported(const Program& program, const Chip& chip);

}  // namespace weft
