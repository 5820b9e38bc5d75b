// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "base/error.h"

namespace weft::test {

/// Returns the code of the error that a call ends with; "none" when it does not. For users of weft.hpp: answers.h.
std::string code_of(const auto& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.info().code;
  }
  return "none";
}

/// Returns the whole message of the error that a call ends with; "" when it does not end with one.
std::string message_of(const auto& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace weft::test
