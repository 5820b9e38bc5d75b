// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace weft::ort {

/// A cache of the 32 newest programs that were compiled for values known only at run time. The key is a text of these
/// values. A caller's shared_ptr keeps a removed program alive.
template <class T>
class Variants {
 public:
  /// Returns the entry for `key`; makes it by `make()` if it is missing. Other calls of get() wait meanwhile.
  template <class Make>
  std::shared_ptr<const T> get(const std::string& key, const Make& make) {
    std::lock_guard lock(mutex_);
    auto known = made_.find(key);
    if (known != made_.end()) return known->second;
    auto fresh = std::shared_ptr<const T>(make());
    if (order_.size() == most) {
      made_.erase(order_.front());
      order_.pop_front();
    }
    order_.push_back(key);
    return made_[key] = std::move(fresh);
  }

 private:
  static constexpr size_t most = 32;

  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const T>> made_ = {};
  std::deque<std::string> order_ = {};
};

}  // namespace weft::ort
