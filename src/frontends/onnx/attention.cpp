// SPDX-License-Identifier: Apache-2.0
#include "frontends/onnx/attention.h"

#include "frontends/common/control.h"

namespace weft::onnx {

Values rotary_node(Call& c, Value positions, size_t cosine, size_t sine, int64_t heads) {
  Expr x = arg(c, 0);
  int64_t rotary = c.integer("rotary_embedding_dim", 0);
  bool interleaved = c.flag("interleaved"), is_flat = x.rank() == 3;
  if (is_flat && heads == 0) c.fail("E142", "needs num_heads for an input of rank 3");
  Expr split = is_flat ? split_heads(c, x, heads) : x;
  if (rotary && known_equal(split.dims()[3], rotary)) rotary = 0;
  Expr y = rotary_embedding(c, split, positions, arg(c, cosine), arg(c, sine), rotary, interleaved);
  return {is_flat ? join_heads(y) : y};
}

Recurred recurred(Call& c, const Recurrence& of, Expr state) {
  auto column = [](Expr x) { return transpose(x, {0, 1, 3, 2}); };
  Value decay = of.decay ? exp(Expr{&c, of.decay}).value : Value{};
  Values y = loop_over(c, of.q.dims()[2], {state}, 2, [&](const Builder& body, const Dim& trip, const Values& carried) {
    auto token = [&](Value x) { return slice(inside(body, x), 2, trip, 1); };
    Expr now{&body, carried[0]}, key = token(of.k), added = token(of.v);
    if (decay) now = now * column(token(decay));
    if (of.rate) added = (added - matmul(key, now)) * token(of.rate);
    now = now + matmul(column(key), added);
    Expr asked = token(of.q);
    Dim heads = max(asked.dims()[1], now.dims()[1]);
    Expr row = matmul(repeat_heads(asked, heads), repeat_heads(now, heads));
    return Values{now, row_at(row, 2, 0), row_at(added, 2, 0)};
  });
  auto by_heads = [&](Value rows) { return transpose(Expr{&c, rows}, {1, 2, 0, 3}); };  // [tokens, batch, heads, dv]
  return {{&c, y[0]}, by_heads(y[1]), by_heads(y[2])};
}

double head_scale(Call& c, Expr& q) {
  double scale = c.number("scale", 0);
  return scale != 0 ? scale : default_scale(q);
}

}  // namespace weft::onnx
