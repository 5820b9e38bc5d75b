// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "api/serve/join.h"

namespace weft::serve {

/// Finds out which requests of `program` may share a run. Two conditions must hold. First, the first axis of every
/// output, and of every input without a default, has the same open size, and no other axis has that size. Second, in
/// trial runs random rows give the same answers together as alone; a model that mixes rows (for example by a softmax
/// along the first axis) fails this test. Sequences may be padded if the model has a mask ("mask" in an input's name)
/// and trial runs with padding agree too.
BatchRule find_batch_rule(const Program& program);

}  // namespace weft::serve
