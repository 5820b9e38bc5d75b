// SPDX-License-Identifier: Apache-2.0
#include "base/strings.h"

#include "base/error.h"

namespace weft {

/// Adds to a sum of bytes; throws E401 if the sum exceeds 256 MiB.
static void count_bytes(size_t& sum, size_t more) {
  constexpr size_t most = size_t{1} << 28;
  sum += more;
  if (sum <= most) return;
  throw Error({.kind = ErrorKind::resource, .code = "E401", .what = "strings of a run take more than 256 MiB"});
}

StringPool::StringPool(const StringPool* base) : base_(base), first_(base ? base->size() : 0) {}

const int64_t* StringPool::find(std::string_view text) const {
  if (auto found = codes_.find(text); found != codes_.end()) return &found->second;
  return base_ ? base_->find(text) : nullptr;
}

int64_t StringPool::code(std::string_view text) {
  if (const int64_t* known = find(text)) return *known;
  int64_t code = size();
  count_bytes(bytes_, text.size());
  strings_.emplace_back(text);
  codes_.emplace(strings_.back(), code);
  return code;
}

const std::string& StringPool::text(int64_t code) const {
  if (code < first_ && base_) return base_->text(code);
  return strings_.at(code - first_);
}

void StringPool::clear() {
  codes_.clear();
  strings_.clear();
  bytes_ = 0;
}

std::vector<int64_t> StringPool::encode(std::span<const std::string> strings) {
  std::vector<int64_t> codes;
  codes.reserve(strings.size());
  for (const std::string& text : strings) codes.push_back(code(text));
  return codes;
}

Tensor StringPool::decode(std::vector<int64_t> dims, std::span<const int64_t> codes) const {
  std::vector<std::string> strings;
  strings.reserve(codes.size());
  size_t bytes = 0;
  for (int64_t code : codes) {
    count_bytes(bytes, text(code).size());
    strings.push_back(text(code));
  }
  return make_string_tensor(std::move(dims), std::move(strings));
}

}  // namespace weft
