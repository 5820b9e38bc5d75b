// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "quantise/blocks.h"
#include "quantise/constants.h"
#include "quantise/observe.h"

/// Channels of the inputs of layers divided by numbers that their weights are multiplied by: the answers stay, and what
/// is hard to round moves from one to the other. What makes an input takes the division where it can (fold.h); elsewhere
/// a Mul in front of products does it, and convolutions stay as they are.
namespace weft::quantise {

/// SmoothQuant (Xiao and others, 2022): greatest input ^ strength / greatest weight ^ (1 - strength).
void smooth(ModelEdit& edit, Constants& constants, std::vector<Layer>& layers, const Observation& seen,
            double strength);

/// AWQ (Lin and others, 2023): a power of the inputs' mean square, of twenty the one whose rounded weights change the
/// products least.
void protect(ModelEdit& edit, Constants& constants, std::vector<Layer>& layers, const Observation& seen,
             const BlockFormat& format, size_t threads);

}  // namespace weft::quantise
