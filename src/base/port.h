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
  bool is_donated = false;                   ///< an input whose memory a run may write an output to
  int rank = 0;                              ///< the device (of several) in whose memory the value lies
};

/// A request to write an output in the memory of an input, whose contents the caller gives up.
struct DonationRequest {
  std::string input, output;
};
struct Donation {
  int input = 0, output = 0;
  std::string why_not = {};  ///< empty: granted
};

}  // namespace weft
