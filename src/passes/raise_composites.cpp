// SPDX-License-Identifier: Apache-2.0
#include "passes/raise_composites.h"

#include "ops/build.h"
#include "passes/match.h"
#include "passes/raise_attention.h"
#include "passes/raise_block_dots.h"

namespace weft {
namespace {

/// If `value` is a reduction of x by `fn` that keeps axes, or a broadcast of one, returns the reduction; else null.
const Reduce* reduced_back(Value value, ReduceFn fn, Value x) {
  Value small = without_broadcast(value);
  const auto* reduce = small.def->as<Reduce>();
  bool fits = reduce && reduce->fn == fn && reduce->keep && small.def->inputs[0] == x;
  return fits ? reduce : nullptr;
}

// --- softmax: e / sum(e) with e = exp(x - max(x)) --------------------------------------------------------------------

std::optional<Value> raised_softmax(Module& module, Instruction& i) {
  if (!as_fn(i.result(), Fn::div)) return std::nullopt;
  Instruction* e = as_fn(i.inputs[0], Fn::exp);
  Instruction* shifted = e ? as_fn(e->inputs[0], Fn::sub) : nullptr;
  if (!shifted) return std::nullopt;
  Value x = shifted->inputs[0];
  const Reduce* highest = reduced_back(shifted->inputs[1], ReduceFn::max, x);
  const Reduce* sum = reduced_back(i.inputs[1], ReduceFn::sum, e->result());
  if (!highest || !sum || highest->axes != sum->axes || sum->axes.size() != 1) return std::nullopt;
  return module.append(Softmax{.axis = sum->axes[0]}, {x});
}

// --- norms: y * rsqrt(mean(y * y) + epsilon), with y = x - mean(x) when centred --------------------------------------

bool is_square_of(Value square, Value y) {
  if (Instruction* i = as_fn(square, Fn::mul)) return i->inputs[0] == y && i->inputs[1] == y;
  Instruction* i = as_fn(square, Fn::pow);
  return i && i->inputs[0] == y && splat_number(i->inputs[1]) == 2.0;
}

/// Returns y if `value` is 1 / sqrt(y) or a broadcast of 1 / sqrt(y).
std::optional<Value> under_inverse_root(Value value) {
  value = without_broadcast(value);
  if (Instruction* i = as_fn(value, Fn::rsqrt)) return i->inputs[0];
  Instruction* inverse = as_fn(value, Fn::reciprocal);
  Instruction* root = inverse ? as_fn(inverse->inputs[0], Fn::sqrt) : nullptr;
  return root ? std::optional(root->inputs[0]) : std::nullopt;
}

std::optional<Value> under_root(Value value) {
  Instruction* root = as_fn(without_broadcast(value), Fn::sqrt);
  return root ? std::optional(root->inputs[0]) : std::nullopt;
}

struct Spread {
  Value mean_of_squares;
  double epsilon;
};
std::optional<Spread> without_epsilon(Value value) {
  Instruction* sum = as_fn(value, Fn::add);
  if (!sum) return std::nullopt;
  for (size_t side : {0, 1}) {
    if (auto epsilon = splat_number(sum->inputs[side])) return Spread{sum->inputs[1 - side], *epsilon};
  }
  return std::nullopt;
}

/// True if `reduce` reduces all axes of x from some axis on.
bool takes_last_axes(const Reduce& reduce, Value x) {
  auto first = x.rank() - static_cast<int64_t>(reduce.axes.size());
  return !reduce.axes.empty() && reduce.axes.front() == first;
}

std::optional<Value> normalised(Module& module, Value y, Value root) {
  auto spread = without_epsilon(root);
  if (!spread || !is_float(y.dtype())) return std::nullopt;
  const auto* mean = spread->mean_of_squares.def->as<Reduce>();
  bool fits = mean && mean->fn == ReduceFn::mean && mean->keep && takes_last_axes(*mean, y) &&
              is_square_of(spread->mean_of_squares.def->inputs[0], y);
  if (!fits) return std::nullopt;
  Normalize op{.axis = mean->axes.front(), .epsilon = spread->epsilon, .centred = false};
  if (Instruction* centred = as_fn(y, Fn::sub)) {
    const Reduce* centre = reduced_back(centred->inputs[1], ReduceFn::mean, centred->inputs[0]);
    if (centre && centre->axes == mean->axes) {
      op.centred = true;
      y = centred->inputs[0];
    }
  }
  return module.append(op, {y});
}

std::optional<Value> raised_norm(Module& module, Instruction& i) {
  if (as_fn(i.result(), Fn::mul)) {
    for (size_t side : {0, 1}) {
      if (auto root = under_inverse_root(i.inputs[side])) {
        if (auto result = normalised(module, i.inputs[1 - side], *root)) return result;
      }
    }
  }
  if (as_fn(i.result(), Fn::div)) {
    if (auto root = under_root(i.inputs[1])) return normalised(module, i.inputs[0], *root);
  }
  return std::nullopt;
}

}  // namespace

bool raise_composites(Module& module) {
  static constexpr Rewrite rewrites[] = {raised_softmax, raised_norm, raised_attention, shared_heads, raised_block_dot};
  return rewrite_each(module, rewrites);
}

}  // namespace weft
