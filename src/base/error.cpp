// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"

namespace weft {

static std::string format(const ErrorInfo& e) {
  std::string text = e.code.empty() ? cat("error: ", e.what) : cat("error[", e.code, "]: ", e.what);
  if (!e.where.empty()) text += cat("\n --> ", e.where);
  if (!e.why.empty()) text += cat("\n   ", e.why);
  if (!e.hint.empty()) text += cat("\n   hint: ", e.hint);
  return text;
}

/// Truncates a text to at most `most` bytes and appends "...", because names in a model may be megabytes long.
static void shorten(std::string& text, size_t most) {
  if (text.size() <= most) return;
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xc0) == 0x80) --most;  // do not cut a UTF-8 character
  text.resize(most);
  text += "...";
}

static ErrorInfo shortened(ErrorInfo info) {
  constexpr size_t most = 4'000, max_problems = 20'000;  // in bytes; `why` may list many problems
  for (std::string* text : {&info.what, &info.where, &info.hint}) shorten(*text, most);
  shorten(info.why, max_problems);
  return info;
}

Error::Error(ErrorInfo info) : info_(shortened(std::move(info))), text_(format(info_)) {}

void Error::set_where(std::string where) {
  if (!info_.where.empty()) return;
  info_.where = std::move(where);
  text_ = format(info_);
}

void internal_error(std::string what) {
  throw Error({.kind = ErrorKind::internal,
               .code = "E900",
               .what = cat("internal error: ", what),
               .hint = "this is a bug of Weft; please report it with the model or the text of the program"});
}

}  // namespace weft
