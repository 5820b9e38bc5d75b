// SPDX-License-Identifier: Apache-2.0
#include "passes/merge_branches.h"

#include <algorithm>

#include "ir/core_ops.h"
#include "ops/build.h"
#include "passes/fold_constants.h"
#include "passes/match.h"

namespace weft {
namespace {

/// A term of a sum, `whole` = (base + bias) * scale, where bias and scale (null: none) have a number for each channel.
struct Addend {
  Value whole, base, bias, scale;
};

bool is_read_once(Value x) { return x.def->users.size() == 1 && !x.def->parent->is_result(x); }

bool is_constant_kernel(Value x) {
  while (x.def->is<Transpose>() || x.def->is<Reshape>()) x = x.def->inputs[0];
  return x.def->is<Constant>();
}

/// Returns the constant with a number for each channel that `x` repeats along all axes but the second. Else null.
Value by_channel(Value x) {
  Value inner = without_broadcast(x);
  const int64_t channel = inner.rank() - x.rank() + 1;
  if (inner == x || !inner.def->is<Constant>() || channel < 0) return {};
  for (int64_t axis = 0; axis < inner.rank(); ++axis) {
    if (inner.dims()[axis] != (axis == channel ? x.dims()[1] : Dim(1))) return {};
  }
  return inner;
}

/// Returns the operands of fn(y, numbers of channels), if only one instruction reads the result, else x and null.
std::pair<Value, Value> without(Fn fn, Value x) {
  if (Instruction* i = is_read_once(x) ? as_fn(x, fn) : nullptr) {
    for (size_t side : {0, 1}) {
      if (Value numbers = by_channel(i->inputs[side])) return {i->inputs[1 - side], numbers};
    }
  }
  return {x, {}};
}

Addend addend_of(Value x) {
  auto [sum, scale] = without(Fn::mul, x);
  auto [base, bias] = without(Fn::add, sum);
  return {x, base, bias, scale};
}

/// Returns the terms of a sum, and of the sums among them that nothing else reads, in order.
std::vector<Addend> addends(Value sum) {
  std::vector<Addend> terms;
  std::vector<Value> open{sum};
  while (!open.empty()) {
    Value x = open.back();
    open.pop_back();
    Instruction* inner = x == sum || is_read_once(x) ? as_fn(x, Fn::add) : nullptr;
    if (inner) open.insert(open.end(), inner->inputs.rbegin(), inner->inputs.rend());
    else terms.push_back(addend_of(x));
  }
  return terms;
}

/// Returns the convolution with constant weights and paddings that only this term reads, or null.
const Convolution* convolution_of(const Addend& term) {
  const auto* op = term.base.def->as<Convolution>();
  auto is_number = [](const Dim& dim) { return dim.is_constant(); };
  const std::vector<Value>& inputs = term.base.def->inputs;
  bool fits = op && inputs.size() == 2 && !op->transposed && op->layout == Layout::channels_first &&
              is_read_once(term.base) && is_constant_kernel(inputs[1]) &&
              std::ranges::all_of(op->pads_begin, is_number) && is_float(op->type) &&
              term.base.dtype() == inputs[1].dtype();
  return fits ? op : nullptr;
}

/// How many taps a larger kernel has before and after a smaller one, for each axis of the weights.
struct Margins {
  Dims before, after;
};
/// Returns the margins of a kernel with these paddings and weights of the size `taps` in the convolution `whole`, whose
/// weights have the size `kernel`. Nothing if the taps lie outside it, or between its own.
std::optional<Margins> margins(const Convolution& whole, const Dims& kernel, const Dims& pads, const Dims& taps) {
  Margins m{.before = {0, 0}, .after = {0, 0}};
  for (size_t axis = 0; axis < pads.size(); ++axis) {
    const int64_t apart = whole.pads_begin[axis].value() - pads[axis].value(), step = whole.dilations[axis],
                  before = apart / step, after = kernel[axis + 2].value() - before - taps[axis + 2].value();
    if (apart % step != 0 || before < 0 || after < 0) return std::nullopt;
    m.before.push_back(before), m.after.push_back(after);
  }
  return m;
}

/// Returns the numbers of all channels as a tensor of this rank, along the first axis.
Value as_column(Module& module, Value numbers, int64_t rank) {
  Dims dims(rank, 1);
  dims[0] = product(numbers.dims());
  return reshape(module, numbers, dims);
}

Value padded(Module& module, Value weights, const Margins& m) {
  return module.append(Pad{.before = m.before, .after = m.after}, {weights, constant(module, weights.dtype(), 0)});
}

/// Returns the weights, of the rank of `like`, that copy each channel to itself.
Value identity_weights(Module& module, Value like) {
  const int64_t channels = like.dims()[0].value(), inner = like.dims()[1].value();
  std::vector<double> numbers(channels * inner);
  for (int64_t c = 0; c < channels; ++c) numbers[c * inner + c % inner] = 1;
  std::vector<int64_t> dims(like.rank(), 1);
  dims[0] = channels, dims[1] = inner;
  return constant(module, make_tensor(like.dtype(), dims, std::span<const double>(numbers)));
}

/// The convolutions of a sum that become one.
struct Merged {
  const Convolution* op = nullptr;  ///< the one with the largest kernel
  Value x, like;                    ///< what all of them read; the weights of `op`
  Value weights = {}, bias = {};    ///< the sums of all weights and biases; biases are a column
  int convolutions = 0;

  void add_bias(Module& module, Value column) { bias = bias ? apply(module, Fn::add, {bias, column}) : column; }

  /// Adds a term's weights and bias, and returns true, if the term fits.
  bool take(Module& module, const Addend& term) {
    const Convolution* other = convolution_of(term);
    const bool is_copy = term.base == x;
    Dims no_pads(like.rank() - 2, 0);
    if (is_copy ? !copies() : !other || term.base.def->inputs[0] != x || !is_alike(*other)) return false;
    Value theirs = is_copy ? identity_weights(module, like) : term.base.def->inputs[1];
    auto m = margins(*op, like.dims(), is_copy ? no_pads : other->pads_begin, theirs.dims());
    if (!m) return false;
    if (term.scale) theirs = apply(module, Fn::mul, {theirs, as_column(module, term.scale, theirs.rank())});
    if (Value b = term.bias ? as_column(module, term.bias, like.rank() - 1) : Value{})
      add_bias(module, term.scale ? apply(module, Fn::mul, {b, as_column(module, term.scale, b.rank())}) : b);
    theirs = padded(module, theirs, *m);
    weights = weights ? apply(module, Fn::add, {weights, theirs}) : theirs;
    convolutions += !is_copy;
    return true;
  }

 private:
  bool is_alike(const Convolution& other) const {
    return op->strides == other.strides && op->dilations == other.dilations && op->groups == other.groups &&
           op->type == other.type;
  }
  bool copies() const {
    constexpr int64_t most = int64_t{1} << 22;  // weights of the copy
    const bool moves = std::ranges::any_of(op->strides, [](int64_t stride) { return stride != 1; });
    return !moves && x.dims()[1] == like.dims()[0] && x.dtype() == op->type &&
           like.dims()[0].value() * like.dims()[1].value() <= most;
  }
};

/// Returns the convolution of the sum with the largest kernel, if another one reads the same value.
Merged largest(const std::vector<Addend>& terms) {
  Merged found;
  int64_t most = 0;
  for (const Addend& term : terms) {
    const Convolution* op = convolution_of(term);
    if (!op) continue;
    Value x = term.base.def->inputs[0], weights = term.base.def->inputs[1];
    auto reads_x = [&](const Addend& t) { return convolution_of(t) && t.base.def->inputs[0] == x; };
    const int64_t size = product(weights.dims()).value();
    if (std::ranges::count_if(terms, reads_x) < 2 || size <= most) continue;
    found = {.op = op, .x = x, .like = weights}, most = size;
  }
  return found;
}

/// Returns the sum with one convolution in place of several, or nothing.
std::optional<Value> merged_sum(Module& module, Instruction& i) {
  Value sum = i.result();
  auto is_inner = [&](const Instruction* user) { return as_fn({const_cast<Instruction*>(user), 0}, Fn::add); };
  if (!as_fn(sum, Fn::add) || (is_read_once(sum) && is_inner(i.users[0]))) return std::nullopt;
  std::vector<Addend> terms = addends(sum), rest;
  Merged merged = largest(terms);
  if (!merged.op) return std::nullopt;
  for (const Addend& term : terms) {
    if (merged.take(module, term)) continue;
    if (Value bias = by_channel(term.whole)) merged.add_bias(module, as_column(module, bias, sum.rank() - 1));
    else rest.push_back(term);
  }
  if (merged.convolutions < 2) return std::nullopt;
  Value result = module.append(*merged.op, {merged.x, merged.weights});
  if (merged.bias) result = apply(module, Fn::add, {result, merged.bias});
  for (const Addend& term : rest) result = apply(module, Fn::add, {result, term.whole});
  return result;
}

}  // namespace

bool merge_branches(Module& module) {
  constexpr Rewrite rewrites[] = {merged_sum};
  const bool changed = rewrite_each(module, rewrites);
  if (changed) fold_constants(module);
  return changed;
}

}  // namespace weft
