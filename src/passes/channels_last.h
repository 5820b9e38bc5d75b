// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/module.h"

namespace weft {

/// Converts convolutions and poolings over x[batch, channel, spatial...] to channels-last between transposes. Then
/// moves the transposes past later instructions (elementwise, concat, pad, slice, reduce, resize), where most cancel;
/// one remains where an instruction needs the original layout, and chains of views around it become shorter.
///     %y = relu(conv %x)   ->   %l = relu(conv {channels_last} transpose %x); %y = transpose %l
bool channels_last(Module& module);

}  // namespace weft
