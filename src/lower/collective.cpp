// SPDX-License-Identifier: Apache-2.0
// What the ranks of a split program do together: a step between kernels, over whole buffers.
#include "ops/collective.h"

#include "lower/lowering.h"

namespace weft {

void lower_collective(Lowering& lowering, const Region& region) {
  const Instruction& i = *region.anchor;
  const auto& op = *i.as<Collective>();
  View from = lowering.whole_view_of(i.inputs[0]), to = lowering.new_result({region.anchor, 0});
  if (from.dtype != to.dtype)
    from = lowering.copy_of(from, i.inputs[0], "the ranks exchange values as they lie in memory", to.dtype);
  Dim elements = product(from.dims);
  lowering.add_control(
      {.buffers = {from.buffer, to.buffer},
       .outputs = {to.buffer},
       .reason = cat(op.fn == CollectiveFn::sum ? "the sum over " : "the parts of ", op.ranks, " ranks"),
       .blocks = 1,
       .bytes = bytes_of({from.dtype, from.dims}) * Dim(op.ranks + 1),
       .kind = StepKind::collective,
       .amount = elements,
       .collective = op.fn});
}

}  // namespace weft
