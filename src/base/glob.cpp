// SPDX-License-Identifier: Apache-2.0
#include "base/glob.h"

#include <algorithm>

namespace weft {

bool matches_glob(std::string_view text, std::string_view pattern) {
  size_t t = 0, p = 0, star = std::string_view::npos, resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  return std::ranges::all_of(pattern.substr(p), [](char c) { return c == '*'; });
}

bool matches_any(std::string_view text, std::span<const std::string> patterns) {
  return std::ranges::any_of(patterns, [&](const std::string& pattern) { return matches_glob(text, pattern); });
}

}  // namespace weft
