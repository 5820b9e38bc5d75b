// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string_view>
#include <vector>

#include "base/dim.h"

/// Helpers to read the arguments of a node.
namespace weft::frontend {

/// Returns the sizes as numbers; nothing if a size is symbolic.
inline std::optional<std::vector<int64_t>> fixed_numbers(const Dims& sizes) {
  std::vector<int64_t> numbers;
  for (const Dim& size : sizes) {
    if (!size.is_constant()) return {};
    numbers.push_back(size.value());
  }
  return numbers;
}

/// Records which named arguments of a node were read, so that an unread argument becomes an error.
class Asked {
 public:
  explicit Asked(size_t count) : asked_(count) {}

  /// Returns the argument of `list` with the name `name` and marks this argument as read; null if there is none.
  template <class List, class NameOf>
  const typename List::value_type* find(const List& list, NameOf name_of, std::string_view name) const {
    for (size_t i = 0; i < list.size(); ++i) {
      if (std::invoke(name_of, list[i]) != name) continue;
      asked_[i] = true;
      return &list[i];
    }
    return nullptr;
  }
  void mark(size_t i) const { asked_[i] = true; }
  bool was(size_t i) const { return asked_[i]; }

 private:
  mutable std::vector<bool> asked_;
};

}  // namespace weft::frontend
