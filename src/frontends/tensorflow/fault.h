// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "base/error.h"

namespace weft::tensorflow {

/// Limits for the number of nodes and for graphs within graphs, so that a damaged file fails with an error.
inline constexpr int64_t max_nodes = 1'000'000, max_nesting = 64;

/// Throws an error about the model. `where` is the node at fault, `hint` what the user can do.
[[noreturn]] inline void fail(std::string code, std::string what, std::string where = {}, std::string hint = {}) {
  throw Error({.kind = ErrorKind::model,
               .code = std::move(code),
               .what = std::move(what),
               .where = std::move(where),
               .hint = std::move(hint)});
}

/// A scope during which a depth is greater by 1.
class Deeper {
 public:
  explicit Deeper(int64_t& depth) : depth_(depth) { ++depth_; }
  ~Deeper() { --depth_; }
  Deeper(const Deeper&) = delete;

 private:
  int64_t& depth_;
};

}  // namespace weft::tensorflow
