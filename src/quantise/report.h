// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <nlohmann/json.hpp>

#include "quantise/search.h"
#include "quantise/work.h"

namespace weft::quantise {

/// What was done to each layer and why, what was lost, and what was tried.
nlohmann::ordered_json report(const Work& work, const Choice& choice);

}  // namespace weft::quantise
