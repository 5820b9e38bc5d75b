// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "base/library_call.h"
#include "ir/op.h"

namespace weft {

/// A collective operation among the ranks of a split program (passes/shard.h). The operand x has the same sizes on each
/// rank. `sum`: all-reduce of x; `gather`: all-gather of x to [ranks, x...]. The reference interpreter refuses this
/// operator, because it interprets the program of one rank.
struct Collective {
  static constexpr std::string_view name = "collective";
  static constexpr bool has_side_effects = true;
  CollectiveFn fn = CollectiveFn::sum;
  int64_t ranks = 1;
  static auto fields() { return std::tuple{Field{"fn", &Collective::fn}, Field{"ranks", &Collective::ranks}}; }
  Types infer(Operands in) const;
  bool operator==(const Collective&) const = default;
};

}  // namespace weft
