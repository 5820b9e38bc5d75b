// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>
#include <string>
#include <vector>

#include "quantise/constants.h"
#include "quantise/layers.h"

namespace weft::quantise {

/// Multiplies the channels of a value, the input of these layers, by factors where it is made: in the scale of a normalisation, or in the weights and
/// bias of a layer behind which only operators stand that pass factors above 0 on. False, and nothing is changed, where
/// there is no such place, or others read the value too.
bool fold_factors(ModelEdit& edit, Constants& constants, std::vector<Layer>& layers, const std::vector<size_t>& readers,
                  std::span<const double> factors);

}  // namespace weft::quantise
