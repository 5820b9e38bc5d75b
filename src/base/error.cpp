// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"

namespace weft {
namespace {

std::string format(const ErrorInfo& e) {
  std::string text = e.code.empty() ? cat("error: ", e.what) : cat("error[", e.code, "]: ", e.what);
  if (!e.where.empty()) text += cat("\n --> ", e.where);
  if (!e.why.empty()) text += cat("\n   ", e.why);
  if (!e.hint.empty()) text += cat("\n   hint: ", e.hint);
  return text;
}

}  // namespace

Error::Error(ErrorInfo info) : info_(std::move(info)), text_(format(info_)) {}

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
