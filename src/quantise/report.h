// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <nlohmann/json.hpp>

#include "quantise/search.h"
#include "quantise/work.h"

namespace weft::quantise {

/// Returns the report: each layer's new form and the reason, the loss, and the steps of the search.
nlohmann::ordered_json report(const Work& work, const Choice& choice);

}  // namespace weft::quantise
