// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>
#include <vector>

#include "quantise/constants.h"
#include "quantise/layers.h"

namespace weft::quantise {

/// Multiplies the channels of a value, the input of these layers, by factors. The operator that computes the value
/// absorbs the factors: a normalisation in its scale; an earlier layer in its weights and bias, if all operators in
/// between commute with positive factors. Returns false, and changes nothing, if no such operator exists or other nodes
/// read the value.
bool fold_factors(ModelEdit& edit, Constants& constants, std::vector<Layer>& layers, const std::vector<size_t>& readers,
                  std::span<const double> factors);

}  // namespace weft::quantise
