// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "quantise/blocks.h"
#include "quantise/constants.h"
#include "quantise/observe.h"

/// Divides the input channels of layers by factors and multiplies the weights by them. Results stay the same, but
/// inputs become easier to round and weights harder, or the reverse. If possible the division is folded into the
/// operator that computes the input (fold.h). Otherwise a Mul is put before products; convolutions are not changed.
namespace weft::quantise {

/// SmoothQuant (Xiao and others, 2022): the factor is greatest input ^ strength / greatest weight ^ (1 - strength).
/// Without a given strength, takes for each input the strength with the least expected int8 error, if another operator
/// absorbs the division. Returns true if anything changed.
bool smooth(ModelEdit& edit, Constants& constants, std::vector<Layer>& layers, const Observation& seen,
            std::optional<double> strength);

/// AWQ (Lin and others, 2023): factors are a power of the inputs' mean square. Tries twenty exponents and takes the one
/// with which rounding the weights changes the products least.
void protect(ModelEdit& edit, Constants& constants, std::vector<Layer>& layers, const Observation& seen,
             const BlockFormat& format, size_t threads);

}  // namespace weft::quantise
