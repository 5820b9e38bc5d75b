// SPDX-License-Identifier: Apache-2.0
#include "base/texts.h"

namespace weft {

TextPool::TextPool(const TextPool* base) : base_(base), first_(base ? base->size() : 0) {}

const int64_t* TextPool::find(std::string_view text) const {
  if (auto found = codes_.find(text); found != codes_.end()) return &found->second;
  return base_ ? base_->find(text) : nullptr;
}

int64_t TextPool::code(std::string_view text) {
  if (const int64_t* known = find(text)) return *known;
  int64_t code = size();
  texts_.emplace_back(text);
  codes_.emplace(texts_.back(), code);
  return code;
}

const std::string& TextPool::text(int64_t code) const {
  if (code < first_ && base_) return base_->text(code);
  return texts_.at(static_cast<size_t>(code - first_));
}

void TextPool::clear() {
  codes_.clear();
  texts_.clear();
}

std::vector<int64_t> TextPool::encode(std::span<const std::string> texts) {
  std::vector<int64_t> codes;
  codes.reserve(texts.size());
  for (const std::string& text : texts) codes.push_back(code(text));
  return codes;
}

Tensor TextPool::decode(std::vector<int64_t> dims, std::span<const int64_t> codes) const {
  std::vector<std::string> texts;
  texts.reserve(codes.size());
  for (int64_t code : codes) texts.push_back(text(code));
  return make_text_tensor(std::move(dims), std::move(texts));
}

}  // namespace weft
