// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "api/serve/join.h"

namespace weft::serve {

/// Which requests of `program` may be computed in one run. Two things must hold. The sizes must allow it: every input
/// and output has the same free size as its first axis, and that size nowhere else. And runs must confirm it: random
/// rows have the same answers together and by themselves. A model that mixes its rows fails the second, a softmax along
/// the first axis for example. Sequences are padded where the model has a mask ("mask" in an input's name) and runs
/// with padding confirm that too.
BatchRule find_batch_rule(const Program& program);

}  // namespace weft::serve
