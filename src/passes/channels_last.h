// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ir/module.h"

namespace weft {

/// Converts convolutions and poolings over x[batch, channel, spatial...] to channels-last, with a transpose before and
/// after each. Moves the transposes past later instructions, such as elementwise ones and concat, so that most cancel.
/// Keeps a transpose before an instruction that needs channels-first, and shortens chains of views. Joins windows whose
/// channels are last to a channels-last image.
///     %y = relu(conv %x)   ->   %l = relu(conv {channels_last} transpose %x); %y = transpose %l
/// `on_gpu`: a norm over groups of channels, too, works on channels last; only GPUs have kernels for this. And a resize
/// whose result is only returned keeps its layout: a GPU reads the small operand in any order, but writes in one.
bool channels_last(Module& module, bool on_gpu);

}  // namespace weft
