// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "api/serve/join.h"

namespace weft::serve {

/// Finds out which requests of `program` may share a run. Two conditions must hold. The sizes: every input and output
/// has the same free size as its first axis, and has it nowhere else. Trial runs: random rows give the same answers
/// together and alone, which fails for a model that mixes rows (a softmax along the first axis, for example). Sequences
/// may be padded if the model has a mask ("mask" in an input's name) and trial runs with padding agree too.
BatchRule find_batch_rule(const Program& program);

}  // namespace weft::serve
