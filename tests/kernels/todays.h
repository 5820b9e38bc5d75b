// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <iterator>
#include <string>
#include <type_traits>
#include <vector>

#ifndef WEFT_DAYS
#define WEFT_DAYS 1
#endif

namespace weft::test {

/// True if the case with this number runs today. Where tests are emulated, a plain run takes one case in WEFT_DAYS,
/// different ones each day (WEFT_TEST_SEED), like the mark `rotates`; `./x test --release` takes all cases.
inline bool is_todays(uint64_t number) {
  static const uint64_t day = [] {
    const char* seed = std::getenv("WEFT_TEST_SEED");
    return seed ? std::stoull(seed) : static_cast<uint64_t>(std::time(nullptr)) / 86400;
  }();
  static const bool is_full = std::getenv("WEFT_TEST_FULL") != nullptr;
  return is_full || (number + day) % WEFT_DAYS == 0;
}

/// Returns the cases that `is_todays` chooses by their index in the list.
template <class List>
auto todays(const List& cases) {
  std::vector<std::remove_cvref_t<decltype(*std::begin(cases))>> found;
  uint64_t number = 0;
  for (const auto& c : cases) {
    if (is_todays(number++)) found.push_back(c);
  }
  return found;
}

}  // namespace weft::test
