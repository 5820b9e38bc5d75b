// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>
#include <string>
#include <vector>

#include "base/host_call.h"
#include "base/tensor.h"

namespace weft {

/// The operands of a function, a letter each: c a container, t a tensor of texts, n one of numbers, x either, v
/// anything. Those after ? may be left out; * repeats the one before.
std::string_view operands_of(HostFn fn);
/// True when a function takes this many operands.
bool takes_operands(HostFn fn, size_t count);

/// What a call gives for these operands. The same on every target: texts, sequences, optionals and maps are the host's.
/// Throws E301 for an item that is not there, E303 for a text that is no number, E312 for items whose sizes or ranks do
/// not fit. A sequence that nobody else holds is changed where it is: hand over what is not read again.
std::vector<Tensor> run_host(const HostCall& call, std::vector<Tensor> in);

/// Throws E122 for a pattern that host/pattern.h does not take (lookaround, back references).
void check_pattern(const std::string& pattern);

}  // namespace weft
