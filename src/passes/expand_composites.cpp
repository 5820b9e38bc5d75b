// SPDX-License-Identifier: Apache-2.0
#include "passes/expand_composites.h"

#include <cmath>

#include "ops/build.h"
#include "ops/indexed.h"
#include "passes/match.h"

namespace weft {
namespace {

/// x[batch, kv_heads, rows, size] with each head repeated for the query heads that share it.
Value for_all_heads(Module& module, Value x, const Dim& heads) {
  const Dims d = x.dims();
  if (known_equal(d[1], heads)) return x;
  Dim group = floordiv(heads, d[1]);
  Value apart = reshape(module, x, {d[0], d[1], 1, d[2], d[3]});
  return reshape(module, broadcast(module, apart, {d[0], d[1], group, d[2], d[3]}), {d[0], heads, d[2], d[3]});
}

Value below(Module& module, const Dims& dims, const Dim& offset) {
  Value row = module.append(Iota{.dims = {dims[2], 1}, .axis = 0}, {});
  Value column = module.append(Iota{.dims = {1, dims[3]}, .axis = 1}, {});
  Value last = apply(module, Fn::add, {row, reshape(module, sizes(module, {offset}), {})});
  return apply(module, Fn::less_equal, {column, last});
}

Value expanded(Module& module, const Instruction& i) {
  const auto& op = *i.as<Attention>();
  Value q = i.inputs[0], k = for_all_heads(module, i.inputs[1], q.dims()[1]),
        v = for_all_heads(module, i.inputs[2], q.dims()[1]);
  DType type = q.dtype();
  Value s = module.append(Dot{.type = type}, {q, transpose(module, k, {0, 1, 3, 2})});
  Value hidden = constant(module, type, -INFINITY);
  s = apply(module, Fn::mul, s, op.scale);
  if (op.softcap > 0)
    s = apply(module, Fn::mul, apply(module, Fn::tanh, {apply(module, Fn::div, s, op.softcap)}), op.softcap);
  if (i.inputs.size() == 4) {
    Value mask = i.inputs[3];
    s = mask.dtype() == DType::boolean ? apply(module, Fn::select, {mask, s, hidden})
                                       : apply(module, Fn::add, {s, convert(module, mask, type)});
  }
  if (op.causal) s = apply(module, Fn::select, {below(module, s.dims(), op.offset), s, hidden});
  Value p = module.append(Softmax{.axis = 3}, {s});
  if (!op.nan_rows && (op.causal || i.inputs.size() == 4)) {
    Value top = reduce(module, ReduceFn::max, s, {3}, true);
    p = apply(module, Fn::select, {apply(module, Fn::equal, {top, hidden}), constant(module, type, 0), p});
  }
  return module.append(Dot{.type = type}, {p, v});
}

}  // namespace

bool expand_attention(Module& module, int64_t widest) {
  bool changed = false;
  for (Instruction& i : module) {
    if (!i.is<Attention>()) continue;
    Dim size = max(i.inputs[0].dims()[3], i.inputs[2].dims()[3]);
    if (i.inputs[0].dtype() != DType::f64 && size.upper_bound() <= widest) continue;
    ReplaceScope scope(module, i);
    module.replace(i.result(), expanded(module, i));
    changed = true;
  }
  return changed;
}

bool expand_grouped(Module& module) {
  bool changed = false;
  for (Instruction& i : module) {
    const auto* op = i.as<GroupedDot>();
    if (!op) continue;
    ReplaceScope scope(module, i);
    Value which = apply(module, Fn::max, i.inputs[2], 0);
    Value chosen = module.append(Gather{.axis = 0}, {i.inputs[1], which});
    module.replace(i.result(), module.append(Dot{.type = op->type}, {i.inputs[0], chosen}));
    changed = true;
  }
  return changed;
}

}  // namespace weft
