// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <exception>
#include <string>

#include "base/text.h"

namespace weft {

/// The classes of errors that a caller can act on. The value is the exit code of the command line.
enum class ErrorKind : uint8_t {
  usage = 2,        ///< a wrong option, argument or input tensor
  model = 3,        ///< the model or a saved program is invalid
  unsupported = 4,  ///< valid, but an operator, type or device is not supported
  resource = 5,     ///< memory, time or disk
  device = 6,       ///< a device or driver failed
  internal = 70,    ///< a bug of Weft
};

/// The parts of an error; empty parts are not printed. `code` is stable (docs/errors.md); `what` states the fault with
/// expected and found values; `where` names file, node and output; `why` lists details; `hint` suggests a remedy.
struct ErrorInfo {
  ErrorKind kind = ErrorKind::internal;
  std::string code = {};
  std::string what = {};
  std::string where = {};
  std::string why = {};
  std::string hint = {};
};

/// The only exception type of Weft. The library throws it; the C ABI turns it into a status object.
///
///     throw Error({.kind = ErrorKind::model, .code = "E143",
///                  .what = cat("Concat axis ", axis, " is outside [", -rank, ", ", rank - 1, "]"), .where = node});
class Error : public std::exception {
 public:
  explicit Error(ErrorInfo info);
  const ErrorInfo& info() const { return info_; }
  /// Returns the whole message: `error[E143]: ...` and one indented line for each other part.
  const char* what() const noexcept override { return text_.c_str(); }
  /// Adds the place to an error that was thrown without one, for example by a shape rule; keeps an existing place.
  void set_where(std::string where);

 private:
  ErrorInfo info_;
  std::string text_;
};

/// Throws the error for a broken invariant of Weft itself.
[[noreturn]] void internal_error(std::string what);

/// Checks an invariant; the message states the invariant.
inline void check(bool holds, const char* what) {
  if (!holds) internal_error(what);
}

}  // namespace weft
