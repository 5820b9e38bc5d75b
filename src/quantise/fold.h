// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>
#include <vector>

#include "quantise/constants.h"
#include "quantise/layers.h"

namespace weft::quantise {

/// Multiplies the channels of a value, the input of the layers `readers`, by `factors`: multiplies constants of an
/// earlier operator (the scale and bias of a normalisation, or the weights and bias of a layer) if all operators
/// in between commute with positive factors. Returns false, without a change, if there is no such operator or other
/// nodes read the value.
bool fold_factors(ModelEdit& edit, Constants& constants, std::vector<Layer>& layers, const std::vector<size_t>& readers,
                  std::span<const double> factors);

}  // namespace weft::quantise
