// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "plan/plan.h"

namespace weft {

/// For GPUs: merges small independent kernels into one launch (kernels/device.h: LaunchPart) where a launch costs more
/// than the work. Examples are the two halves of a rotary embedding, and the writes of keys and values to their caches.
/// Products and convolutions with the same kernel share a launch too (LaunchChoice), such as queries, keys and values.
/// Moves steps to the front, past steps that they do not depend on.
void merge_launches(Plan& plan);

}  // namespace weft
