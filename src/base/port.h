// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>

#include "base/shape.h"
#include "base/tensor.h"

namespace weft {

/// An input or output. Sizes may be symbolic.
struct Port {
  std::string name;
  Type type = {};
  std::optional<Tensor> default_value = {};  ///< an initialiser that callers may override
  bool is_donated = false;                   ///< a run may write an output into this input's memory
  int rank = 0;                              ///< the rank that holds the value, if a model is split among several
};

/// A request to write an output into the memory of an input. The caller gives up the input's contents.
struct DonationRequest {
  std::string input, output;
};
struct Donation {
  int input = 0, output = 0;
  std::string why_not = {};  ///< why the request was refused; empty: granted
};

}  // namespace weft
