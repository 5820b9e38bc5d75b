// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <compare>
#include <cstdint>
#include <ranges>
#include <string>
#include <utility>
#include <vector>

namespace weft {

/// The number of an item in a list of T. Each T has its own id type, so that a buffer's id cannot index steps.
template <class T>
struct Id {
  using difference_type = int;  // for std::views::iota

  Id() = default;
  explicit Id(int64_t place) : number(static_cast<int>(place)) {}

  /// Returns the number; the id must not be empty.
  size_t index() const { return number; }
  explicit operator bool() const { return number >= 0; }
  auto operator<=>(const Id&) const = default;
  Id& operator++() { return ++number, *this; }
  Id operator++(int) { return Id(number++); }
  Id operator+(int more) const { return Id(number + more); }
  Id operator-(int less) const { return Id(number - less); }

  int number = -1;  ///< from 0; -1: no item
};

template <class T>
std::string to_string(Id<T> id) {
  return std::to_string(id.number);
}

/// A list indexed by ids only: ids of its own items or of another list's items (for example, a number per buffer).
template <class T, class Key = Id<T>>
class Table : public std::vector<T> {
 public:
  using std::vector<T>::vector;

  decltype(auto) operator[](Key id) { return std::vector<T>::operator[](id.index()); }
  decltype(auto) operator[](Key id) const { return std::vector<T>::operator[](id.index()); }
  bool contains(Key id) const { return id && id < end_id(); }

  Key add(T item) {
    this->push_back(std::move(item));
    return end_id() - 1;
  }
  /// Returns the id after the last one, which the next new item gets.
  Key end_id() const { return Key(std::ssize(*this)); }
  auto ids() const { return std::views::iota(Key(0), end_id()); }
};

}  // namespace weft
