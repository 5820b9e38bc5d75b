// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string_view>

namespace weft {

/// The name of the symbol that gets a new value in every run: the seed of random operators that set no seed.
inline constexpr std::string_view run_seed = "run_seed";

/// Returns a pseudo-random number in [0, 2^62), made from a counter, the process id and entropy.
int64_t fresh_seed();

}  // namespace weft
