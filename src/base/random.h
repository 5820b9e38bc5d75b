// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string_view>

namespace weft {

/// The symbol that has another number in every run: what random operators without a seed of their own begin with.
inline constexpr std::string_view run_seed = "run_seed";

/// A number in [0, 2^62), another one at each call in any process: the system's entropy once, then a counter mixed in.
int64_t fresh_seed();

}  // namespace weft
