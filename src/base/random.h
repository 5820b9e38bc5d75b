// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string_view>

namespace weft {

/// The name of the symbol that gets a new value in every run: the seed of random operators without a seed of their own.
inline constexpr std::string_view run_seed = "run_seed";

/// Returns a new number in [0, 2^62) at each call, different in every process: a counter mixed with entropy.
int64_t fresh_seed();

}  // namespace weft
