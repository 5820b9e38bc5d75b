// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>
#include <string>
#include <vector>

#include "quantise/constants.h"
#include "quantise/layers.h"

namespace weft::quantise {

/// Multiplies the channels of a value, the input of these layers, by factors where the value is computed. The factors
/// go into the scale of a normalisation, or into the weights and bias of an earlier layer if only operators that
/// commute with positive factors stand between. False, and nothing is changed, if there is no such place, or if other
/// nodes read the value too.
bool fold_factors(ModelEdit& edit, Constants& constants, std::vector<Layer>& layers, const std::vector<size_t>& readers,
                  std::span<const double> factors);

}  // namespace weft::quantise
