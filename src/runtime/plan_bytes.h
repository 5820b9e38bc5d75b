// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "base/plan.h"

/// A plan as bytes and back. The bytes hold everything but the contents of constants, which are laid out apart so that
/// a file can hold them aligned and a program can use them where the file is mapped.
namespace weft {

/// The contents of one constant, at `offset` of all of them; a multiple of 64.
struct PlacedWeights {
  size_t offset = 0;
  std::span<const std::byte> data;  ///< of the plan that was encoded
};

struct EncodedPlan {
  std::vector<std::byte> bytes;
  std::vector<PlacedWeights> weights;
  size_t weight_bytes = 0;  ///< of all constants, gaps included
};

/// Equal plans give equal bytes. The result views the plan's constants.
EncodedPlan encode_plan(const Plan& plan);

/// Reads what encode_plan wrote; the constants are parts of `weights`. The bytes may be anything: every number is
/// checked before it is used, and a plan is only returned when all its indexes point at something and no step uses
/// memory that it does not have. Throws E170 with what is wrong.
Plan decode_plan(std::span<const std::byte> bytes, const Bytes& weights);

}  // namespace weft
