// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>

#include "plan/plan.h"

namespace weft {

/// The sizes of a launch that are constants, in order; nothing for other sizes.
using ConstantSizes = std::vector<std::optional<int64_t>>;
ConstantSizes constant_sizes(const Plan& plan, const std::vector<SizeId>& sizes);

/// Returns the code of a kernel in which these sizes are literals.
std::string with_constants(std::string code, const ConstantSizes& sizes);

/// For GPUs: gives the launches of each run kernels in which constant sizes are literals, and removes kernels that then
/// have no launch. Such a kernel has fewer instructions, no divisions by sizes, and does not wait for its sizes.
/// Compiling takes time, so only the first few hundred versions become kernels; other launches read their sizes.
void use_constant_sizes(Plan& plan);

}  // namespace weft
