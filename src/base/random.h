// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string_view>

namespace weft {

/// The symbol that has another value in every run: the seed of random operators that state none.
inline constexpr std::string_view run_seed = "run_seed";

/// A number in [0, 2^62) that differs at each call in any process: the system's entropy once, then a counter mixed in.
int64_t fresh_seed();

}  // namespace weft
