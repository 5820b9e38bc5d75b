// SPDX-License-Identifier: Apache-2.0
#include "passes/hoist_invariants.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "ir/control.h"
#include "ir/core_ops.h"
#include "ops/build.h"
#include "ops/custom.h"
#include "ops/host.h"
#include "ops/indexed.h"
#include "passes/match.h"

namespace weft {
namespace {

/// True for instructions that may end a run with an error: they read indices or strings, or call custom functions.
bool may_fail(const Instruction& i) {
  return i.is<Gather>() || i.is<GatherElements>() || i.is<GatherNd>() || i.is<ScatterElements>() || i.is<ScatterNd>() ||
         i.is<GroupedDot>() || i.is<Custom>() || i.is<HostOp>();
}

bool only_moves(const Instruction& i) {
  return i.is<Constant>() || i.is<Sizes>() || i.is<Iota>() || i.is<Reshape>() || i.is<Transpose>() ||
         i.is<Broadcast>() || i.is<Slice>() || i.is<Concat>() || i.is<Pad>();
}

bool is_computed_element_by_element(const Instruction& i) { return i.is<Elementwise>() || i.is<Convert>(); }

/// True if an operand, before its broadcasts, is as large as the result.
bool is_no_larger_than_operands(const Instruction& i) {
  return std::ranges::any_of(i.inputs, [&](Value input) {
    return known_equal(product(without_broadcast(input).dims()), product(i.types[0].shape.dims));
  });
}

bool has_guards(const Module& body) {
  return std::ranges::any_of(body.program().guards(), [&](const Guard& g) { return g.module == &body; });
}

/// The hoisting of instructions from the body of one loop into the module `outer` that contains the loop.
class LoopHoist {
 public:
  LoopHoist(Module& outer, Instruction& loop)
      : outer_(outer), loop_(loop), op_(*loop.as<Loop>()), body_(*loop.modules[0]), offset_(op_.conditional ? 1 : 0) {}

  bool run() {
    if (body_.begin() == body_.end()) return false;
    take_out_unchanged();
    if (!has_guards(body_)) take_out_invariants();
    take_out_products_of_rows();
    bool has_unread = std::ranges::any_of(outer_parameters(), [&](Value value) { return is_unread(value); });
    if (dropped_.empty() && added_.empty() && !has_unread) return false;
    rebuild();
    return true;
  }

 private:
  // --- carried values that stay the same in every trip

  bool is_unchanged(size_t k) const {
    const Type& type = loop_.types[k];
    Value parameter = body_.parameters()[k];
    return body_.results()[offset_ + k].value == parameter && type == parameter.type() &&
           type == loop_.inputs[offset_ + k].type();
  }

  void take_out_unchanged() {
    for (int64_t k = 0; k < op_.carried; ++k) {
      if (is_unchanged(k)) dropped_.push_back(k);
    }
    for (size_t k : dropped_) body_.replace(body_.parameters()[k], from_outside(loop_.inputs[offset_ + k]));
  }

  /// Adds a parameter to the body for a value from before the loop.
  Value from_outside(Value value) {
    ReplaceScope scope(body_, *body_.begin());
    added_.push_back(value);
    return body_.parameter(cat("outside", body_.parameters().size()), value.type());
  }

  // --- instructions with the same result in every trip

  void find_inner_symbols() {
    for (const Dim& dim : symbols_of_bodies(loop_)) inner_.insert(dim.as_symbol()->name);
    for (const Instruction& i : body_) {
      for (const Dim& dim : symbols_set_by(i)) inner_.insert(dim.as_symbol()->name);
    }
  }

  bool makes_a_trip() const { return !op_.conditional && op_.trips.lower_bound() >= 1; }

  bool is_invariant(const Instruction& i) const {
    if (i.is<Parameter>()) return !is_carried(i);
    if (!i.modules.empty() || i.op.info().has_side_effects || sets_symbols(i)) return false;
    if (may_fail(i) && !makes_a_trip()) return false;
    if (!std::ranges::all_of(i.inputs, [&](Value input) { return invariant_[input.def->id]; })) return false;
    bool is_fixed = true;
    visit_symbols(i, [&](const Symbol& symbol) { is_fixed &= !inner_.contains(symbol.name); });
    return is_fixed;
  }

  bool is_carried(const Instruction& parameter) const {
    auto carried = std::span(body_.parameters()).first(op_.carried);
    return std::ranges::any_of(carried, [&](Value value) { return value.def == &parameter; });
  }

  /// True if `i` depends on outer values, does not change from trip to trip, and a read is cheaper than recomputing.
  bool is_worth_moving(const Instruction& i) const {
    if (!invariant_[i.id] || i.is<Parameter>() || only_moves(i)) return false;
    if (!std::ranges::any_of(i.inputs, [&](Value input) { return reads_outside_[input.def->id]; })) return false;
    return !is_computed_element_by_element(i) || is_no_larger_than_operands(i);
  }

  void take_out_invariants() {
    find_inner_symbols();
    std::vector<Instruction*> order;
    for (auto* marks : {&invariant_, &reads_outside_, &moves_, &is_needed_, &stays_})
      marks->assign(body_.id_limit(), false);
    for (Instruction& i : body_) {
      order.push_back(&i);
      invariant_[i.id] = is_invariant(i);
      reads_outside_[i.id] = (i.is<Parameter>() && invariant_[i.id]) ||
                             std::ranges::any_of(i.inputs, [&](Value v) { return reads_outside_[v.def->id]; });
      moves_[i.id] = is_worth_moving(i);
    }
    mark_backwards(order);
    for (Instruction* i : order) {
      if (is_needed_[i->id]) write_before(*i);
    }
    for (Instruction* i : order) {
      if (moves_[i->id] && stays_[i->id]) read_from_outside(*i);
    }
    body_.remove_dead();
  }

  /// Sets is_needed_ for results that must exist before the loop, and stays_ for results that the body needs.
  void mark_backwards(const std::vector<Instruction*>& order) {
    for (const Result& result : body_.results()) stays_[result.value.def->id] = true;
    for (auto at = order.rbegin(); at != order.rend(); ++at) {
      const Instruction& i = **at;
      bool is_kept = !i.modules.empty() || i.op.info().has_side_effects || sets_symbols(i) || stays_[i.id];
      stays_[i.id] = is_kept;
      is_needed_[i.id] = is_needed_[i.id] || (moves_[i.id] && is_kept);
      for (Value input : i.inputs) {
        if (is_needed_[i.id]) is_needed_[input.def->id] = true;
        if (is_kept && !moves_[i.id]) stays_[input.def->id] = true;
      }
    }
  }

  void write_before(const Instruction& i) {
    if (i.is<Parameter>()) {
      auto number = std::ranges::find(body_.parameters(), &i, &Value::def) - body_.parameters().begin();
      outside_[&i] = operand_of(number);
      return;
    }
    Values inputs;
    for (Value input : i.inputs) inputs.push_back(outside(input));
    ReplaceScope scope(outer_, loop_);
    SourceScope source(outer_, i.source);
    outside_[&i] = outer_.append(i.op, std::move(inputs));
  }

  /// Returns the value outside the loop that the body's parameter `number` (original or added) gets.
  Value operand_of(size_t number) const {
    auto operands = body_operands(loop_, 0);
    return number < operands.size() ? operands[number] : added_[number - operands.size()];
  }

  Value outside(Value value) const {
    Value first = outside_.at(value.def);
    return {first.def, first.index + value.index};
  }

  void read_from_outside(Instruction& i) {
    for (uint32_t k = 0; k < i.types.size(); ++k) {
      auto reads = [&](const Instruction* user) {
        return std::ranges::find(user->inputs, i.result(k)) != user->inputs.end();
      };
      if (body_.is_result(i.result(k)) || std::ranges::any_of(i.users, reads))
        body_.replace(i.result(k), from_outside(outside(i.result(k))));
    }
  }

  // --- products that multiply one row of a matrix in each trip

  /// Returns the parameters for values from outside the loop; added parameters are last.
  std::span<const Value> outer_parameters() const { return std::span(body_.parameters()).subspan(op_.carried); }
  bool is_unread(Value parameter) const { return parameter.def->users.empty() && !body_.is_result(parameter); }

  bool is_in_one_trip(const Dim& size) const {
    bool found = false;
    size.visit_symbols([&](const Symbol& symbol) { found |= inner_.contains(symbol.name); });
    return found;
  }

  /// Returns a value outside the loop that equals `value`: an outer parameter, a constant or a view of one. Else null.
  Value unmoved(Value value) {
    const Instruction& i = *value.def;
    if (i.is<Constant>()) return outer_.append(i.op, {});
    if (i.is<Parameter>()) {
      auto at = std::ranges::find(outer_parameters(), value);
      return at == outer_parameters().end() ? Value() : operand_of(&*at - body_.parameters().data());
    }
    bool is_view = (i.is<Transpose>() || i.is<Reshape>()) &&
                   std::ranges::none_of(value.dims(), [&](const Dim& dim) { return is_in_one_trip(dim); });
    Value from = is_view ? unmoved(i.inputs[0]) : Value();
    return from ? outer_.append(i.op, {from}) : from;
  }

  /// Returns the slice [first, first + trips) of an outer value along `axis`, with that axis moved to the front. Null
  /// if the slice may exceed the axis.
  Value rows_of(Value x, int64_t axis, const Dim& first) {
    Value all = x.rank() && known_less_equal(0, first) ? unmoved(x) : Value();
    if (!all || !known_less_equal(first + op_.trips, x.dims()[axis])) return {};
    std::vector<int64_t> order = {axis};
    for (int64_t a = 0; a < x.rank(); ++a) {
      if (a != axis) order.push_back(a);
    }
    return transpose(outer_, slice_axis(outer_, all, axis, first, op_.trips), order);
  }

  /// Returns the rows of all trips along a new first axis if `value` is row (counter + n) of an outer value; else null.
  Value of_all_trips(Value value) {
    const Instruction& i = *value.def;
    Dims dims = value.dims();
    dims.insert(dims.begin(), op_.trips);
    Value rows;
    if (is_in_one_trip(product(dims))) return {};
    if (i.is<Reshape>()) {
      rows = of_all_trips(i.inputs[0]);
    } else if (const auto* gather = i.as<Gather>()) {
      auto place = known_contents(i.inputs[1]);
      bool is_one = place && place->size() == 1 && gather->axis == 0 && !is_in_one_trip((*place)[0] - op_.counter);
      if (is_one) rows = rows_of(i.inputs[0], 0, (*place)[0] - op_.counter);
    } else if (const auto* slice = i.as<Slice>()) {
      auto moving = std::ranges::find_if(slice->starts, [&](const Dim& start) { return start != Dim(0); });
      auto axis = moving - slice->starts.begin();
      Dims whole = i.inputs[0].dims();
      if (moving == slice->starts.end()) return {};
      whole[axis] = 1;
      bool is_row = slice->sizes == whole && !is_in_one_trip(*moving - op_.counter) &&
                    std::ranges::count(slice->starts, Dim(0)) + 1 == std::ssize(slice->starts) &&
                    std::ranges::count(slice->steps, 1) == std::ssize(slice->steps);
      if (is_row) rows = rows_of(i.inputs[0], axis, *moving - op_.counter);
    }
    return rows ? reshape(outer_, rows, dims) : rows;
  }

  void take_out_products_of_rows() {
    if (op_.conditional || op_.trips.upper_bound() < 2) return;
    if (inner_.empty()) find_inner_symbols();
    ReplaceScope scope(outer_, loop_);
    for (Instruction& i : body_) {
      if (!i.is<Dot>() || i.types[0].shape.rank() != 2 || is_in_one_trip(product(i.types[0].shape.dims))) continue;
      SourceScope source(outer_, i.source);
      Value rows = of_all_trips(i.inputs[0]), weight = rows ? unmoved(i.inputs[1]) : Value();
      if (!weight) continue;
      Dims dims = i.types[0].shape.dims, all = rows.dims();
      Value flat = reshape(outer_, rows, {all[0] * all[1], all[2]});
      Value whole = outer_.append(i.op, {flat, weight});
      whole = reshape(outer_, whole, {all[0], dims[0], dims[1]});
      Value parameter = from_outside(whole);
      ReplaceScope inside(body_, i);
      body_.replace(i.result(), reshape(body_, slice_axis(body_, parameter, 0, op_.counter, 1), dims));
    }
    body_.remove_dead();
  }

  // --- rebuilding the loop

  bool is_dropped(size_t k) const { return std::ranges::find(dropped_, k) != dropped_.end(); }

  /// Rebuilds the loop with the added operands, without the dropped carried values and unread outer parameters.
  void rebuild() {
    Loop op = op_;
    Values inputs(loop_.inputs), carried(body_.parameters().begin(), body_.parameters().begin() + op_.carried);
    std::vector<Result> results = body_.results();
    for (size_t k : dropped_) {
      op.types.erase(op.types.begin() + static_cast<std::ptrdiff_t>(k - number_before(k)));
      inputs.erase(inputs.begin() + static_cast<std::ptrdiff_t>(offset_ + k - number_before(k)));
      results.erase(results.begin() + static_cast<std::ptrdiff_t>(offset_ + k - number_before(k)));
    }
    std::vector<Value> outside(outer_parameters().begin(), outer_parameters().end());
    op.carried -= std::ssize(dropped_);
    inputs.insert(inputs.end(), added_.begin(), added_.end());
    body_.set_results(std::move(results));
    for (size_t k : dropped_) body_.erase(*carried[k].def);
    for (size_t k = outside.size(); k-- > 0;) {
      if (!is_unread(outside[k])) continue;
      inputs.erase(inputs.end() - static_cast<std::ptrdiff_t>(outside.size() - k));
      body_.erase(*outside[k].def);
      outside.erase(outside.begin() + static_cast<std::ptrdiff_t>(k));
    }
    order_parameters();
    ReplaceScope scope(outer_, loop_);
    Value loop = outer_.append(std::move(op), std::move(inputs), {&body_});
    for (uint32_t k = 0; k < loop_.types.size(); ++k) {
      auto result = k - static_cast<uint32_t>(number_before(k));
      outer_.replace(loop_.result(k), is_dropped(k) ? loop_.inputs[offset_ + k] : Value{loop.def, result});
    }
    outer_.erase(loop_);
  }

  /// Moves parameters to the start of the body in order, as the text form requires.
  void order_parameters() {
    if (body_.size() == 0) return;
    Instruction* place = &*body_.begin();
    for (Value parameter : body_.parameters()) {
      if (parameter.def == place) place = place->next;
      else body_.move_before(*parameter.def, place);
    }
  }

  size_t number_before(size_t k) const {
    return std::ranges::count_if(dropped_, [&](size_t d) { return d < k; });
  }

  Module& outer_;
  Instruction& loop_;
  const Loop op_;
  Module& body_;
  size_t offset_;  // index of the first carried value among the loop's operands and the body's results
  std::set<std::string> inner_;
  std::vector<bool> invariant_, reads_outside_, moves_, is_needed_, stays_;
  std::unordered_map<const Instruction*, Value> outside_;
  std::vector<size_t> dropped_;
  Values added_;
};

}  // namespace

bool hoist_invariants(Module& module) {
  bool changed = false;
  for (Instruction& i : module) {
    for (Module* body : i.modules) changed |= hoist_invariants(*body);
    if (i.is<Loop>()) changed |= LoopHoist(module, i).run();
  }
  return changed;
}

}  // namespace weft
