// SPDX-License-Identifier: Apache-2.0
#include "passes/shard.h"

#include <algorithm>
#include <functional>
#include <map>
#include <unordered_map>

#include "base/error.h"
#include "base/watch.h"
#include "ir/core_ops.h"
#include "ops/block_dot.h"
#include "ops/build.h"
#include "ops/collective.h"
#include "ops/indexed.h"
#include "ops/quantize.h"
#include "passes/shard_weights.h"

namespace weft {
namespace {

/// A value that is split: each rank has a part.
struct Part {
  Value value;
  int64_t axis = -1;  ///< the axis that is split
};

/// Products with fewer weights are not split, because exchanging parts would take longer than computing the products.
constexpr int64_t least_weights = 1024;

Dim before(const Dims& dims, int64_t axis) { return product(Dims(dims.begin(), dims.begin() + axis)); }

class Sharding {
 public:
  Sharding(Module& module, const Ranks& ranks) : module_(module), ranks_(ranks), weights_(module, ranks) {}

  bool run() {
    std::vector<Instruction*> all;
    for (Instruction& i : module_) all.push_back(&i);
    for (Instruction* i : all) visit(*i);
    set_results();
    module_.remove_dead();
    keep_parameters();
    write_notes();
    return !parts_.empty() || sums_ > 0;
  }

 private:
  // --- the forms of a value ------------------------------------------------------------------------------------------

  bool divides(const Dim& size) const {
    auto number = size.constant();
    return number && *number > 0 && *number % ranks_.count == 0;
  }
  bool divides(Value value, int64_t axis) const {
    return axis >= 0 && axis < value.rank() && divides(value.dims()[axis]);
  }

  Dims part_dims(Dims dims, int64_t axis) const {
    dims[axis] = *dims[axis].constant() / ranks_.count;
    return dims;
  }

  /// Returns the axis along which a value is split; -1 if each rank has the whole value.
  int64_t axis_of(Value value) const {
    auto part = parts_.find(value);
    return part == parts_.end() || gathered_.contains(value) ? -1 : part->second.axis;
  }

  /// Returns the whole of a value: the value itself if it is not split, else the gathered parts of all ranks.
  Value whole(Value value) {
    auto part = parts_.find(value);
    if (part == parts_.end()) return value;
    auto [known, is_new] = gathered_.try_emplace(value);
    if (is_new) known->second = gather(part->second, value.dims());
    return known->second;
  }

  Value gather(const Part& part, const Dims& dims) {
    ++gathers_;
    Value all = module_.append(Collective{.fn = CollectiveFn::gather, .ranks = ranks_.count}, {part.value});
    std::vector<int64_t> order;  // puts the axis of ranks before the split axis
    for (int64_t axis = 1; axis < all.rank(); ++axis) {
      if (axis == part.axis + 1) order.push_back(0);
      order.push_back(axis);
    }
    return reshape(module_, transpose(module_, all, order), dims);
  }

  /// Returns this rank's part of a value along an axis. The number of ranks must divide the axis's size.
  Value local(Value value, int64_t axis) {
    auto part = parts_.find(value);
    if (part != parts_.end() && part->second.axis == axis) return part->second.value;
    Value all = whole(value);
    auto [known, is_new] = locals_.try_emplace({all.def, all.index, axis});
    if (is_new) known->second = weights_.part(all, axis);
    return known->second;
  }

  // --- instructions --------------------------------------------------------------------------------------------------

  void visit(Instruction& i) {
    check_watch();
    ReplaceScope scope(module_, i);
    if (may_split(i) && split(i)) return;
    for (size_t k = 0; k < i.inputs.size(); ++k) {
      Value all = whole(i.inputs[k]);
      if (all != i.inputs[k]) module_.set_input(i, k, all);
    }
  }

  static bool may_split(const Instruction& i) {
    return i.types.size() == 1 && i.types[0].is_tensor() && i.modules.empty() && bits(i.types[0].shape.dtype) >= 8 &&
           i.types[0].shape.dtype != DType::string;
  }

  /// Returns the index of the first split operand; -1: none.
  int64_t split_operand(const Instruction& i) const {
    for (size_t k = 0; k < i.inputs.size(); ++k) {
      if (axis_of(i.inputs[k]) >= 0) return static_cast<int64_t>(k);
    }
    return -1;
  }

  /// Rewrites `i` to compute a part of its result, or to sum partial results. Returns false if `i` needs whole values.
  bool split(Instruction& i) {
    if (i.is<Dot>() || i.is<GroupedDot>()) return product(i);
    if (i.is<BlockDot>()) return block_product(i);
    int64_t k = split_operand(i);
    if (k < 0) return false;
    int64_t axis = axis_of(i.inputs[k]);
    if (i.is<Elementwise>() || i.is<Convert>() || i.is<Bitcast>()) return along(i, i.op, axis, axis);
    if (i.is<Attention>()) return k < 3 && axis == 1 && divides(i.inputs[0], 1) && attention(i);
    if (i.is<Gather>() || i.is<ScatterElements>() || i.is<ScatterNd>()) return indexed(i, k, axis);
    if (i.is<Quantize>() || i.is<Dequantize>()) return k == 0 && scaled(i, axis);
    if (i.is<Concat>()) return i.as<Concat>()->axis != axis && along(i, i.op, axis, axis);
    return k == 0 && (view(i, axis) || rows(i, axis));
  }

  void give(Instruction& i, Op op, std::vector<Value> inputs, int64_t axis) {
    parts_[i.result()] = {module_.append(std::move(op), std::move(inputs)), axis};
  }

  /// Splits the operands along `axis` and the result along `to`; false if the number of ranks does not divide the axis.
  bool along(Instruction& i, Op op, int64_t axis, int64_t to) {
    if (!std::ranges::all_of(i.inputs, [&](Value v) { return divides(v, axis); })) return false;
    std::vector<Value> inputs;
    for (const Value& input : i.inputs) inputs.push_back(local(input, axis));
    give(i, std::move(op), std::move(inputs), to);
    return true;
  }

  bool view(Instruction& i, int64_t axis) {
    if (i.is<Reshape>()) return reshaped(i, axis);
    if (const auto* op = i.as<Transpose>())
      return along(i, *op, axis, std::ranges::find(op->permutation, axis) - op->permutation.begin());
    if (const auto* op = i.as<Broadcast>()) {
      int64_t to = axis + i.types[0].shape.rank() - i.inputs[0].rank();
      return along(i, Broadcast{.dims = part_dims(op->dims, to)}, axis, to);
    }
    if (const auto* op = i.as<Slice>()) return sliced(i, *op, axis);
    const auto* op = i.as<Pad>();
    if (!op || !known_equal(op->before[axis], 0) || !known_equal(op->after[axis], 0)) return false;
    std::vector<Value> inputs = i.inputs;  // the second input is the padding value
    inputs[0] = local(inputs[0], axis);
    give(i, *op, std::move(inputs), axis);
    return true;
  }

  /// Handles a reshape of a split value, if the split axis stays, becomes several axes or merges with axes after it.
  bool reshaped(Instruction& i, int64_t axis) {
    const Dims& to = i.types[0].shape.dims;
    for (int64_t b = 0; b < static_cast<int64_t>(to.size()); ++b) {
      if (!divides(to[b]) || !known_equal(before(i.inputs[0].dims(), axis), before(to, b))) continue;
      return along(i, Reshape{.dims = part_dims(to, b)}, axis, b);
    }
    return reshaped_to_groups(i, axis);
  }

  /// Handles a reshape that splits the columns of a joint product (queries, keys and values) into groups of heads: this
  /// rank gets its part of each group.
  bool reshaped_to_groups(Instruction& i, int64_t axis) {
    const Dims& to = i.types[0].shape.dims;
    if (axis + 1 != i.inputs[0].rank()) return false;
    for (int64_t b = 0; b + 1 < static_cast<int64_t>(to.size()); ++b) {
      bool begins = known_equal(before(i.inputs[0].dims(), axis), before(to, b));
      if (!begins || !to[b].is_constant() || to[b].value() < 2 || !divides(to[b + 1])) continue;
      auto groups = to[b].value();
      Value part = with_columns(i.inputs[0], [&](Value w) { return weights_.grouped_part(w, groups); });
      if (part) give(i, Reshape{.dims = part_dims(to, b + 1)}, {part}, b + 1);
      return bool(part);
    }
    return false;
  }

  bool sliced(Instruction& i, const Slice& op, int64_t axis) {
    const Dim& size = i.inputs[0].dims()[axis];
    bool is_whole = known_equal(op.starts[axis], 0) && known_equal(op.sizes[axis], size) && op.steps[axis] == 1;
    if (!is_whole) return of_fewer_columns(i, op, axis);
    Slice part = op;
    part.sizes = part_dims(op.sizes, axis);
    return along(i, part, axis, axis);
  }

  /// Handles a slice of the columns of a joint product, such as the queries: this rank gets its part of these columns.
  bool of_fewer_columns(Instruction& i, const Slice& op, int64_t axis) {
    const Dims& dims = i.inputs[0].dims();
    for (int64_t a = 0; a < axis; ++a) {
      if (!known_equal(op.starts[a], 0) || !known_equal(op.sizes[a], dims[a]) || op.steps[a] != 1) return false;
    }
    auto start = op.starts[axis].constant();
    if (!start || !divides(op.sizes[axis]) || op.steps[axis] != 1 || axis + 1 != std::ssize(dims)) return false;
    int64_t size = op.sizes[axis].value() / ranks_.count, from = *start + ranks_.number * size;
    Value part = with_columns(i.inputs[0], [&](Value w) { return weights_.cut(w, w.rank() - 1, from, size); });
    if (part) parts_[i.result()] = {part, axis};
    return bool(part);
  }

  /// Computes a product again with other columns of its weights, `columns(weights)`. Also handles elementwise functions
  /// of such products and constants. Returns null for other values.
  Value with_columns(Value value, const std::function<Value(Value)>& columns) {
    Instruction& i = *value.def;
    std::vector<Value> inputs = i.inputs;
    if (weights_.is_weights(value)) return columns(value);
    if (i.is<Dot>() && weights_.is_weights(inputs[1]) && axis_of(inputs[0]) < 0) {
      inputs = {whole(inputs[0]), columns(inputs[1])};
    } else if (i.is<Elementwise>() || i.is<Convert>()) {
      for (Value& input : inputs) input = with_columns(input, columns);
    } else {
      return {};
    }
    bool is_known = std::ranges::all_of(inputs, [](Value input) { return bool(input); });
    return is_known ? module_.append(i.op, std::move(inputs)) : Value{};
  }

  /// Splits operators that compute each index along the split axis independently. Returns false for other operators.
  bool rows(Instruction& i, int64_t axis) {
    if (const auto* op = i.as<Softmax>()) return op->axis != axis && along(i, *op, axis, axis);
    if (const auto* op = i.as<Normalize>()) return axis < op->axis && along(i, *op, axis, axis);
    if (const auto* op = i.as<Scan>()) return op->axis != axis && along(i, *op, axis, axis);
    const auto* op = i.as<Reduce>();
    if (!op || std::ranges::find(op->axes, axis) != op->axes.end()) return false;
    auto dropped = op->keep ? 0 : std::ranges::count_if(op->axes, [&](int64_t a) { return a < axis; });
    return along(i, *op, axis, axis - dropped);
  }

  bool indexed(Instruction& i, int64_t k, int64_t axis) {
    if (const auto* op = i.as<ScatterElements>()) return op->axis != axis && along(i, *op, axis, axis);
    if (const auto* op = i.as<ScatterNd>()) return scattered(i, *op, k, axis);
    const auto* op = i.as<Gather>();
    if (k != 0 || op->axis == axis) return false;
    int64_t to = axis < op->axis ? axis : axis - 1 + i.inputs[1].rank();
    give(i, *op, {local(i.inputs[0], axis), whole(i.inputs[1])}, to);
    return true;
  }

  /// Splits a scatter along an axis of its slices, which the indices do not address. Otherwise returns false.
  bool scattered(Instruction& i, const ScatterNd& op, int64_t k, int64_t axis) {
    auto depth = i.inputs[1].dims().back().constant();
    if (k == 1 || !depth) return false;
    int64_t added = i.inputs[1].rank() - 1 - *depth, to = k == 0 ? axis : axis - added;
    if (to < *depth || !divides(i.inputs[0], to) || !divides(i.inputs[2], to + added)) return false;
    give(i, op, {local(i.inputs[0], to), whole(i.inputs[1]), local(i.inputs[2], to + added)}, to);
    return true;
  }

  /// Splits quantize and dequantize. Returns false if scales are blocked along `axis` or cannot be split into parts.
  bool scaled(Instruction& i, int64_t axis) {
    const auto* quantize = i.as<Quantize>();
    int64_t own = quantize ? quantize->axis : i.as<Dequantize>()->axis;
    int64_t block = quantize ? quantize->block : i.as<Dequantize>()->block;
    std::vector<Value> inputs{local(i.inputs[0], axis)};
    for (size_t k = 1; k < i.inputs.size(); ++k) {
      Value scale = i.inputs[k];
      bool is_split = scale.rank() > 0 && (block > 0 || own == axis);
      if (is_split && block > 0 && own == axis) return false;
      if (is_split && !divides(scale, block > 0 ? axis : 0)) return false;
      inputs.push_back(is_split ? local(scale, block > 0 ? axis : 0) : whole(scale));
    }
    give(i, i.op, std::move(inputs), axis);
    return true;
  }

  /// Splits an attention by heads. If there are more ranks than key/value heads, several ranks use one key/value head.
  bool attention(Instruction& i) {
    const auto& op = *i.as<Attention>();
    std::vector<Value> inputs{local(i.inputs[0], 1)};
    for (size_t k : {1, 2}) {
      auto heads = i.inputs[k].dims()[1].constant();
      if (!heads || (*heads % ranks_.count != 0 && ranks_.count % *heads != 0)) return false;
      inputs.push_back(*heads % ranks_.count == 0
                           ? local(i.inputs[k], 1)
                           : slice_axis(module_, whole(i.inputs[k]), 1, ranks_.number * *heads / ranks_.count, 1));
    }
    for (size_t k = 3; k < i.inputs.size(); ++k) {
      bool is_sinks = op.sinks && k == op.sinks_at(i.inputs.size());
      bool is_mask = k == 3 && op.has_mask(i.inputs.size());
      int64_t axis = is_sinks ? 0 : is_mask ? i.inputs[k].rank() - 3 : -1;
      inputs.push_back(divides(i.inputs[k], axis) ? local(i.inputs[k], axis) : whole(i.inputs[k]));
    }
    ++heads_;
    give(i, op, std::move(inputs), 1);
    return true;
  }

  // --- products ------------------------------------------------------------------------------------------------------

  void sum(Instruction& i, Op op, std::vector<Value> inputs) {
    ++sums_;
    Value part = module_.append(std::move(op), std::move(inputs));
    module_.replace(i.result(), module_.append(Collective{.fn = CollectiveFn::sum, .ranks = ranks_.count}, {part}));
  }

  /// Adds the reason why a product is not split to the report; returns false.
  bool stays(const Instruction& i, const std::string& why) {
    whole_products_.push_back(cat(i.source.empty() ? "a product of the program" : i.source, ": ", why));
    return false;
  }

  bool product(Instruction& i) {
    Value a = i.inputs[0], b = i.inputs[1];
    int64_t k_of_a = a.rank() - 1, k_of_b = b.rank() - 2, m = a.rank() - 2, n = b.rank() - 1;
    bool is_grouped = i.is<GroupedDot>();
    auto operands = [&](Value x, Value y) {
      std::vector<Value> list{x, y};
      if (is_grouped) list.push_back(whole(i.inputs[2]));
      return list;
    };
    int64_t of_a = axis_of(a), of_b = axis_of(b);
    for (int64_t axis : {of_a, of_b}) {
      if (!is_grouped && axis >= 0 && axis < m && divides(a, axis) && divides(b, axis))
        return give(i, i.op, {local(a, axis), local(b, axis)}, axis), true;
    }
    if ((of_a == k_of_a || of_b == k_of_b) && divides(a, k_of_a) && divides(b, k_of_b)) {
      ++rows_;
      return sum(i, i.op, operands(local(a, k_of_a), local(b, k_of_b))), true;
    }
    if (of_a == m) return give(i, i.op, operands(local(a, m), whole(b)), m), true;
    if (of_b == n) return give(i, i.op, operands(whole(a), local(b, n)), n), true;
    if (of_a >= 0 || of_b >= 0) return false;
    return weighted(i, a, b, operands);
  }

  /// Splits a product of whole operands along the output axis of its weights, or else along the summed axis.
  template <class Operands>
  bool weighted(Instruction& i, Value a, Value b, const Operands& operands) {
    int64_t m = a.rank() - 2, n = b.rank() - 1, k_of_a = a.rank() - 1, k_of_b = b.rank() - 2;
    bool of_b = weights_.is_weights(b), of_a = !of_b && i.is<Dot>() && weights_.is_weights(a);
    if (!of_a && !of_b) return false;
    const Dims& dims = (of_b ? b : a).dims();
    auto count = (dims[dims.size() - 2] * dims.back()).constant();
    if (!count || *count < least_weights)
      return stays(i, cat("only ", dims[dims.size() - 2] * dims.back(), " weights"));
    if (of_b && divides(b, n)) return ++columns_, give(i, i.op, operands(whole(a), local(b, n)), n), true;
    if (of_a && divides(a, m)) return ++columns_, give(i, i.op, operands(local(a, m), whole(b)), m), true;
    if (!divides(a, k_of_a) || !divides(b, k_of_b))
      return stays(i, cat("neither ", dims[dims.size() - 2], " nor ", dims.back(), " divides by ", ranks_.count));
    ++rows_;
    return sum(i, i.op, operands(local(a, k_of_a), local(b, k_of_b))), true;
  }

  /// Splits a product with weights of 4 or 8 bits: by whole blocks of k if x is split along k, else by output columns.
  bool block_product(Instruction& i) {
    const auto& op = *i.as<BlockDot>();
    Value x = i.inputs[0], w = i.inputs[1];
    int64_t k = x.rank() - 1;
    if (!is_float(x.dtype())) return false;
    bool is_split = axis_of(x) == k;
    if (axis_of(x) >= 0 && !is_split) return false;
    auto k_size = x.dims().back().constant();
    bool has_blocks = k_size && *k_size % (op.block * ranks_.count) == 0 && known_equal(w.dims()[1], *k_size);
    auto parts = [&](int64_t axis) {
      std::vector<Value> inputs{axis == 1 ? local(x, k) : whole(x)};
      for (size_t at = 1; at < i.inputs.size(); ++at) inputs.push_back(local(i.inputs[at], axis));
      return inputs;
    };
    if (is_split && has_blocks) return ++rows_, sum(i, op, parts(1)), true;
    if (is_split) return false;
    if (!divides(w, 0)) return stays(i, cat(w.dims()[0], " columns do not divide by ", ranks_.count));
    ++columns_;
    return give(i, op, parts(0), k), true;
  }

  // --- results, parameters, notes ------------------------------------------------------------------------------------

  Value parameter_named(const std::string& name) const {
    for (const Value& parameter : module_.parameters()) {
      if (parameter.def->as<Parameter>()->parameter == name) return parameter;
    }
    return {};
  }

  /// Returns the parameter donated to this split result, if the rank reads a part along the same axis; else null.
  Value donor_of(const Result& result) const {
    auto part = parts_.find(result.value);
    auto donation = std::ranges::find(ranks_.donations, result.name, &DonationRequest::output);
    if (part == parts_.end() || donation == ranks_.donations.end()) return {};
    Value donor = parameter_named(donation->input);
    bool is_free = donor && !module_.program().defaults.contains(donation->input);
    return is_free && locals_.contains({donor.def, donor.index, part->second.axis}) ? donor : Value{};
  }

  void set_results() {
    std::vector<Result> results = module_.results();
    for (Result& result : results) {
      if (Value donor = donor_of(result)) {
        const Part& part = parts_.at(result.value);
        kept_.push_back({donor, result.name, part, result.value.dims()});
        result.value = part.value;
      } else {
        result.value = whole(result.value);
      }
    }
    module_.set_results(std::move(results));
  }

  /// Splits each donated parameter if only the rank's part of it is read; else gathers the whole result.
  void keep_parameters() {
    for (const Kept& kept : kept_) {
      Value part = locals_.at({kept.donor.def, kept.donor.index, kept.part.axis});
      bool is_free = std::ranges::all_of(kept.donor.def->users, [&](Instruction* user) { return user == part.def; }) &&
                     !module_.is_result(kept.donor);
      if (!is_free || part.def == kept.donor.def) {
        gather_result(kept);
        continue;
      }
      std::string name = kept.donor.def->as<Parameter>()->parameter;
      Shape shape{kept.donor.dtype(), part_dims(kept.donor.dims(), kept.part.axis)};
      kept.donor.def->op = Parameter{.parameter = name, .type = shape};
      kept.donor.def->types[0] = shape;
      module_.replace(part, kept.donor);
      if (ranks_.report) ranks_.report->kept.push_back({name, kept.output});
    }
    module_.remove_dead();
  }

  struct Kept {
    Value donor;
    std::string output;
    Part part;
    Dims dims;  // sizes of the whole result
  };

  void gather_result(const Kept& kept) {
    std::vector<Result> results = module_.results();
    for (Result& result : results) {
      if (result.name == kept.output) result.value = gather(kept.part, kept.dims);
    }
    module_.set_results(std::move(results));
  }

  void write_notes() {
    if (!ranks_.report) return;
    for (const DonationRequest& donation : ranks_.donations) {
      bool has_output = std::ranges::count(module_.results(), donation.output, &Result::name) > 0;
      if (!parameter_named(donation.input) || !has_output)
        throw Error({.kind = ErrorKind::usage,
                     .code = "E310",
                     .what = cat("there is no input '", printable(donation.input), "' or no output '",
                                 printable(donation.output), "' for a donation")});
    }
    auto& notes = ranks_.report->notes;
    notes.push_back(cat("split over ", ranks_.count, " ranks: ", columns_, " products by columns, ", rows_,
                        " by rows, ", heads_, " attentions by heads; a run makes ", sums_, " sums and ", gathers_,
                        " gathers over the ranks"));
    for (const DonationRequest& kept : ranks_.report->kept)
      notes.push_back(cat("input '", printable(kept.input), "' and output '", printable(kept.output),
                          "' are split: each rank has its own part"));
    constexpr size_t most = 8;
    for (const std::string& product : std::span(whole_products_).first(std::min(most, whole_products_.size())))
      notes.push_back(cat("whole in each rank: ", product));
    if (whole_products_.size() > most) notes.push_back(cat("and ", whole_products_.size() - most, " more products"));
  }

  Module& module_;
  const Ranks& ranks_;
  RankWeights weights_;
  std::unordered_map<Value, Part, ValueHash> parts_;
  std::unordered_map<Value, Value, ValueHash> gathered_;
  std::map<std::tuple<const Instruction*, uint32_t, int64_t>, Value> locals_;
  std::vector<Kept> kept_;
  std::vector<std::string> whole_products_;
  int64_t columns_ = 0, rows_ = 0, heads_ = 0, sums_ = 0, gathers_ = 0;
};

}  // namespace

bool shard(Module& module, const PassContext& context) {
  if (&module != &module.program().main()) return false;
  return Sharding(module, context.ranks).run();
}

}  // namespace weft
