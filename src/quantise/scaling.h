// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "quantise/blocks.h"
#include "quantise/constants.h"
#include "quantise/observe.h"

/// Divides the input channels of layers by factors and multiplies the weights by them: results stay the same, and the
/// difficulty of rounding moves between inputs and weights. The operator that computes the input takes the division if
/// it can (fold.h). Otherwise a Mul is added before products; convolutions stay unchanged.
namespace weft::quantise {

/// SmoothQuant (Xiao and others, 2022): greatest input ^ strength / greatest weight ^ (1 - strength). Without a
/// strength: for each input the one with the least expected error of 8-bit integers, where another operator absorbs the
/// division. Returns whether anything changed.
bool smooth(ModelEdit& edit, Constants& constants, std::vector<Layer>& layers, const Observation& seen,
            std::optional<double> strength);

/// AWQ (Lin and others, 2023): factors are a power of the inputs' mean square. Of twenty powers, takes the one whose
/// rounded weights change the products least.
void protect(ModelEdit& edit, Constants& constants, std::vector<Layer>& layers, const Observation& seen,
             const BlockFormat& format, size_t threads);

}  // namespace weft::quantise
