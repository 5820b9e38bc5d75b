// SPDX-License-Identifier: Apache-2.0
#include "lower/regions.h"

#include <algorithm>
#include <queue>
#include <span>

#include "base/error.h"
#include "ir/control.h"
#include "ir/core_ops.h"
#include "ir/symbols.h"
#include "kernels/gpu_tasks.h"
#include "lower/families.h"
#include "lower/view.h"
#include "ops/dot.h"
#include "ops/elementwise.h"
#include "ops/indexed.h"
#include "ops/lookup.h"
#include "ops/quantize.h"
#include "ops/reduce.h"
#include "ops/views.h"

namespace weft {
namespace {

/// Returns the instruction that computes a value, looking through views.
Instruction* producer(Value value) {
  while (is_view_op(value.def->op)) value = value.def->inputs[0];
  return value.def;
}

/// Limit on a region's elementwise instructions: the time to compile a kernel grows faster than the kernel's length.
constexpr size_t max_members = 256;

using RegionId = Id<Region>;

/// The regions of a module, formed in one walk. A region merged into another stays in the list, empty.
class Grouping {
 public:
  Grouping(const Module& module, bool joins_gates)
      : module_(module),
        joins_gates_(joins_gates),
        region_of_(module.id_limit()),
        fixed_(module.id_limit()),
        widened_(module.id_limit()) {
    find_setters();
  }

  std::vector<Region> run() {
    for (Instruction& i : module_) {
      fixed_[i.id] = follows_from_constants(i, fixed_);
      if (is_leaf(i)) continue;
      widened_[i.id] = is_widened_by_reader(i);
      if (widened_[i.id] || !(is_pointwise(i) ? join(i) : join_gate(i))) start(i);
    }
    find_outputs();
    return in_order();
  }

 private:
  /// Finds, for each instruction, the instructions that set the sizes in its fields, bodies and views, as dependencies.
  void find_setters() {
    std::unordered_map<std::string, Instruction*> set_by;
    for (Instruction& i : module_) {
      for (const Dim& dim : symbols_set_by(i)) set_by[dim.as_symbol()->name] = &i;
    }
    if (set_by.empty()) return;
    setters_.resize(module_.id_limit());
    // The last instruction that set sizes. The next instruction that sets sizes depends on `last`, which keeps the
    // order of guards (ir/control.h).
    Instruction* last = nullptr;
    for (Instruction& i : module_) {
      auto& found = setters_[i.id];
      if (sets_symbols(i) && last) found.push_back({last, 0});
      if (sets_symbols(i)) last = &i;
      visit_symbols(i, [&](const Symbol& symbol) {
        auto setter = set_by.find(symbol.name);
        if (setter != set_by.end() && setter->second != &i) found.push_back({setter->second, 0});
      });
      for (const Value& input : i.inputs) {
        if (is_view_op(input.def->op)) std::ranges::copy(setters_[input.def->id], std::back_inserter(found));
      }
      std::ranges::sort(found, {}, [](const Value& v) { return v.def->id; });
      auto repeated = std::ranges::unique(found);
      found.erase(repeated.begin(), repeated.end());
    }
  }
  std::span<const Value> setters(const Instruction& i) const {
    return setters_.empty() ? std::span<const Value>() : setters_[i.id];
  }

  RegionId region_of(Value value) const { return region_of_[producer(value)->id]; }
  RegionId direct_region_of(Value value) const { return region_of_[value.def->id]; }

  bool is_open(const Region& region) const { return !region.anchor || family_of(*region.anchor).takes_epilogue; }
  bool is_plain(const Region& region) const { return !region.anchor && !region.epilogue.empty(); }

  void add(RegionId region, Instruction& i) {
    regions_[region].epilogue.push_back(&i);
    region_of_[i.id] = region;
  }

  void start(Instruction& i) {
    bool is_tensor = !i.types.empty() && i.types[0].is_tensor();
    Region region{.dims = is_tensor ? i.types[0].shape.dims : Dims{}};
    if (is_pointwise(i)) region.epilogue.push_back(&i);
    else region.anchor = &i;
    RegionId id = region_of_[i.id] = regions_.add(std::move(region));
    if (i.is<Dot>()) last_dot_ = id;
    if (family_of(i).takes_prologue) absorb_prologue(id, i);
  }

  /// Adds the product of a gate to the region of the last product, if that multiplies the same rows by another part of
  /// the same matrix. With an open number of rows, the kernel for many rows takes whole groups of four columns.
  bool join_gate(Instruction& i) {
    if (!joins_gates_ || !last_dot_ || !i.is<Dot>()) return false;
    Region& last = regions_[last_dot_];
    const Instruction &matrix = *i.inputs[1].def, &other = *last.anchor->inputs[1].def;
    bool are_parts = matrix.is<Slice>() && other.is<Slice>() && matrix.inputs == other.inputs;
    Dim rows = rows_by_matrix(i);
    const Dim& columns = last.dims.empty() ? rows : last.dims.back();
    bool are_any = rows.as_symbol() && columns.is_constant() && columns.value() % 4 == 0;
    bool are_few = are_any || (known_less_equal(1, rows) && known_less_equal(rows, tasks::ring_rows));
    if (!are_parts || !are_few || last.siblings.size() > 2 || last.dims != i.types[0].shape.dims ||
        last.anchor->inputs[0] != i.inputs[0])
      return false;
    last.siblings.push_back(&i);
    region_of_[i.id] = last_dot_;
    return true;
  }

  /// Makes a pointwise region the prologue of the anchor that reads it as its first operand.
  void absorb_prologue(RegionId id, const Instruction& anchor) {
    RegionId before = direct_region_of(anchor.inputs[0]);
    if (!before || !is_plain(regions_[before]) || regions_[before].dims != anchor.inputs[0].dims()) return;
    bool shared = std::ranges::any_of(regions_[before].epilogue,
                                      [&](Instruction* i) { return is_read_outside({i, 0}, before, &anchor); });
    if (shared && anchor.is<Reduce>()) return;  // a reduction's kernel does not store the elements that others read
    auto waits = [&](const Value& setter) { return depends(region_of(setter), before); };
    if (std::ranges::any_of(setters(anchor), waits)) return;
    regions_[id].prologue = std::move(regions_[before].epilogue);
    regions_[before] = {};
    for (Instruction* i : regions_[id].prologue) region_of_[i->id] = id;
  }

  /// True if a product reads these bytes, directly or through views; instructions that widen them join its region.
  static bool is_stored_byte(Value value) {
    bool is_byte = value.dtype() == DType::i8 || value.dtype() == DType::u8;
    return is_byte && std::ranges::any_of(value.def->users, [](const Instruction* user) {
             bool is_product = user->is<Dot>() || user->is<Convolution>();
             return is_product || (is_view_op(user->op) && is_stored_byte({const_cast<Instruction*>(user), 0}));
           });
  }

  /// True if the region's anchor runs once, at load time (sums of weights, for example), but `i` runs each time.
  bool is_settled_before(const Region& region, const Instruction& i) const {
    return region.anchor && fixed_[region.anchor->id] && !fixed_[i.id];
  }

  bool join(Instruction& i) {
    if (i.is<Convert>() && is_stored_byte(i.inputs[0])) return false;
    std::vector<RegionId> candidates;
    for (const Value& input : i.inputs) {
      RegionId id = direct_region_of(input);
      bool may_take = id && is_open(regions_[id]) && regions_[id].dims == i.types[0].shape.dims;
      if (may_take && computes(regions_[id], input) && !is_settled_before(regions_[id], i)) candidates.push_back(id);
    }
    // Prefers regions with an anchor, then regions with other readers (`i` can absorb the rest later), then the latest.
    std::ranges::sort(candidates, std::greater{},
                      [&](RegionId id) { return std::tuple(!is_plain(regions_[id]), !is_read_only_by(id, i), id); });
    for (RegionId id : candidates) {
      if (regions_[id].epilogue.size() >= max_members || !fits(id, i)) continue;
      add(id, i);
      absorb_operands(id, i);
      return true;
    }
    return false;
  }

  /// The most elementwise instructions that a walk to the origin or to the readers of a value passes.
  static constexpr int most_steps = 6;

  /// Follows a value up through at most `most_steps` elementwise functions with one operand that a kernel computes;
  /// returns the instruction where it stops.
  static const Instruction* origin(Value value) {
    const Instruction* at = producer(value);
    for (int step = 0; step < most_steps && is_pointwise(*at); ++step) {
      const Instruction* only = nullptr;
      for (const Value& input : std::span(at->inputs).first(at->is<Nearest>() ? 1 : at->inputs.size())) {
        const Instruction* from = producer(input);
        if (is_leaf(*from)) continue;
        if (only) return at;
        only = from;
      }
      if (!only) break;
      at = only;
    }
    return at;
  }

  /// True for a conversion to a wider type that its readers should do: if the result meets a value that is computed
  /// later (as in a residual connection), or if it is reduced while other instructions read the narrow value.
  bool is_widened_by_reader(const Instruction& i) const {
    const auto* op = i.as<Convert>();
    if (!op || bits(op->to) <= bits(i.inputs[0].dtype()) || !region_of(i.inputs[0])) return false;
    const Region& region = regions_[region_of(i.inputs[0])];
    bool is_late = !region.anchor && widened_[region.epilogue.front()->id];  // the readers widen its operand already
    return !is_late && is_read_late(i, i.inputs[0], most_steps);
  }

  /// True if each reader of the pointwise instruction `at`, or a reader of that reader and so on within `steps` steps,
  /// reads a value that is computed later than `narrow`, or reduces the result while others read `narrow`.
  static bool is_read_late(const Instruction& at, Value narrow, int steps) {
    constexpr size_t most_readers = 2;  // the sum and its guess (Nearest)
    auto is_later = [&](const Value& input) {
      return input.def != &at && !is_leaf(*producer(input)) && origin(input)->order > origin(narrow)->order;
    };
    auto is_late = [&](const Instruction* user) {
      if (!is_pointwise(*user)) return user->is<Reduce>() && narrow.def->users.size() > 1;
      if (user->is<Nearest>()) return false;  // the sum and its guess have the same origin
      return std::ranges::any_of(user->inputs, is_later) || is_read_late(*user, narrow, steps - 1);
    };
    bool is_read = !at.users.empty() && at.users.size() <= most_readers;
    return steps > 0 && is_read && std::ranges::all_of(at.users, is_late);
  }

  /// True if the value is the anchor's first result or computed in the epilogue; false for the prologue.
  static bool computes(const Region& region, Value value) {
    auto contains = [&](const auto& list) { return std::ranges::find(list, value.def) != list.end(); };
    return value.def == region.anchor ? value.index == 0 : contains(region.epilogue) || contains(region.siblings);
  }

  bool fits(RegionId id, const Instruction& i) {
    auto waits = [&](const Value& setter) { return depends(region_of(setter), id); };
    if (std::ranges::any_of(setters(i), waits)) return false;
    return std::ranges::all_of(i.inputs, [&](const Value& input) {
      bool inside = direct_region_of(input) == id && computes(regions_[id], input);
      return inside || !depends(region_of(input), id);
    });
  }

  /// Merges pointwise regions that only `i` reads into the region of `i`.
  void absorb_operands(RegionId id, const Instruction& i) {
    for (const Value& input : i.inputs) {
      RegionId other = direct_region_of(input);
      if (!other || other == id || !is_plain(regions_[other]) || regions_[other].dims != regions_[id].dims) continue;
      if (regions_[other].epilogue.size() + regions_[id].epilogue.size() > max_members) continue;
      if (is_read_only_by(other, i) && !depends(other, id)) merge(other, id);
    }
  }

  /// True if nothing but `i` reads values of region `id`, which has no anchor.
  bool is_read_only_by(RegionId id, const Instruction& i) {
    return std::ranges::all_of(regions_[id].epilogue, [&](Instruction* member) {
      auto is_inside = [&](const Instruction* user) { return user == &i || region_of_[user->id] == id; };
      return std::ranges::all_of(member->users, is_inside) && !module_.is_result({member, 0});
    });
  }

  void merge(RegionId from, RegionId into) {
    auto& members = regions_[into].epilogue;
    for (Instruction* i : regions_[from].epilogue) {
      region_of_[i->id] = into;
      members.push_back(i);
    }
    std::ranges::sort(members, {}, &Instruction::order);
    regions_[from] = {};
  }

  /// True if region `from` depends on region `target`, or if the search passes its limit of regions.
  bool depends(RegionId from, RegionId target) {
    constexpr size_t limit = 200;
    std::vector<RegionId> stack{from}, seen{from};
    while (!stack.empty()) {
      RegionId id = stack.back();
      stack.pop_back();
      if (!id) continue;
      if (id == target || seen.size() > limit) return true;
      for_each_operand(regions_[id], [&](Value input) {
        RegionId next = region_of(input);
        if (next == id || !next || is_older(next, target) || std::ranges::find(seen, next) != seen.end()) return;
        seen.push_back(next);
        stack.push_back(next);
      });
    }
    return false;
  }

  /// True if all of `id` precedes the first instruction of `target`; then `id` cannot depend on `target`.
  bool is_older(RegionId id, RegionId target) { return last_order(regions_[id]) < first_order(regions_[target]); }

  static int64_t first_order(const Region& r) {
    const Instruction* first = !r.prologue.empty() ? r.prologue.front() : r.anchor ? r.anchor : r.epilogue.front();
    return first->order;
  }
  static int64_t last_order(const Region& r) {
    if (!r.epilogue.empty()) return std::max(r.epilogue.back()->order, r.anchor ? r.anchor->order : 0);
    return r.anchor ? r.anchor->order : 0;
  }

  template <class Visit>
  void for_each_operand(const Region& region, const Visit& visit) const {
    for_each_member(region, [&](const Instruction& i) {
      for (const Value& input : i.inputs) visit(input);
      for (const Value& setter : setters(i)) visit(setter);
    });
  }

  bool is_read_outside(Value value, RegionId id, const Instruction* except = nullptr) const {
    if (module_.is_result(value)) return true;
    for (const Instruction* user : value.def->users) {
      bool reads = std::ranges::find(user->inputs, value) != user->inputs.end();
      if (reads && user != except && region_of_[user->id] != id) return true;
    }
    return false;
  }

  void find_outputs() {
    for (RegionId id : regions_.ids()) {
      Region& r = regions_[id];
      for_each_member(r, [&](Instruction& i) {
        bool whole = &i == r.anchor && r.epilogue.empty();  // without epilogue, an anchor writes all its results
        for (uint32_t index = 0; index < i.types.size(); ++index) {
          Value value{&i, index};
          if (whole || is_read_outside(value, id)) r.outputs.push_back(value);
        }
      });
    }
  }

  /// Sorts regions topologically (Kahn's algorithm); among ready regions the earliest in the program comes first.
  std::vector<Region> in_order() {
    Table<std::vector<RegionId>, RegionId> readers(regions_.size());
    Table<size_t, RegionId> waiting(regions_.size());
    for (RegionId id : regions_.ids()) {
      std::vector<RegionId> needed;
      for_each_operand(regions_[id], [&](Value input) {
        RegionId before = region_of(input);
        if (before && before != id) needed.push_back(before);
      });
      std::ranges::sort(needed);
      auto repeated = std::ranges::unique(needed);
      needed.erase(repeated.begin(), repeated.end());
      waiting[id] = needed.size();
      for (RegionId before : needed) readers[before].push_back(id);
    }
    std::priority_queue<std::pair<int64_t, RegionId>, std::vector<std::pair<int64_t, RegionId>>, std::greater<>> ready;
    auto push = [&](RegionId id) {
      const Region& r = regions_[id];
      bool empty = !r.anchor && r.epilogue.empty();
      ready.emplace(empty ? 0 : last_order(r), id);
    };
    for (RegionId id : regions_.ids()) {
      if (waiting[id] == 0) push(id);
    }
    std::vector<Region> ordered;
    size_t done = 0;
    for (; !ready.empty(); ++done) {
      RegionId id = ready.top().second;
      ready.pop();
      for (RegionId reader : readers[id]) {
        if (--waiting[reader] == 0) push(reader);
      }
      if (regions_[id].anchor || !regions_[id].epilogue.empty()) ordered.push_back(std::move(regions_[id]));
    }
    check(done == regions_.size(), "regions depend on each other without a cycle");
    return ordered;
  }

  const Module& module_;
  bool joins_gates_;
  std::vector<std::vector<Value>> setters_;  // by instruction; empty if sizes are known before the run
  std::vector<RegionId> region_of_;
  std::vector<bool> fixed_;    ///< by instruction: it depends on constants only
  std::vector<bool> widened_;  // by id: see is_widened_by_reader
  Table<Region> regions_;
  RegionId last_dot_;  ///< the latest region of a product
};

}  // namespace

bool is_pointwise(const Instruction& i) {
  return i.is<Elementwise>() || i.is<Convert>() || i.is<Bitcast>() || i.is<Lookup>() || i.is<Nearest>();
}

void erase_empty(std::vector<Region>& regions) {
  std::erase_if(regions, [](const Region& r) { return !r.anchor && r.epilogue.empty(); });
}

bool is_leaf(const Instruction& i) { return i.is<Parameter>() || i.is<Constant>() || is_view_op(i.op); }

std::vector<Region> form_regions(const Module& module, bool joins_gates) { return Grouping(module, joins_gates).run(); }

}  // namespace weft
