// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <nlohmann/json.hpp>

#include "compile.h"

namespace weft {

using Json = nlohmann::ordered_json;

/// Returns the JSON of `weft_program_report`: device, inputs, outputs, metadata, compile phases and kernels, notes,
/// and all steps. Bytes of a model's names that are not UTF-8 are escaped.
Json describe(const Executable& executable);

/// Returns the JSON of `weft_support`.
Json describe(const std::vector<NodeSupport>& nodes);

}  // namespace weft
