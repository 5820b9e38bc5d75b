// SPDX-License-Identifier: Apache-2.0
#include "passes/expand_composites.h"

#include <array>
#include <cmath>
#include <optional>

#include "ir/core_ops.h"
#include "ops/block_dot.h"
#include "ops/build.h"
#include "ops/indexed.h"
#include "ops/quantize.h"

namespace weft {
namespace {

/// Repeats each head of x[batch, kv_heads, rows, size] for the query heads that share it.
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

/// Returns bool[batch, 1, rows, keys]: true for keys inside the half-open ranges of ranges[batch, rows, 2].
Value inside(Module& module, Value ranges, const Dim& keys) {
  Value key = module.append(Iota{.dims = {1, 1, 1, keys}, .axis = 3}, {});
  auto bound = [&](int64_t which) {
    Dims dims = {ranges.dims()[0], 1, ranges.dims()[1], 1};
    return reshape(module, slice_axis(module, ranges, 2, which, 1), dims);
  };
  Value behind = apply(module, Fn::greater_equal, {key, bound(0)}), before = apply(module, Fn::less, {key, bound(1)});
  return apply(module, Fn::logical_and, {behind, before});
}

/// Returns v[batch, heads, keys, size] with 0 for keys outside of all ranges: NaN times a weight of 0 would be NaN.
Value without_unseen(Module& module, Value v, Value ranges) {
  auto outermost = [&](int64_t which, ReduceFn fn) {
    return reduce(module, fn, slice_axis(module, ranges, 2, which, 1), {1}, true);
  };
  Value whole = module.append(Concat{.axis = 2}, {outermost(0, ReduceFn::min), outermost(1, ReduceFn::max)});
  Value seen = reshape(module, inside(module, whole, v.dims()[2]), {v.dims()[0], 1, v.dims()[2], 1});
  return apply(module, Fn::select, {seen, v, constant(module, v.dtype(), 0)});
}

/// Appends a column with x[heads] to s[batch, heads, rows, columns].
Value with_column(Module& module, Value s, Value x) {
  Dims column = s.dims();
  column[3] = 1;
  x = broadcast(module, reshape(module, x, {1, column[1], 1, 1}), column);
  return module.append(Concat{.axis = 3}, {s, x});
}

Value expanded(Module& module, const Instruction& i) {
  const auto& op = *i.as<Attention>();
  Value q = i.inputs[0], k = for_all_heads(module, i.inputs[1], q.dims()[1]),
        v = op.ranged ? without_unseen(module, i.inputs[2], i.inputs.back()) : i.inputs[2];
  v = for_all_heads(module, v, q.dims()[1]);
  DType type = q.dtype();
  Value s = module.append(Dot{.type = type}, {q, transpose(module, k, {0, 1, 3, 2})});
  Value hidden = constant(module, type, -INFINITY);
  s = apply(module, Fn::mul, s, op.scale);
  if (op.softcap > 0)
    s = apply(module, Fn::mul, apply(module, Fn::tanh, {apply(module, Fn::div, s, op.softcap)}), op.softcap);
  bool masked = op.has_mask(i.inputs.size());
  if (masked) {
    Value mask = i.inputs[3];
    s = mask.dtype() == DType::boolean ? apply(module, Fn::select, {mask, s, constant(module, type, op.hidden)})
                                       : apply(module, Fn::add, {s, convert(module, mask, type)});
  }
  if (op.causal) s = apply(module, Fn::select, {below(module, s.dims(), op.offset), s, hidden});
  if (op.ranged) s = apply(module, Fn::select, {inside(module, i.inputs.back(), k.dims()[2]), s, hidden});
  if (op.sinks) s = with_column(module, s, i.inputs[op.sinks_at(i.inputs.size())]);
  Value p = module.append(Softmax{.axis = 3}, {s});
  if (!op.nan_rows && (op.causal || op.ranged || masked)) {
    Value top = reduce(module, ReduceFn::max, s, {3}, true);
    p = apply(module, Fn::select, {apply(module, Fn::equal, {top, hidden}), constant(module, type, 0), p});
  }
  if (op.sinks) p = slice_axis(module, p, 3, 0, k.dims()[2]);
  return module.append(Dot{.type = type}, {p, v});
}

}  // namespace

static Value expanded_product(Module& module, const Instruction& i) {
  const auto& op = *i.as<BlockDot>();
  Value x = i.inputs[0], w = i.inputs[1], scale = i.inputs[2];
  BlockDotOperands at(i.inputs.size(), x.dtype() == DType::i8);
  if (x.def->is<QuantizeRows>()) x = x.def->inputs[0];
  else if (at.row_scale)
    x = module.append(Dequantize{.to = op.type, .axis = x.rank() - 1, .block = op.block}, {x, i.inputs[at.row_scale]});
  int64_t half = int64_t{1} << (bits(w.dtype()) - 1);
  Value zero = at.zero ? i.inputs[at.zero]
                       : broadcast(module, constant(module, w.dtype(), static_cast<double>(half)), scale.dims());
  Value weight = module.append(Dequantize{.to = scale.dtype(), .axis = 1, .block = op.block}, {w, scale, zero});
  weight = convert(module, slice_axis(module, weight, 1, 0, x.dims().back()), x.dtype());
  return convert(module, matmul(module, x, transpose(module, weight, {1, 0})), op.type);
}

/// Returns the results of a quantize_rows (bytes, scales, sums), computed by simpler operators.
static std::array<Value, 3> expanded_rows(Module& module, const Instruction& i) {
  int64_t block = i.as<QuantizeRows>()->block;
  Dims wide = i.types[0].shape.dims, cut = i.types[1].shape.dims, column = cut;
  cut.push_back(block), column.push_back(1);
  Value x = convert(module, i.inputs[0], DType::f32);
  Pad pad{.before = Dims(wide.size(), 0), .after = Dims(wide.size(), 0)};
  pad.after.back() = wide.back() - x.dims().back();
  x = reshape(module, module.append(pad, {x, constant(module, DType::f32, 0)}), cut);
  int64_t last = static_cast<int64_t>(cut.size()) - 1;
  Value top = reduce(module, ReduceFn::max, apply(module, Fn::abs, {x}), {last}, true);
  Value none = apply(module, Fn::equal, top, 0), zero = constant(module, DType::f32, 0);
  Value inverse = apply(module, Fn::div, {constant(module, DType::f32, 127), top});
  inverse = apply(module, Fn::select, {none, zero, inverse});
  Value steps = apply(module, Fn::round, {apply(module, Fn::mul, {x, inverse})});
  Value sum = reduce(module, ReduceFn::sum, convert(module, steps, DType::i32), {last}, false);
  Value scale = reshape(module, apply(module, Fn::div, top, 127), i.types[1].shape.dims);
  return {reshape(module, convert(module, steps, DType::i8), wide), scale, sum};
}

/// Appends a block_dot of the float rows that `i` reads in quantised form.
static Value product_of_floats(Module& module, const Instruction& i) {
  std::vector<Value> in{i.inputs[0].def->inputs[0], i.inputs[1], i.inputs[2]};
  if (BlockDotOperands at(i.inputs.size(), true); at.zero) in.push_back(i.inputs[at.zero]);
  const auto& op = *i.as<BlockDot>();
  return convert(module, module.append(BlockDot{.block = op.block, .type = in[0].dtype()}, in), op.type);
}

/// Returns the replacement of the block_dot `i`; nothing if the target has a kernel for `i`.
static std::optional<Value> plain_product(Module& module, const Instruction& i, bool takes_bytes) {
  if (!i.inputs[1].def->is<Constant>()) return expanded_product(module, i);
  if (takes_bytes || i.inputs[0].dtype() != DType::i8) return std::nullopt;
  return i.inputs[0].def->is<QuantizeRows>() ? product_of_floats(module, i) : expanded_product(module, i);
}

bool expand_block_dots(Module& module, bool takes_bytes) {
  bool changed = false;
  for (Instruction& i : module) {
    if (!i.is<BlockDot>()) continue;
    ReplaceScope scope(module, i);
    auto plain = plain_product(module, i, takes_bytes);
    if (!plain) continue;
    module.replace(i.result(), *plain);
    changed = true;
  }
  if (takes_bytes) return changed;
  if (changed) module.remove_dead();
  for (Instruction& i : module) {
    if (!i.is<QuantizeRows>()) continue;
    ReplaceScope scope(module, i);
    std::array<Value, 3> rows = expanded_rows(module, i);
    for (uint32_t at = 0; at < 3; ++at) module.replace(i.result(at), rows[at]);
    changed = true;
  }
  return changed;
}

/// True if two products are faster than the attention kernel: wide heads, many rows, few keys; no mask, range or sink.
static bool has_few_keys(const Instruction& i, const AttentionHeads& heads) {
  const auto& op = *i.as<Attention>();
  const Dims &q = i.inputs[0].dims(), &k = i.inputs[1].dims();
  bool is_plain = i.inputs.size() == 3 && !op.causal && !op.ranged && !op.sinks;
  constexpr int64_t max_rows_of_few = 8;  // the most rows that attention_few takes (lower/attention.cpp)
  return is_plain && q[3].lower_bound() > heads.widest_of_few_keys && q[2].lower_bound() > max_rows_of_few &&
         known_less_equal(k[2], q[3]);
}

bool expand_attention(Module& module, const AttentionHeads& heads) {
  bool changed = false;
  for (Instruction& i : module) {
    if (!i.is<Attention>()) continue;
    Dim size = max(i.inputs[0].dims()[3], i.inputs[2].dims()[3]);
    DType type = i.inputs[0].dtype();
    bool has_kernel =
        type != DType::f64 && size.upper_bound() <= (type == DType::f32 ? heads.widest_of_f32 : heads.widest);
    if (has_kernel && !has_few_keys(i, heads)) continue;
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

/// Returns the places, from 0, that a scatter writes in every line; none if they are unknown or differ from line to line,
/// or if it leaves out lines.
static std::vector<int64_t> known_places(const Instruction& i, int64_t axis) {
  const Dims &dims = i.inputs[0].dims(), &written = i.inputs[1].dims();
  const Instruction& index = i.inputs[1].def->is<Broadcast>() ? *i.inputs[1].def->inputs[0].def : *i.inputs[1].def;
  if (!index.is<Constant>() || !dims[axis].is_constant()) return {};
  const Tensor& numbers = index.as<Constant>()->tensor;
  bool is_whole = numbers.dims.size() == dims.size() && known_equal(written[axis], numbers.dims[axis]);
  for (size_t a = 0; is_whole && a < dims.size(); ++a)
    is_whole = static_cast<int64_t>(a) == axis || known_equal(written[a], dims[a]);
  if (!is_whole) return {};
  int64_t size = dims[axis].value(), count = numbers.dims[axis], at = 0,
          inner = element_count(std::span(numbers.dims).subspan(axis + 1));
  std::vector<int64_t> places(count, -1);
  for (int64_t place : numbers.as<int64_t>()) {
    if (place < 0) place += size;
    int64_t& known = places[at++ / inner % count];
    if (place < 0 || place >= size || (known >= 0 && known != place)) return {};
    known = place;
  }
  return places;
}

bool gather_sums(Module& module) {
  bool changed = false;
  for (Instruction& i : module) {
    const auto* op = i.as<ScatterElements>();
    if (!op || op->fn != ScatterFn::add || !is_float(i.result().dtype())) continue;
    std::vector<int64_t> places = known_places(i, op->axis);
    const Dims& dims = i.result().dims();
    int64_t size = dims[op->axis].constant().value_or(0), limit = 8 * std::ssize(places);
    if (size < 1 || size > limit) continue;
    std::vector<int64_t> counts(size);
    for (int64_t place : places) ++counts[place];
    int64_t most = std::ranges::max(counts);
    if (most * size > limit) continue;
    std::vector<int64_t> from(most * size), is_there(most * size);  // [most, size]
    for (int64_t k = std::ssize(places); k-- > 0;) {
      int64_t at = --counts[places[k]] * size + places[k];
      from[at] = k, is_there[at] = 1;
    }
    ReplaceScope scope(module, i);
    Value index = constant(module, make_tensor(DType::i64, {most * size}, std::span<const int64_t>(from)));
    Dims apart = dims, mask(dims.size(), 1);
    apart.insert(apart.begin() + op->axis, most), mask.insert(mask.begin() + op->axis, most);
    mask[op->axis + 1] = size;
    Tensor there = make_tensor(DType::boolean, {most * size}, std::span<const int64_t>(is_there));
    Value picked = reshape(module, module.append(Gather{.axis = op->axis}, {i.inputs[2], index}), apart),
          chosen = broadcast(module, reshape(module, constant(module, std::move(there)), mask), apart),
          zeros = broadcast(module, constant(module, picked.dtype(), 0), apart);
    Value sum = reduce(module, ReduceFn::sum, apply(module, Fn::select, {chosen, picked, zeros}), {op->axis}, false);
    module.replace(i.result(), apply(module, Fn::add, {i.inputs[0], sum}));
    changed = true;
  }
  return changed;
}

}  // namespace weft
