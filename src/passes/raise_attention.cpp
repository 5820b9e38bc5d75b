// SPDX-License-Identifier: Apache-2.0
#include "passes/raise_attention.h"

#include <algorithm>
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
  double scale = 1, softcap = 0;
};

/// Matches scale * dot(q, kt), also with scales on the operands or a soft cap.
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
  scores.q = q;
  scores.kt = kt;
  scores.scale = factor * q_factor * k_factor;
  return scores;
}

struct Masked {
  Scores scores;
  std::optional<Value> mask;  // added to the scores
};

/// Matches scores, scores + mask, or select(mask, scores, -huge).
std::optional<Masked> match_masked(Module& module, Value value) {
  if (auto scores = match_scores(value)) return Masked{*scores, std::nullopt};
  if (Instruction* sum = as_fn(value, Fn::add)) {
    for (size_t side : {0, 1}) {
      if (auto scores = match_scores(sum->inputs[side]))
        return Masked{*scores, without_broadcast(sum->inputs[1 - side])};
    }
  }
  if (Instruction* select = as_fn(value, Fn::select)) {
    auto hidden = splat_number(select->inputs[2]);
    auto scores = match_scores(select->inputs[1]);
    if (!hidden || *hidden > as_good_as_minus_infinity || !scores) return std::nullopt;
    Value zero = constant(module, value.dtype(), 0), low = constant(module, value.dtype(), *hidden);
    return Masked{*scores, apply(module, Fn::select, {without_broadcast(select->inputs[0]), zero, low})};
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

Value swapped(Module& module, Value x) {
  std::vector<int64_t> order(x.rank());
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return transpose(module, x, order);
}

/// Reshapes [batch, rows, columns] to [batch, 1, rows, columns], because attention needs four axes.
Value with_heads(Module& module, Value x) {
  if (x.rank() != 3) return x;
  return reshape(module, x, {x.dims()[0], 1, x.dims()[1], x.dims()[2]});
}

/// Gives a mask of three axes a batch axis if the scores have four axes, else an axis of heads.
Value mask_with_heads(Module& module, Value mask, int64_t rank) {
  if (rank == 3 || mask.rank() != 3) return with_heads(module, mask);
  return reshape(module, mask, {1, mask.dims()[0], mask.dims()[1], mask.dims()[2]});
}

/// Returns offset if the mask is 0 where column <= row + offset, hides all other columns, and every row sees a column.
std::optional<Dim> causal_offset(Value mask) {
  Instruction* select = as_fn(mask, Fn::select);
  if (!select || mask.rank() < 2) return std::nullopt;
  auto seen = splat_number(select->inputs[1]), hidden = splat_number(select->inputs[2]);
  if (seen != 0.0 || !hidden || *hidden > as_good_as_minus_infinity) return std::nullopt;
  auto offset = lower_triangle(select->inputs[0]);
  return offset && offset->lower_bound() >= 0 ? offset : std::nullopt;
}

}  // namespace

std::optional<Value> raised_attention(Module& module, Instruction& i) {
  const auto* dot = i.as<Dot>();
  if (!dot || !is_float(dot->type)) return std::nullopt;
  Value probabilities = i.inputs[0], v = i.inputs[1];
  int64_t rank = v.rank();
  Instruction* softmax = match_softmax(probabilities);
  if (!softmax || (rank != 3 && rank != 4) || !are_private(probabilities, softmax, &i)) return std::nullopt;
  const auto* op = softmax->as<Softmax>();
  if (op->axis != rank - 1 || op->logarithm) return std::nullopt;
  auto masked = match_masked(module, softmax->inputs[0]);
  if (!masked) return std::nullopt;
  Scores& s = masked->scores;
  if (s.q.dtype() != dot->type || s.kt.dtype() != dot->type || v.dtype() != dot->type) return std::nullopt;
  Attention attention{.scale = s.scale, .softcap = s.softcap};
  std::vector<Value> operands = {with_heads(module, s.q), with_heads(module, swapped(module, s.kt)),
                                 with_heads(module, v)};
  if (masked->mask) {
    if (auto offset = causal_offset(*masked->mask)) {
      attention.causal = true;
      attention.offset = *offset;
    } else {
      operands.push_back(mask_with_heads(module, *masked->mask, rank));
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
