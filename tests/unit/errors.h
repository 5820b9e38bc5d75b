// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "base/error.h"

namespace weft::test {

/// The code of the error that a call ends with; "none" when it does not. For users of weft.hpp: answers.h.
std::string code_of(const auto& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.info().code;
  }
  return "none";
}

/// The whole message; "" when it does not.
std::string message_of(const auto& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace weft::test
