// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "base/host_call.h"
#include "base/tensor.h"

namespace weft {

/// Returns the kinds of a function's operands, one letter each: c a container, t a tensor of strings, n a tensor of
/// numbers, x any tensor, v anything. Operands after ? are optional; * repeats the operand before it.
std::string_view operands_of(HostFn fn);
bool takes_operands(HostFn fn, size_t count);

/// Runs the call; all targets use this function. Throws E301 for an item that does not exist, E303 for a string that is
/// not a number, E312 for items with sizes or ranks that do not fit. Changes a sequence without other owners in place,
/// so callers should move operands that are not read again.
std::vector<Tensor> run_host(const HostCall& call, std::vector<Tensor> in);

/// Throws E122 for patterns that host/pattern.h does not support (lookaround, back references).
void check_pattern(const std::string& pattern);

}  // namespace weft
