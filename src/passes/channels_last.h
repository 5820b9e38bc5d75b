// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/module.h"

namespace weft {

/// Turns convolutions and poolings over x[batch, channel, spatial...] into channels-last ones between transposes, and
/// carries the layout through later instructions (elementwise, concat, pad, slice, reduce, resize). Transposes remain
/// only where the layout changes for good.
///     %y = relu(conv %x)   ->   %l = relu(conv {channels_last} transpose %x); %y = transpose %l
bool channels_last(Module& module);

}  // namespace weft
