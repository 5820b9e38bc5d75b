// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "plan/plan.h"

namespace weft {

/// GPUs: merges small independent kernels into one launch (kernels/device.h: LaunchPart) where a launch costs more than
/// the work: the halves of a rotary embedding, keys and values written to their caches. Products and convolutions with
/// the same kernel share a launch too (LaunchChoice), such as queries, keys and values. Moves steps to the front, past
/// steps that they do not depend on.
void merge_launches(Plan& plan);

}  // namespace weft
