// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/module.h"

namespace weft {

/// Convolutions of one value that are added, each with a scale and bias per channel, become one convolution. Networks of
/// the RepVGG kind have such sums (Ding et al., "RepVGG: Making VGG-style ConvNets Great Again", 2021). The smaller kernels
/// are padded to the largest one; a scaled copy of the value itself becomes a kernel with one tap.
///
///     %2 = add (mul (convolution %x, %w3) %s3), (convolution %x, %w1)
/// ->
///     %2 = convolution %x, (add (mul %w3 %s3), (pad %w1))
bool merge_branches(Module& module);

}  // namespace weft
