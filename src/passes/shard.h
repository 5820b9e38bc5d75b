// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "passes/pipeline.h"

namespace weft {

/// Splits the weights of products over the ranks of the context, and makes the module the program of one of them, as
/// Megatron-LM does (Shoeybi et al., 2019): a product with weights takes a part of their columns, so that its result is
/// split along that axis; later instructions work on parts as long as they can (elementwise functions, views, softmax
/// along other axes, attention by heads, the update of a cache); a product along the split axis takes the rows of its
/// weights that belong to it, and the sum over all ranks is whole again. Where an operator needs the whole of a split
/// value, the ranks' parts are gathered.
///
///     %1 = dot %x, %w1          %w1 f32[64,256]
///     %2 = gelu %1
///     %3 = dot %2, %w2          %w2 f32[256,64]
/// -> on each of 2 ranks
///     %1 = dot %x, %part1       %part1 f32[64,128]: its columns
///     %2 = gelu %1
///     %3 = dot %2, %part2       %part2 f32[128,64]: its rows
///     %4 = collective %3 {fn=sum, ranks=2}
///
/// All ranks get the same instructions in the same order; only the numbers in their weights and offsets differ. Sizes
/// that the ranks do not divide, small products, convolutions and bodies of control flow stay whole in each rank. A
/// parameter that is donated to a result which is split, and of which only the rank's part is read, becomes that part:
/// a cache of keys or values stays where its heads are computed.
bool shard(Module& module, const PassContext& context);

}  // namespace weft
