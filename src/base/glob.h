// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace weft {

/// Matches the whole text against a shell pattern: `*` matches any text, `?` any character.
bool matches_glob(std::string_view text, std::string_view pattern);
bool matches_any(std::string_view text, std::span<const std::string> patterns);

}  // namespace weft
