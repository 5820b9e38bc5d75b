// SPDX-License-Identifier: Apache-2.0
#include "passes/raise_attention.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/build.h"
#include "passes/index_forms.h"
#include "passes/match.h"

namespace weft {
namespace {

/// A mask value at or below this, added to any score, makes the softmax weight 0.
constexpr double as_good_as_minus_infinity = -1e30;

struct Scores {
  Value q, kt;
  std::vector<int64_t> order = {};  // the permutation that makes k of kt
  double scale = 1, softcap = 0;
  std::optional<Value> mask = {};  // as for Attention
  double hidden = -INFINITY;       // as for Attention
};

/// Matches scale * dot(q, kt), also with a soft cap or with scales on the operands, which may be before a transpose.
std::optional<Scores> match_scores(Value value) {
  Scores scores;
  auto [inner, factor] = without_scale(value);
  if (Instruction* cap = as_fn(inner, Fn::tanh)) {
    scores.softcap = factor;
    auto [capped, inner_factor] = without_scale(cap->inputs[0]);
    inner = capped;
    factor *= inner_factor;
  }
  const auto* dot = inner.def->as<Dot>();
  if (!dot || dot->type != inner.def->inputs[0].dtype()) return std::nullopt;
  auto [q, q_factor] = without_scale(inner.def->inputs[0]);
  auto [kt, k_factor] = without_scale(inner.def->inputs[1]);
  scores.order.resize(kt.rank());
  std::iota(scores.order.begin(), scores.order.end(), 0);
  if (const auto* turn = kt.def->as<Transpose>()) {
    scores.order = turn->permutation;
    auto [before, factor_before] = without_scale(kt.def->inputs[0]);
    kt = before, k_factor *= factor_before;
  }
  std::swap(scores.order.end()[-1], scores.order.end()[-2]);
  scores.q = q, scores.kt = kt;
  scores.scale = factor * q_factor * k_factor;
  return scores;
}

/// Returns the sizes with one batch axis and an axis of heads, which three axes lack.
Dims four_axes(Dims dims) {
  if (dims.size() == 3) dims.insert(dims.begin() + 1, 1);
  for (; dims.size() > 4; dims.erase(dims.begin())) dims[1] = dims[0] * dims[1];
  return dims;
}

Value with_four_axes(Module& module, Value x) { return reshape(module, x, four_axes(x.dims())); }

/// Returns a mask of scores of sizes `from` for the same scores of sizes `to`, whose batch axes differ. A mask that is
/// the same for all of the batch stays so.
Value reshaped_mask(Module& module, Value mask, const Dims& from, const Dims& to) {
  if (mask.rank() < 3) return mask;
  Dims dims = mask.dims(), sizes(to.size() - 3, 1);
  dims.insert(dims.begin(), from.size() - dims.size(), 1);
  int64_t batch = std::max<int64_t>(from.size() - 3, 1);
  if (std::any_of(dims.begin(), dims.begin() + batch, [](const Dim& size) { return size != Dim(1); })) {
    std::copy_n(from.begin(), batch, dims.begin());
    mask = broadcast(module, mask, dims);
    std::copy_n(to.begin(), sizes.size(), sizes.begin());
  }
  Dims matrices = four_axes(dims);
  sizes.insert(sizes.end(), matrices.begin() + 1, matrices.end());
  return reshape(module, mask, sizes);
}

/// True for a reshape of scores that only joins or splits axes of the batch.
bool keeps_matrices(const Instruction& i) {
  if (!i.is<Reshape>()) return false;
  const Dims &from = i.inputs[0].dims(), &to = i.types[0].shape.dims;
  return from.size() > 3 && to.size() > 3 && std::equal(from.end() - 3, from.end(), to.end() - 3);
}

/// Matches scores, scores + mask, or select(mask, scores, number), with at most `depth` masks and reshapes.
std::optional<Scores> match_masked(Module& module, Value value, int depth = 4) {
  if (auto scores = match_scores(value)) return scores;
  if (depth == 0) return std::nullopt;
  if (keeps_matrices(*value.def)) {
    auto scores = match_masked(module, value.def->inputs[0], depth - 1);
    if (scores && scores->mask)
      scores->mask = reshaped_mask(module, *scores->mask, value.def->inputs[0].dims(), value.dims());
    return scores;
  }
  /// Adds a mask, or a bool mask that sets scores to `hidden`. Both kinds are joined to one that is added, if `hidden` is
  /// so low that a score added to it does not count.
  auto with = [&](std::optional<Scores> scores, Value mask, double hidden = 0) -> std::optional<Scores> {
    auto is_bool = [](Value m) { return m.dtype() == DType::boolean; };
    auto number = [&](double x) { return constant(module, value.dtype(), x); };
    bool are_alike = scores->mask && is_bool(mask) == is_bool(*scores->mask);
    if (are_alike && is_bool(mask) && hidden != scores->hidden) return std::nullopt;
    if (are_alike) mask = apply(module, is_bool(mask) ? Fn::logical_and : Fn::add, {*scores->mask, mask});
    if (scores->mask && !are_alike) {
      double low = is_bool(mask) ? hidden : scores->hidden;
      if (low > as_good_as_minus_infinity) return std::nullopt;
      if (is_bool(mask)) mask = apply(module, Fn::select, {mask, *scores->mask, number(low)});
      else mask = apply(module, Fn::add, {apply(module, Fn::select, {*scores->mask, number(0), number(low)}), mask});
    }
    scores->mask = mask;
    scores->hidden = is_bool(mask) ? hidden : -INFINITY;
    return scores;
  };
  if (Instruction* sum = as_fn(value, Fn::add)) {
    for (size_t side : {0, 1}) {
      if (auto scores = match_masked(module, sum->inputs[side], depth - 1))
        return with(scores, without_broadcast(sum->inputs[1 - side]));
    }
  }
  if (Instruction* select = as_fn(value, Fn::select)) {
    auto hidden = splat_number(select->inputs[2]);
    if (!hidden || !(*hidden < INFINITY)) return std::nullopt;
    auto scores = match_masked(module, select->inputs[1], depth - 1);
    return scores ? with(scores, without_broadcast(select->inputs[0]), *hidden) : scores;
  }
  return std::nullopt;
}

/// Returns the softmax of the probabilities; looks through a select that replaces NaN (all keys masked) by 0.
Instruction* match_softmax(Value probabilities) {
  Instruction* guarded = as_fn(probabilities, Fn::select);
  if (!guarded) return probabilities.def->is<Softmax>() ? probabilities.def : nullptr;
  Instruction* test = as_fn(guarded->inputs[0], Fn::is_nan);
  bool fits = test && test->inputs[0] == guarded->inputs[2] && splat_number(guarded->inputs[1]) == 0.0;
  return fits && guarded->inputs[2].def->is<Softmax>() ? guarded->inputs[2].def : nullptr;
}

/// True if only `dot` reads the probabilities, and only a replacement of NaN reads the softmax before them.
bool are_private(Value probabilities, Instruction* softmax, const Instruction* dot) {
  if (!only_read_by(probabilities, dot)) return false;
  if (probabilities.def == softmax) return true;
  Instruction* test = probabilities.def->inputs[0].def;
  return only_read_by(test->result(), probabilities.def) && !softmax->parent->is_result(softmax->result()) &&
         std::ranges::all_of(softmax->users, [&](Instruction* u) { return u == test || u == probabilities.def; });
}

/// Returns offset if the mask shows columns <= row + offset, hides all other columns, and every row sees a column.
std::optional<Dim> causal_offset(Value mask, double hidden) {
  if (mask.rank() < 2 || (mask.dtype() == DType::boolean && hidden > as_good_as_minus_infinity)) return std::nullopt;
  if (mask.dtype() != DType::boolean) {
    Instruction* select = as_fn(mask, Fn::select);
    auto low = select ? splat_number(select->inputs[2]) : std::nullopt;
    if (!low || *low > as_good_as_minus_infinity || splat_number(select->inputs[1]) != 0.0) return std::nullopt;
    mask = select->inputs[0];
  }
  auto offset = lower_triangle(mask);
  return offset && offset->lower_bound() >= 0 ? offset : std::nullopt;
}

}  // namespace

std::optional<Value> raised_attention(Module& module, Instruction& i) {
  const auto* dot = i.as<Dot>();
  if (!dot || !is_float(dot->type)) return std::nullopt;
  Value probabilities = i.inputs[0], v = i.inputs[1];
  int64_t rank = v.rank();
  Instruction* softmax = match_softmax(probabilities);
  if (!softmax || rank < 3 || !are_private(probabilities, softmax, &i)) return std::nullopt;
  const auto* op = softmax->as<Softmax>();
  if (op->axis != rank - 1 || op->logarithm) return std::nullopt;
  auto s = match_masked(module, softmax->inputs[0]);
  if (!s || s->q.dtype() != dot->type || s->kt.dtype() != dot->type || v.dtype() != dot->type) return std::nullopt;
  Attention attention{.scale = s->scale, .softcap = s->softcap};
  std::vector<Value> operands = {with_four_axes(module, s->q),
                                 with_four_axes(module, transpose(module, s->kt, s->order)), with_four_axes(module, v)};
  if (s->mask) {
    if (auto offset = causal_offset(*s->mask, s->hidden)) {
      attention.causal = true;
      attention.offset = *offset;
    } else {
      const Dims& scores = softmax->inputs[0].dims();
      operands.push_back(reshaped_mask(module, *s->mask, scores, four_axes(scores)));
      attention.hidden = s->hidden;
      attention.nan_rows = probabilities.def == softmax;  // false if a select replaces NaN by 0
    }
  }
  return reshape(module, module.append(attention, operands), i.types[0].shape.dims);
}

/// Returns the operand [batch, heads, 1, rows, columns] of the broadcast that repeats key/value heads for query heads.
static std::optional<Value> without_repeat(Value value) {
  const auto* merge = value.def->as<Reshape>();
  if (!merge) return std::nullopt;
  Value wide = value.def->inputs[0];
  if (!wide.def->is<Broadcast>() || wide.rank() != 5) return std::nullopt;
  Value narrow = wide.def->inputs[0];
  const Dims &w = wide.dims(), &n = narrow.dims(), &m = merge->dims;
  bool repeats = n.size() == 5 && n[2] == Dim(1) && n[0] == w[0] && n[1] == w[1] && n[3] == w[3] && n[4] == w[4];
  bool merges = m.size() == 4 && m[0] == w[0] && m[1] == w[1] * w[2] && m[2] == w[3] && m[3] == w[4];
  return repeats && merges ? std::optional(narrow) : std::nullopt;
}

std::optional<Value> shared_heads(Module& module, Instruction& i) {
  const auto* attention = i.as<Attention>();
  if (!attention) return std::nullopt;
  auto k = without_repeat(i.inputs[1]), v = without_repeat(i.inputs[2]);
  if (!k || !v || k->dims()[1] != v->dims()[1]) return std::nullopt;
  auto four = [&](Value x) { return reshape(module, x, {x.dims()[0], x.dims()[1], x.dims()[3], x.dims()[4]}); };
  std::vector<Value> operands = i.inputs;
  operands[1] = four(*k);
  operands[2] = four(*v);
  return module.append(*attention, operands);
}

}  // namespace weft
