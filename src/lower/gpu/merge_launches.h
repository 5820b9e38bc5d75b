// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "base/plan.h"

namespace weft {

/// GPUs: small kernels that do not depend on each other become one launch, whose blocks they share out
/// (kernels/device.h: LaunchPart), where a launch costs more than the work: the halves of a rotary embedding, keys and
/// values written to their caches. Products and convolutions that have the same kernel share one too (LaunchChoice):
/// queries, keys and values. Steps move to the front over others that they have nothing to do with.
void merge_launches(Plan& plan);

}  // namespace weft
