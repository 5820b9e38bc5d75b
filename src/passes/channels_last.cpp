// SPDX-License-Identifier: Apache-2.0
#include "passes/channels_last.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "ir/core_ops.h"
#include "ops/build.h"
#include "ops/indexed.h"
#include "ops/lookup.h"
#include "ops/quantize.h"
#include "passes/canonicalise_views.h"

namespace weft {
namespace {

/// Returns the permutation from channels-first to channels-last.
std::vector<int64_t> to_last(int64_t rank) {
  std::vector<int64_t> permutation{0};
  for (int64_t axis = 2; axis < rank; ++axis) permutation.push_back(axis);
  permutation.push_back(1);
  return permutation;
}

std::vector<int64_t> to_first(int64_t rank) {
  std::vector<int64_t> permutation{0, rank - 1};
  for (int64_t axis = 1; axis < rank - 1; ++axis) permutation.push_back(axis);
  return permutation;
}

int64_t axis_in_last(int64_t axis, int64_t rank) { return axis == 0 ? 0 : axis == 1 ? rank - 1 : axis - 1; }

template <class List>
List permuted(const List& list) {
  List result;
  for (int64_t axis : to_last(static_cast<int64_t>(list.size()))) result.push_back(list[axis]);
  return result;
}

class LayoutChange {
 public:
  LayoutChange(Module& module, bool on_gpu) : module_(module), on_gpu_(on_gpu) {}

  bool run() {
    for (Instruction& i : module_) {
      if (Value same = already_last(i)) {
        module_.replace({&i, 0}, same);
        changed_ = true;
        continue;
      }
      Value groups = grouped(i), last = groups ? image_of(i, groups) : rewritten(i);
      if (groups) grouped_of_[&i] = groups;
      if (!last) continue;
      for (uint32_t k = 0; k < i.types.size(); ++k) {
        Value result{last.def, k}, first = transposed_back(i, result);
        last_of_[first.def] = result;
        if (groups) grouped_of_[first.def] = groups;
        module_.replace({&i, k}, first);
      }
      changed_ = true;
    }
    return changed_;
  }

 private:
  /// If `i` transposes a rewritten value to channels-last, returns the value's channels-last form; else null.
  Value already_last(const Instruction& i) const {
    const auto* op = i.as<Transpose>();
    if (!op || i.inputs[0].rank() < 3 || op->permutation != to_last(i.inputs[0].rank())) return {};
    auto found = last_of_.find(i.inputs[0].def);
    return found == last_of_.end() ? Value{} : found->second;
  }

  /// Returns the channels-last form of the result of `i`; null if `i` keeps its layout.
  Value rewritten(Instruction& i) {
    if (i.types.empty() || !i.types[0].is_tensor()) return {};
    if (const auto* op = i.as<Convolution>()) return windowed(i, *op);
    if (const auto* op = i.as<Pool>()) return windowed(i, *op);
    if (Value image = normed_image(i)) return renormed(i, *i.inputs[0].def, image);
    if (Value image = shuffled_image(i)) return shuffled(i, image);
    if (i.result().rank() >= 4 && !i.users.empty() && is_made_of_rows(i.result())) return last_form(i, i.result());
    if (i.types.size() != 1 || !carries(i)) return {};
    return followed(i);
  }

  /// Returns the rewritten image if i = reshape(normalize(reshape(image))) normalises over each whole image; else null.
  Value normed_image(const Instruction& i) const {
    const auto* norm = i.is<Reshape>() ? i.inputs[0].def->as<Normalize>() : nullptr;
    Value rows = norm ? i.inputs[0].def->inputs[0] : Value{};
    if (!rows || !rows.def->is<Reshape>() || norm->axis != rows.rank() - 1) return {};
    Value image = rows.def->inputs[0];
    const Dims& dims = image.dims();
    bool is_whole = known_equal(product({dims.begin() + 1, dims.end()}), rows.dims().back());
    return is_whole && dims == i.types[0].shape.dims && last_of_.contains(image.def) ? image : Value{};
  }
  Value renormed(Instruction& i, const Instruction& norm, Value image) {
    Value rows = insert(i, Reshape{.dims = norm.types[0].shape.dims}, {last_form(i, image)});
    return insert(i, Reshape{.dims = permuted(image.dims())}, {insert(i, norm.op, {rows})});
  }

  /// Returns the rewritten image if i = reshape(transpose(reshape(image))) exchanges groups of channels and the channels
  /// of a group; else null.
  Value shuffled_image(const Instruction& i) const {
    const auto* op = i.is<Reshape>() ? i.inputs[0].def->as<Transpose>() : nullptr;
    Value groups = op ? i.inputs[0].def->inputs[0] : Value{};
    if (!groups || !groups.def->is<Reshape>()) return {};
    Value image = groups.def->inputs[0];
    const Dims &from = image.dims(), &split = groups.dims();
    std::vector<int64_t> exchange(split.size());
    std::iota(exchange.begin(), exchange.end(), int64_t{0});
    size_t lead = split.size() > from.size();  // axes before the groups: views drop a batch of 1
    if (split.size() != from.size() + lead || from.size() < 3 || from != i.types[0].shape.dims) return {};
    std::swap(exchange[lead], exchange[lead + 1]);
    bool splits_channels = known_equal(lead ? split[0] : Dim(1), from[0]) &&
                           std::equal(from.begin() + 2, from.end(), split.begin() + 2 + static_cast<int64_t>(lead));
    bool is_last = last_of_.contains(image.def) || is_transposed(image);
    return op->permutation == exchange && splits_channels && is_last ? image : Value{};
  }
  Value shuffled(Instruction& i, Value image) {
    const Dims& split = i.inputs[0].def->inputs[0].dims();
    Dims apart = permuted(image.dims());
    apart.pop_back();
    size_t lead = split.size() - image.dims().size();
    apart.insert(apart.end(), {split[lead], split[lead + 1]});
    Value last = last_form(i, image);
    if (on_gpu_ && image.def->users.size() == 1 && joins_groups(last, split[lead + 1])) return stacked(i, last);
    std::vector<int64_t> exchange(apart.size());
    std::iota(exchange.begin(), exchange.end(), int64_t{0});
    std::swap(exchange[apart.size() - 2], exchange[apart.size() - 1]);
    Value groups = insert(i, Reshape{.dims = apart}, {last});
    Value exchanged = insert(i, Transpose{.permutation = exchange}, {groups});
    return insert(i, Reshape{.dims = permuted(image.dims())}, {exchanged});
  }

  /// True for a concatenation of groups of `size` channels.
  static bool joins_groups(Value last, const Dim& size) {
    const auto* op = last.def->as<Concat>();
    return op && op->axis == last.rank() - 1 &&
           std::ranges::all_of(last.def->inputs, [&](const Value& v) { return known_equal(v.dims().back(), size); });
  }
  /// Interleaves the channels of the operands of a concatenation, so that kernels write them to their places.
  Value stacked(Instruction& i, Value last) {
    std::vector<Value> parts;
    for (const Value& part : last.def->inputs) {
      Dims dims = part.dims();
      dims.emplace_back(1);
      parts.push_back(insert(i, Reshape{.dims = dims}, {part}));
    }
    return insert(i, Reshape{.dims = last.dims()}, {insert(i, Concat{.axis = last.rank()}, parts)});
  }

  /// Returns the result of `i` as [batch, group, pixel, channel of the group] if `i` normalises groups of channels of a
  /// rewritten image, or follows such an instruction; else null.
  Value grouped(Instruction& i) {
    if (const auto* op = i.as<Normalize>()) return normed_groups(i, *op);
    auto first = std::ranges::find_if(i.inputs, [&](const Value& v) { return grouped_of_.contains(v.def); });
    if (first == i.inputs.end() || !(i.is<Reshape>() || is_elementwise(i))) return {};
    Value groups = grouped_of_.at(first->def);
    const Dims &dims = groups.dims(), &own = i.types[0].shape.dims;
    bool is_image = own.size() > 2 && own[0] == dims[0] && known_equal(own[1], dims[1] * dims[3]);
    if (i.is<Reshape>()) return is_image ? groups : Value{};
    auto is_alike = [&](const Value& input) {
      auto found = grouped_of_.find(input.def);
      return found != grouped_of_.end() && found->second.dims() == dims;
    };
    auto fits = [&](const Value& v) { return is_alike(v) || (is_small(v) && v.dims() == own); };
    if (!std::ranges::all_of(i.inputs, fits)) return {};
    std::vector<Value> inputs;
    for (const Value& input : i.inputs) {
      if (is_alike(input)) {
        inputs.push_back(grouped_of_.at(input.def));
      } else {
        Value part = insert(i, Reshape{.dims = {dims[0], dims[1], dims[3], dims[2]}}, {input});
        inputs.push_back(insert(i, Transpose{.permutation = {0, 1, 3, 2}}, {part}));
      }
    }
    return insert(i, i.op, inputs);
  }
  /// Rewrites a norm over groups of channels that fill vectors.
  Value normed_groups(Instruction& i, const Normalize& op) {
    Value rows = i.inputs[0], image = rows.def->is<Reshape>() ? rows.def->inputs[0] : Value{};
    if (!on_gpu_ || op.axis != 2 || !image || !last_of_.contains(image.def)) return {};
    const Dims& from = image.dims();
    Dim groups = rows.dims()[1], channels = floordiv(from[1], groups);
    bool are_groups = from[0] == rows.dims()[0] && known_equal(channels * groups, from[1]) && !known_equal(groups, 1);
    if (!are_groups || !channels.is_multiple_of(4)) return {};
    Dims dims{from[0], product({from.begin() + 2, from.end()}), groups, channels};
    Value split = insert(i, Reshape{.dims = dims}, {last_form(i, image)});
    return insert(i, op, {insert(i, Transpose{.permutation = {0, 2, 1, 3}}, {split})});
  }
  /// Returns the channels-last image made of `groups`; null if the result of `i` is no image.
  Value image_of(Instruction& i, Value groups) {
    const Dims& own = i.types[0].shape.dims;
    if (own[1] == groups.dims()[1]) return {};
    return insert(i, Reshape{.dims = permuted(own)}, {insert(i, Transpose{.permutation = {0, 2, 1, 3}}, {groups})});
  }

  template <class T>
  Value windowed(Instruction& i, T op) {
    if (op.layout == Layout::channels_last) return {};
    op.layout = Layout::channels_last;
    std::vector<Value> inputs = i.inputs;
    inputs[0] = last_form(i, inputs[0]);
    return insert(i, std::move(op), std::move(inputs));
  }

  static bool is_elementwise(const Instruction& i) { return i.is<Elementwise>() || i.is<Convert>() || i.is<Nearest>(); }

  /// True if `i` should be computed channels-last: one operand has this layout, and the others are cheap to transpose.
  bool carries(const Instruction& i) const {
    auto has = [&](const Value& v) { return last_of_.contains(v.def); };
    if (i.inputs.empty() || !i.inputs[0].type().is_tensor() || i.inputs[0].rank() < 3) return false;
    if (is_elementwise(i) || i.is<Concat>()) {
      bool is_image = i.inputs[0].rank() >= 4 && std::ranges::any_of(i.inputs, is_transposed);
      return (is_image || std::ranges::any_of(i.inputs, has)) &&
             std::ranges::all_of(i.inputs, [&](const Value& v) { return has(v) || lies_last(v) || is_small(v); });
    }
    if (i.is<Resize>() && lies_last(i.inputs[0])) return true;
    return has(i.inputs[0]) && (i.is<Reduce>() || i.is<Lookup>() || i.is<Pad>() || i.is<Slice>() || i.is<Resize>());
  }

  /// True for a transpose or reshape, to channels-first, of a value that is stored channels-last.
  static bool lies_last(Value value) { return is_transposed(value) || is_made_of_rows(value); }
  static bool is_transposed(Value value) {
    const auto* op = value.def->as<Transpose>();
    return op && op->permutation == to_first(value.rank());
  }
  /// True for an image made of rows or windows: reshape(transpose(x[batch, pixels..., channels])).
  static bool is_made_of_rows(Value value) {
    if (!value.def->is<Reshape>()) return false;
    Value rows = value.def->inputs[0];
    const auto* op = rows.def->as<Transpose>();
    return op && rows.rank() > 2 && op->permutation[0] == 0 && op->permutation[1] == rows.rank() - 1 &&
           value.rank() > 2 && rows.dims()[0] == value.dims()[0] && rows.dims()[1] == value.dims()[1];
  }

  /// True for constants and broadcasts, also reshaped or transposed, which are cheap to transpose.
  static bool is_small(Value value) {
    while (value.def->is<Reshape>() || value.def->is<Transpose>()) value = value.def->inputs[0];
    return value.def->is<Constant>() || value.def->is<Broadcast>();
  }

  Value followed(Instruction& i) {
    int64_t rank = i.inputs[0].rank();
    if (is_elementwise(i)) return insert(i, i.op, all_last(i));
    if (i.is<Concat>()) return insert(i, Concat{.axis = axis_in_last(i.as<Concat>()->axis, rank)}, all_last(i));
    if (const auto* op = i.as<Reduce>()) return reduced(i, *op, rank);
    std::vector<Value> inputs = i.inputs;
    inputs[0] = last_form(i, inputs[0]);
    if (i.is<Lookup>()) return insert(i, i.op, inputs);
    if (const auto* op = i.as<Slice>())
      return insert(i, Slice{permuted(op->starts), permuted(op->sizes), permuted(op->steps)}, inputs);
    if (const auto* op = i.as<Pad>())
      return insert(i, Pad{permuted(op->before), permuted(op->after), op->mode}, inputs);
    Resize resize = *i.as<Resize>();
    bool is_last_step =
        on_gpu_ && i.users.empty();  // a GPU writes the result's layout faster than it copies the result
    if (!resize.roi.empty() || inputs.size() > 1 || is_last_step) return {};
    resize.dims = permuted(resize.dims);
    resize.scales = permuted(resize.scales);
    return insert(i, resize, inputs);
  }

  /// Returns a reduction in channels-last layout; null if the reduction drops axes, because the layout would change the
  /// order of the remaining axes.
  Value reduced(Instruction& i, Reduce op, int64_t rank) {
    if (!op.keep) return {};
    for (int64_t& axis : op.axes) axis = axis_in_last(axis, rank);
    std::ranges::sort(op.axes);
    return insert(i, std::move(op), {last_form(i, i.inputs[0])});
  }

  std::vector<Value> all_last(Instruction& i) {
    std::vector<Value> inputs;
    for (const Value& input : i.inputs) inputs.push_back(last_form(i, input));
    return inputs;
  }

  Value last_form(Instruction& user, Value value) {
    auto found = last_of_.find(value.def);
    if (found != last_of_.end()) return found->second;
    if (is_transposed(value)) return value.def->inputs[0];
    if (is_made_of_rows(value)) {
      Value rows = value.def->inputs[0], last = insert(user, Transpose{to_last(rows.rank())}, {rows});
      return insert(user, Reshape{.dims = permuted(value.dims())}, {last});
    }
    return insert(user, Transpose{.permutation = to_last(value.rank())}, {value});
  }

  Value insert(Instruction& place, Op op, std::vector<Value> inputs) {
    SourceScope scope(module_, place.source);
    return module_.insert_before(&place, std::move(op), std::move(inputs));
  }

  /// Transposes `last` to channels-first. If all spatial axes have size 1, a reshape suffices.
  Value transposed_back(Instruction& place, Value last) {
    const Dims& dims = place.types[0].shape.dims;
    bool is_flat = std::all_of(dims.begin() + 2, dims.end(), [](const Dim& dim) { return known_equal(dim, 1); });
    if (is_flat) return insert(place, Reshape{.dims = dims}, {last});
    return insert(place, Transpose{.permutation = to_first(last.rank())}, {last});
  }

  Module& module_;
  bool on_gpu_;
  std::unordered_map<const Instruction*, Value> last_of_;     // channels-first instruction -> its channels-last form
  std::unordered_map<const Instruction*, Value> grouped_of_;  // instruction -> the result of grouped()
  bool changed_ = false;
};

}  // namespace

bool channels_last(Module& module, bool on_gpu) {
  return LayoutChange(module, on_gpu).run() && (shorten_chains(module), true);
}

}  // namespace weft
