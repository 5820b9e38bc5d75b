// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/tensor.h"

namespace weft {

/// Strings as numbers: equal strings have equal numbers. So a tensor of strings is one of 64-bit numbers to everything
/// that moves, selects or compares elements, kernels included; only operators that look into strings need the strings
/// themselves.
///
///     StringPool pool(&program_texts);
///     std::vector<int64_t> codes = pool.encode({"a", "b", "a"});   // {0, 1, 0}
///     pool.text(codes[1]);                                         // "b"
///
/// Not for use by two threads at once; one that is only read (text, find) may be shared. Strings have no size that a
/// plan could know, and a few nodes can double one again and again: a pool, or a tensor, of more than 256 MiB is E401.
class StringPool {
 public:
  /// Numbers continue after those of `base`, which must outlive this and not grow any more.
  explicit StringPool(const StringPool* base = nullptr);

  int64_t code(std::string_view text);
  const std::string& text(int64_t code) const;
  /// How many strings there are, those of the base included.
  int64_t size() const { return first_ + static_cast<int64_t>(strings_.size()); }
  /// Forgets all but the base.
  void clear();

  std::vector<int64_t> encode(std::span<const std::string> strings);
  /// A tensor of strings from their numbers.
  Tensor decode(std::vector<int64_t> dims, std::span<const int64_t> codes) const;

 private:
  const int64_t* find(std::string_view text) const;

  const StringPool* base_;
  int64_t first_;
  size_t bytes_ = 0;
  std::deque<std::string> strings_;  // their addresses stay
  std::unordered_map<std::string_view, int64_t> codes_;
};

}  // namespace weft
