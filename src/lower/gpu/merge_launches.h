// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "plan/plan.h"

namespace weft {

/// GPUs: merges small kernels that do not depend on each other into one launch (kernels/device.h: LaunchPart), if a
/// launch costs more than the work: the halves of a rotary embedding, keys and values written to their caches. Products
/// and convolutions with the same kernel share a launch too (LaunchChoice): queries, keys and values. Steps move to the
/// front, past steps that they are independent of.
void merge_launches(Plan& plan);

}  // namespace weft
