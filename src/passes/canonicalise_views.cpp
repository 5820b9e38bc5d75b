// SPDX-License-Identifier: Apache-2.0
#include "passes/canonicalise_views.h"

#include <algorithm>

#include "ir/core_ops.h"
#include "ops/build.h"
#include "ops/dot.h"
#include "ops/indexed.h"
#include "passes/match.h"
#include "passes/view_chain.h"

namespace weft {
namespace {

bool is_chained(const Instruction& i) { return i.is<Reshape>() || i.is<Transpose>(); }

/// Shortens the chain of reshapes and transposes that ends in `i`. With `alone`, values inside the chain must have no
/// readers outside the chain. Limits the chain's length, because the search takes more than linear time.
template <bool alone>
std::optional<Value> shorter_chain(Module& module, Instruction& i) {
  constexpr size_t max_links = 32;
  if (!is_chained(i)) return std::nullopt;
  std::vector<Instruction*> chain{&i};
  auto continues = [](const Instruction& link) { return is_chained(link) && (!alone || link.users.size() == 1); };
  while (chain.size() < max_links && continues(*chain.back()->inputs[0].def))
    chain.push_back(chain.back()->inputs[0].def);
  // If ViewChain cannot split the sizes into common factors, tries the chain without its first instruction.
  for (; !chain.empty(); chain.pop_back()) {
    Value x = chain.back()->inputs[0];
    ViewChain views(x.dims());
    bool fits = true;
    for (size_t k = chain.size(); k-- > 0 && fits;) {
      if (const auto* op = chain[k]->as<Transpose>()) views.transpose(op->permutation);
      else fits = views.reshape(chain[k]->as<Reshape>()->dims);
    }
    if (!fits) continue;
    ViewChain::Form form = views.form();
    if (form.length() > chain.size() || form.is_written(x, i.result())) return std::nullopt;
    return form.write(module, x);
  }
  return std::nullopt;
}

/// True for a resize that changes no element if its operand and its result have the same sizes.
bool keeps_sizes(const Resize& op) {
  return op.coordinates != ResizeCoordinates::tf_crop_and_resize &&
         std::ranges::all_of(op.scales, [](double scale) { return scale <= 0 || scale == 1; });
}

/// The first and the last kernel tap of one axis that read at least one element of the operand.
struct LiveTaps {
  int64_t first = 0, last = -1;
};
LiveTaps live_taps(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t dilation, int64_t pad) {
  LiveTaps live;
  for (int64_t tap = 0; tap < kernel; ++tap) {
    int64_t at = tap * dilation - pad;  // operand index that the tap reads for result element 0
    int64_t skipped = at < 0 ? (-at + stride - 1) / stride : 0;
    if (skipped < out && at + skipped * stride < in) live = {live.last < 0 ? tap : live.first, tap};
  }
  return live;
}

/// Removes outer kernel taps that read only padding. Dilated kernels on small images have such taps.
std::optional<Value> without_padded_taps(Module& module, Instruction& i) {
  const auto* op = i.as<Convolution>();
  if (!op || op->transposed || op->layout != Layout::channels_first || !i.inputs[1].def->is<Constant>()) return {};
  Convolution less = *op;
  Slice kernel{.starts = Dims(i.inputs[1].dims().size(), 0), .sizes = i.inputs[1].dims(), .steps = {}};
  kernel.steps.assign(kernel.sizes.size(), 1);
  for (size_t a = 0; a < op->strides.size(); ++a) {
    auto in = i.inputs[0].dims()[a + 2].constant(), out = i.types[0].shape.dims[a + 2].constant();
    auto taps = kernel.sizes[a + 2].constant(), pad = op->pads_begin[a].constant();
    if (!in || !out || !taps || !pad) continue;
    LiveTaps live = live_taps(*in, *out, *taps, op->strides[a], op->dilations[a], *pad);
    if (live.last < 0) continue;
    kernel.starts[a + 2] = live.first;
    kernel.sizes[a + 2] = live.last - live.first + 1;
    less.pads_begin[a] = less.pads_begin[a] - Dim(live.first * op->dilations[a]);
    less.pads_end[a] = less.pads_end[a] - Dim((*taps - 1 - live.last) * op->dilations[a]);
  }
  if (kernel.sizes == i.inputs[1].dims()) return std::nullopt;
  std::vector<Value> inputs = i.inputs;
  inputs[1] = module.append(kernel, {inputs[1]});
  return module.append(less, inputs);
}

/// Removes the second result (indices) of a max pooling if nothing reads it.
std::optional<Value> without_positions(Module& module, Instruction& i) {
  const auto* op = i.as<Pool>();
  if (!op || !op->indices || module.is_result(i.result(1))) return std::nullopt;
  auto reads_positions = [&](const Instruction* user) {
    return std::ranges::find(user->inputs, i.result(1)) != user->inputs.end();
  };
  if (std::ranges::any_of(i.users, reads_positions)) return std::nullopt;
  Pool less = *op;
  less.indices = false;
  return module.append(less, i.inputs);
}

/// Replaces a depthwise convolution with one tap by a multiplication, which other rules can merge with other factors.
std::optional<Value> scaled_channels(Module& module, Instruction& i) {
  const auto* op = i.as<Convolution>();
  if (!op || i.inputs.size() != 2 || op->groups == 1 || op->layout != Layout::channels_first) return {};
  Dims taps(i.inputs[1].dims().size(), 1), no_pads(op->strides.size(), 0);
  taps[0] = op->groups;
  const bool moves = op->pads_begin != no_pads || op->pads_end != no_pads;  // strides above 1 would change the type
  const bool is_one_type = i.types[0] == i.inputs[0].type() && i.inputs[1].dtype() == op->type;
  if (moves || !is_one_type || i.inputs[1].dims() != taps) return {};
  return apply(module, Fn::mul, {i.inputs[0], reshape(module, i.inputs[1], Dims(taps.begin(), taps.end() - 1))});
}

/// Merges two broadcasts or slices in a row; drops broadcasts, slices, pads, resizes, ... that change nothing.
std::optional<Value> merged_view(Module& module, Instruction& i) {
  if (i.inputs.empty()) return std::nullopt;
  Value x = i.inputs[0];
  bool same_type = i.types.size() == 1 && i.types[0] == x.type();
  if (const auto* op = i.as<Broadcast>()) {
    if (same_type) return x;
    if (x.def->is<Broadcast>()) return module.append(*op, {x.def->inputs[0]});
  }
  if (const auto* op = i.as<Slice>()) {
    bool plain = std::ranges::all_of(op->starts, [](const Dim& d) { return d == Dim(0); }) &&
                 std::ranges::all_of(op->steps, [](int64_t step) { return step == 1; });
    if (same_type && plain) return x;
    if (const auto* inner = x.def->as<Slice>()) {
      Slice both = *op;
      for (size_t a = 0; a < both.starts.size(); ++a) {
        both.starts[a] = inner->starts[a] + op->starts[a] * Dim(inner->steps[a]);
        both.steps[a] = op->steps[a] * inner->steps[a];
      }
      return module.append(both, {x.def->inputs[0]});
    }
  }
  if (const auto* op = i.as<Pad>()) {
    auto none = [](const Dims& dims) { return std::ranges::all_of(dims, [](const Dim& d) { return d == Dim(0); }); };
    if (none(op->before) && none(op->after)) return x;
  }
  if (const auto* op = i.as<Resize>(); op && same_type && i.inputs.size() == 1 && keeps_sizes(*op)) return x;
  if (i.is<Concat>() && i.inputs.size() == 1) return x;
  if (const auto* op = i.as<Reduce>(); op && op->axes.empty()) return x;
  return std::nullopt;
}

std::optional<Value> merged_convert(Module& module, Instruction& i) {
  const auto* op = i.as<Convert>();
  if (!op) return std::nullopt;
  Value x = i.inputs[0];
  if (x.dtype() == op->to) return x;
  Value source = before_widening(x);
  if (source == x) return std::nullopt;
  return source.dtype() == op->to ? source : module.append(*op, {source});
}

/// fn(broadcast(x), broadcast(y)) -> broadcast(fn(x, y)), if fn(x, y) is smaller than the result.
std::optional<Value> before_broadcast(Module& module, Instruction& i) {
  if ((!i.is<Elementwise>() && !i.is<Convert>()) || i.inputs.empty()) return std::nullopt;
  std::vector<Dims> sources;
  for (const Value& input : i.inputs) {
    if (!input.def->is<Broadcast>()) return std::nullopt;
    sources.push_back(input.def->inputs[0].dims());
  }
  const Dims& result = i.types[0].shape.dims;
  Dims joint(result.size(), 1);
  for (const Dims& dims : sources) {
    size_t added = result.size() - dims.size();
    for (size_t a = 0; a < dims.size(); ++a) {
      if (dims[a] != Dim(1)) joint[added + a] = result[added + a];
    }
  }
  if (joint == result) return std::nullopt;
  size_t rank = 0;
  for (const Dims& dims : sources) rank = std::max(rank, dims.size());
  joint.erase(joint.begin(), joint.end() - static_cast<std::ptrdiff_t>(rank));
  std::vector<Value> inputs;
  for (const Value& input : i.inputs) inputs.push_back(broadcast(module, input.def->inputs[0], joint));
  return module.append(Broadcast{.dims = result}, {module.append(i.op, inputs)});
}

/// Replaces a gather of one constant index by a slice, which needs no copy.
std::optional<Value> picked_slice(Module& module, Instruction& i) {
  const auto* op = i.as<Gather>();
  if (!op || i.inputs[1].shape().rank() != 0) return std::nullopt;
  Value x = i.inputs[0];
  std::optional<double> index = splat_number(i.inputs[1]);
  std::optional<int64_t> size = x.dims()[op->axis].constant();
  if (!index || !size || *index < -static_cast<double>(*size) || *index >= static_cast<double>(*size))
    return std::nullopt;  // an index that is out of range stays a gather, which reports the index when it runs
  auto start = static_cast<int64_t>(*index) + (*index < 0 ? *size : 0);
  return reshape(module, slice_axis(module, x, op->axis, start, 1), i.types[0].shape.dims);
}

/// Returns, as a scalar, the element that `value` repeats everywhere; nothing if no such element is known.
std::optional<Value> repeated_element(Module& module, Value value) {
  if (value.def->is<Broadcast>() && known_equal(value.def->inputs[0].shape().elements(), 1))
    return reshape(module, value.def->inputs[0], {});
  auto number = is_float(value.dtype()) ? splat_number(value) : std::nullopt;
  return number ? std::optional(constant(module, value.dtype(), *number)) : std::nullopt;
}

/// True for a matrix product, or a short chain of elementwise functions of a product, if each value has one reader.
bool follows_product(Value value) {
  constexpr int max_functions = 8;
  for (int i = 0; i < max_functions && value.def->users.size() == 1; ++i) {
    if (value.def->is<Dot>()) return true;
    if (!value.def->is<Elementwise>() && !value.def->is<Convert>()) return false;
    const std::vector<Value>& from = value.def->inputs;
    auto next = std::ranges::find_if_not(from, [](Value x) { return x.def->is<Broadcast>() || x.def->is<Constant>(); });
    if (next == from.end()) return false;
    value = *next;
  }
  return false;
}

/// fn(reshape(x)) -> reshape(fn(x)), so that the function can be fused with the instruction that computes x. Moves
/// functions of one operand; if x comes from a matrix product, also conversions, and functions of x and scalars.
std::optional<Value> before_reshape(Module& module, Instruction& i) {
  if (!i.is<Elementwise>() && !i.is<Convert>()) return std::nullopt;
  auto view = std::ranges::find_if(i.inputs, [](Value input) { return input.def->is<Reshape>(); });
  if (view == i.inputs.end()) return std::nullopt;
  Value x = view->def->inputs[0];
  bool is_plain = i.is<Elementwise>() && i.inputs.size() == 1;
  if (!is_plain && !(view->def->users.size() == 1 && follows_product(x))) return std::nullopt;
  std::vector<Value> inputs;
  for (Value input : i.inputs) {
    auto element = input == *view ? std::nullopt : repeated_element(module, input);
    if (input != *view && !element) return std::nullopt;
    inputs.push_back(element ? broadcast(module, *element, x.dims()) : x);
  }
  return module.append(*view->def->as<Reshape>(), {module.append(i.op, inputs)});
}

bool comes_from_product(Value value) {
  auto is_product = [](Value x) { return x.def->is<Dot>() && x.def->users.size() == 1; };
  return is_product(value) || (value.def->is<Elementwise>() && std::ranges::any_of(value.def->inputs, is_product));
}

/// fn(reshape(x), y) -> reshape(fn(x, reshape(y))), if x comes from a matrix product and reshape(x) only splits rows.
/// The function, such as the addition of a residual, can then be fused with the product.
std::optional<Value> in_product_sizes(Module& module, Instruction& i) {
  if (!i.is<Elementwise>() || i.inputs.size() != 2) return std::nullopt;
  for (size_t k = 0; k < 2; ++k) {
    const Instruction& view = *i.inputs[k].def;
    Value y = i.inputs[1 - k];
    if (!view.is<Reshape>() || view.users.size() != 1 || !comes_from_product(view.inputs[0])) continue;
    if (y.def->is<Broadcast>() || y.def->is<Transpose>() || y.def->is<Slice>())
      continue;  // a reshape of these views would need a copy
    const Dims &from = view.inputs[0].dims(), &to = i.types[0].shape.dims;
    if (from.size() != 2 || to.size() < 3 || from.back() != to.back()) continue;
    std::vector<Value> inputs{view.inputs[0], view.inputs[0]};
    inputs[1 - k] = reshape(module, y, from);
    return module.append(Reshape{.dims = to}, {module.append(i.op, inputs)});
  }
  return std::nullopt;
}

}  // namespace

bool canonicalise_views(Module& module) {
  static constexpr Rewrite rewrites[] = {shorter_chain<false>, merged_view,     merged_convert,      before_broadcast,
                                         before_reshape,       picked_slice,    without_padded_taps, without_positions,
                                         scaled_channels,      in_product_sizes};
  return rewrite_each(module, rewrites);
}

bool shorten_chains(Module& module) {
  static constexpr Rewrite rewrites[] = {shorter_chain<true>};
  module.remove_dead();
  return rewrite_each(module, rewrites);
}

}  // namespace weft
