// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "weft/weft.hpp"

namespace weft::test {

/// Returns the elements of a tensor of floats.
inline std::vector<float> values_of(const weft::Tensor& tensor) {
  auto values = tensor.as<float>();
  return {values.begin(), values.end()};
}

/// Returns the code of the error that a call throws; "none" if it throws none.
std::string code_of(const auto& call) {
  try {
    call();
  } catch (const weft::Error& error) {
    return std::string(error.code());
  }
  return "none";
}

}  // namespace weft::test
