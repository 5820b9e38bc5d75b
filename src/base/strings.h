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

/// A mapping of strings to numbers, with equal numbers for equal strings. Code that moves, selects or compares elements
/// (kernels, for example) treats a tensor of strings as a tensor of 64-bit numbers. Only operators that read the
/// characters need the strings.
///
///     StringPool pool;
///     std::vector<int64_t> codes = pool.encode(texts);   // {0, 1, 0} for the texts "a", "b", "a"
///     pool.text(codes[1]);                               // "b"
///
/// Two threads must not change a pool at once; reading (text, find) is safe. A pool or a tensor of more than 256 MiB
/// throws E401. The limit is needed because strings may grow at run time: each node of a model can double a string.
class StringPool {
 public:
  /// Makes a pool that includes the strings of `base`; `base` must outlive this pool and must not grow any more.
  explicit StringPool(const StringPool* base = nullptr);

  int64_t code(std::string_view text);
  const std::string& text(int64_t code) const;
  /// Returns the number of strings, those of the base included.
  int64_t size() const { return first_ + static_cast<int64_t>(strings_.size()); }
  /// Removes all strings except those of the base.
  void clear();

  std::vector<int64_t> encode(std::span<const std::string> strings);
  /// Returns the tensor of strings with these numbers.
  Tensor decode(std::vector<int64_t> dims, std::span<const int64_t> codes) const;

 private:
  const int64_t* find(std::string_view text) const;

  const StringPool* base_;
  int64_t first_;
  size_t bytes_ = 0;
  std::deque<std::string> strings_;  // a deque, because map keys refer to the strings
  std::unordered_map<std::string_view, int64_t> codes_;
};

}  // namespace weft
