// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"

#include <algorithm>
#include <cctype>
#include <numeric>

namespace weft {

/// Returns the length of the UTF-8 sequence at the start of `text`; 0 if no valid sequence starts there.
static size_t utf8_length(std::string_view text) {
  auto lead = static_cast<unsigned char>(text[0]);
  size_t length = lead < 0x80                   ? 1
                  : lead >= 0xc2 && lead < 0xe0 ? 2
                  : (lead & 0xf0) == 0xe0       ? 3
                  : lead >= 0xf0 && lead < 0xf5 ? 4
                                                : 0;
  if (length == 0 || length > text.size()) return 0;
  // Refuse overlong forms, surrogates and code points above 10ffff.
  auto second = length > 2 ? static_cast<unsigned char>(text[1]) : 0;
  if ((lead == 0xe0 && second < 0xa0) || (lead == 0xed && second >= 0xa0)) return 0;
  if ((lead == 0xf0 && second < 0x90) || (lead == 0xf4 && second >= 0x90)) return 0;
  auto is_continuation = [](char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; };
  return std::ranges::all_of(text.substr(1, length - 1), is_continuation) ? length : 0;
}

/// True for C0 and C1 control characters, which a terminal would obey.
static bool is_control(std::string_view sequence) {
  auto first = static_cast<unsigned char>(sequence[0]);
  if (sequence.size() == 1) return first < 0x20 || first == 0x7f;
  return first == 0xc2 && static_cast<unsigned char>(sequence[1]) < 0xa0;
}

static void append_escaped(std::string& out, std::string_view bytes) {
  static constexpr char hex[] = "0123456789abcdef";
  for (char c : bytes) {
    auto byte = static_cast<unsigned char>(c);
    out += {'\\', 'x', hex[byte >> 4], hex[byte & 15]};
  }
}

static size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      bool same = std::tolower(a[i - 1]) == std::tolower(b[j - 1]);
      size_t replaced = diagonal + (same ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

std::string printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    size_t length = utf8_length(text);
    if (length == 0 || is_control(text.substr(0, length))) {
      length = std::max<size_t>(length, 1);
      append_escaped(out, text.substr(0, length));
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length);
  }
  return out;
}

std::string nearest_names(std::string_view name, const std::vector<std::string>& names, size_t limit) {
  // limit on compared pairs of letters: enough for 10,000 names of 20 letters, but not for ten names of a megabyte
  constexpr size_t max_work = 4'000'000;
  const size_t farthest = std::max<size_t>(2, name.size() / 3);
  std::vector<std::pair<size_t, std::string_view>> near;
  size_t work = 0;
  for (const auto& candidate : names) {
    size_t apart = std::max(name.size(), candidate.size()) - std::min(name.size(), candidate.size());
    if (apart > farthest || name.size() * candidate.size() > max_work - work) continue;
    work += name.size() * candidate.size();
    size_t distance = edit_distance(name, candidate);
    if (distance <= farthest) near.emplace_back(distance, candidate);
  }
  std::ranges::sort(near);
  std::string out;
  for (const auto& [distance, candidate] : near | std::views::take(limit)) {
    if (!out.empty()) out += ", ";
    out += candidate;
  }
  return out;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  while (!text.empty()) {
    size_t end = std::min(text.find(separator), text.size());
    pieces.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return pieces;
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view space = " \t\r\n";
  size_t begin = text.find_first_not_of(space);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(space) - begin + 1);
}

}  // namespace weft
