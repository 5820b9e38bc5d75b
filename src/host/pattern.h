// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

namespace weft::host {

/// A regular expression. Matching takes time proportional to the length of the string, because it simulates an NFA (K.
/// Thompson, "Regular expression search algorithm", 1968).
///
/// The syntax is RE2's: alternatives, groups, repetition (also lazy and counted up to 1000), classes with ranges and
/// [:names:], \d \w \s \b and their opposites, ^ $ \A \z, . and the flags i, s and m. Strings are UTF-8. Throws E122
/// for the rest of RE2 (\p{..}, \Q..\E, \C, the flag U) and for lookaround and back references.
class Pattern {
 public:
  explicit Pattern(std::string_view text);
  bool matches(std::string_view text) const { return longest(text, 0) == text.size(); }
  /// Returns the length of the longest match that begins at byte `at`; npos if there is none.
  size_t longest(std::string_view text, size_t at) const;

  struct Range {
    uint32_t first, last;
  };
  /// A set of characters: the characters in `ranges`, or all others if negated.
  struct Set {
    std::vector<Range> ranges = {};
    bool is_negated = false, ignores_case = false;
    bool contains(uint32_t code) const;
  };
  enum class Op : uint8_t { set, split, jump, begin, end, line_begin, line_end, boundary, no_boundary, done };
  struct Instruction {
    Op op;
    uint32_t to = 0, other = 0;  ///< next instructions of split and jump; for Op::set, `to` is the set's index
  };

 private:
  struct Place;
  void add(uint32_t at, const Place& place, std::vector<uint32_t>& threads, std::vector<bool>& is_in) const;

  std::vector<Set> sets_;
  std::vector<Instruction> code_;
};

}  // namespace weft::host
