// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "plan/plan.h"

namespace weft {

/// For GPUs: merges small kernels, whose launch costs more than their work, into one launch (kernels/device.h:
/// LaunchPart): the two halves of a rotary embedding, or the writes of keys and values to caches. Small kernels that
/// depend on each other are stages of a launch with one thread block. Also merges products and convolutions with the
/// same kernel (LaunchChoice), such as those of queries, keys and values. Moves steps to the front, past steps that
/// they do not depend on.
void merge_launches(Plan& plan);

}  // namespace weft
