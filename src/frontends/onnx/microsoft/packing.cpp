// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/microsoft/packing.h"

#include "base/text.h"
#include "frontends/common/indexing.h"

namespace weft::onnx {

Expr differences(Expr sums) {
  Dim n = sums.dims()[0] - 1;
  return slice(sums, 0, 1, n) - slice(sums, 0, 0, n);
}

Packing packing_of(Call& c, Expr place, const Dim& batch, const Dim& sequence) {
  Expr none = full(c, DType::i64, {batch * sequence}, 0);
  Expr token = scatter_elements(none, place, iota(c, place.dims()[0]), 0);
  return {c, batch, sequence, place, token};
}

Tokens tokens_of(Call& c, Expr sums, Expr past, const Dim& count) {
  Dim batch = past.dims()[0];
  Expr ends = reshape(slice(sums, 0, 1, batch), {1, batch});
  Expr token = iota(c, count);
  Expr sequence = reduce(ReduceFn::sum, convert(ends <= along(token, 0, 2), DType::i64), {1}, false);
  sequence = min(sequence, scalar(c, batch) - 1.0);
  Expr number = token - gather(sums, sequence);
  return {sequence, number, number + gather(past, sequence)};
}

Ragged ragged_of(Call& c, size_t input, const Dim& tokens, int64_t least) {
  c.expect_ranks({{input, 1}});
  Expr sums = convert(arg(c, input), DType::i64);
  Dim batch = sums.dims()[0] - 1;
  GuardCollector guards(c.module());
  require_less_equal(1, batch, cat(c.node().op_type, ": the number of sequences"));
  Expr length = differences(sums);
  Values told = {slice(sums, 0, 0, 1), slice(sums, 0, batch, 1), reduce(ReduceFn::min, length, {0}),
                 reduce(ReduceFn::max, length, {0})};
  Dims known = c.sizes_or_bound(concat(c, told, 0), {{}, {}, {}, {}});
  require_equal(known[0], 0, cat(c.node().op_type, ": where the first sequence begins"));
  require_equal(known[1], tokens, cat(c.node().op_type, ": where the last sequence ends, and the tokens"));
  require_less_equal(least, known[2], cat(c.node().op_type, ": the length of the shortest sequence"));
  Tokens t = tokens_of(c, sums, length, tokens);
  return {.batch = batch,
          .tokens = tokens,
          .longest = known[3],
          .start = slice(sums, 0, 0, batch),
          .length = length,
          .sequence = t.sequence,
          .number = t.number};
}

Continued::Continued(Call& call, Expr x, Expr before) : c(call), all(x), tokens(x.dims()[0]), reach(before.dims()[1]) {
  all = concat(c, {x, reshape(before, {before.dims()[0] * reach, x.dims()[1]})}, 0);
}

Expr Continued::at(Expr sequence, Expr start, Expr position) const {
  Expr before = scalar(c, tokens) + (sequence + 1.0) * scalar(c, reach);
  return gather(all, position + select(position >= 0, start, before));
}

Expr Continued::last(const Ragged& r) const {
  Expr position = along(r.length, 0, 2) - scalar(c, reach) + along(iota(c, reach), 1, 2);
  return at(along(iota(c, r.batch), 0, 2), along(r.start, 0, 2), position);
}

Expr captured(Call& c, Expr counts, Expr length, int64_t capacity) {
  return along(iota(c, capacity), 1, 2) < along(min(convert(counts, DType::i64), length), 0, 2);
}

}  // namespace weft::onnx
