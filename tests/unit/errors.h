// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "base/error.h"

namespace weft::test {

/// Returns the code of the error that a call throws; "none" if it throws none. Tests that use weft.hpp include
/// answers.h instead.
std::string code_of(const auto& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.info().code;
  }
  return "none";
}

/// Returns the whole message of the error that a call throws; "" if it throws none.
std::string message_of(const auto& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace weft::test
