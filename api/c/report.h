// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <nlohmann/json.hpp>

#include "compile.h"

namespace weft {

using Json = nlohmann::ordered_json;

/// What `weft_program_report` says: device, inputs, outputs, metadata, compile phases and kernels, and every step.
/// Bytes that are not UTF-8 in a model's names are escaped.
Json describe(const Executable& executable);

/// What `weft_support` says.
Json describe(const std::vector<NodeSupport>& nodes);

}  // namespace weft
