// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string_view>

namespace weft {

/// The name of the symbol that has another value in every run: the seed of random operators without a seed.
inline constexpr std::string_view run_seed = "run_seed";

/// Returns another number in [0, 2^62) at each call in every process: a counter mixed with the system's entropy.
int64_t fresh_seed();

}  // namespace weft
