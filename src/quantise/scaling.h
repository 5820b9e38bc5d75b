// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "quantise/blocks.h"
#include "quantise/constants.h"
#include "quantise/observe.h"

/// Divides the input channels of layers by factors and multiplies the weights by the factors. Results stay the same,
/// but inputs become easier to round and weights harder, or the reverse. Folds the division into the operator that
/// computes the input if possible (fold.h). Otherwise adds a Mul before products, and does not change convolutions.
namespace weft::quantise {

/// SmoothQuant (Xiao and others, 2022): a channel's factor is max|input|^strength / max|weight|^(1 - strength).
/// Without a given strength, chooses the strength with the least expected int8 error for each input. Applies it only if
/// it removes 30 % of the error and the division can be folded into another operator. Returns true if anything changed.
bool smooth(ModelEdit& edit, Constants& constants, std::vector<Layer>& layers, const Observation& seen,
            std::optional<double> strength);

/// AWQ (Lin and others, 2023): factors are a power of the inputs' mean square. Tries twenty exponents and uses the
/// exponent for which rounding the weights changes the products least.
void protect(ModelEdit& edit, Constants& constants, std::vector<Layer>& layers, const Observation& seen,
             const BlockFormat& format, size_t threads);

}  // namespace weft::quantise
