// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "passes/pipeline.h"

namespace weft {

/// Tensor parallelism as in Megatron-LM (Shoeybi et al., 2019): makes the module the program of the context's rank. A
/// product with weights uses a part of the weights' columns, so that each rank has a part of the result's columns.
/// Later instructions work on the parts as long as they can (elementwise functions, views, softmax along other axes,
/// attention by heads, cache updates). A product that sums along the split axis uses the matching rows of its weights,
/// and a sum over all ranks gives the whole result. If an operator needs a whole value, the parts are gathered.
///
///     %1 = dot %x, %w1          %w1 f32[64,256]
///     %2 = gelu %1
///     %3 = dot %2, %w2          %w2 f32[256,64]
/// -> on each of 2 ranks
///     %1 = dot %x, %part1       %part1 f32[64,128]: the rank's columns of %w1
///     %2 = gelu %1
///     %3 = dot %2, %part2       %part2 f32[128,64]: the rank's rows of %w2
///     %4 = collective %3 {fn=sum, ranks=2}
///
/// All ranks have the same instructions in the same order; only numbers in weights and offsets differ. Not split: sizes
/// that the number of ranks does not divide, small products, convolutions, bodies of control flow. If a parameter is
/// donated to a split result and only the rank's part is read, the parameter becomes that part. For example, a rank
/// keeps the KV cache of its own heads only.
bool shard(Module& module, const PassContext& context);

}  // namespace weft
