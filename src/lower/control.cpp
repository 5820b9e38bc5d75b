// SPDX-License-Identifier: Apache-2.0
// Lowers control flow to branches and jumps in one list of steps; docs/control_flow.md shows an example.
//
// A symbol n that several steps would set (both branches, or each trip) gets a second name n' that these steps set;
// then one step sets n from n'. So only one step sets each symbol n.
#include "ir/control.h"

#include <algorithm>
#include <cmath>

#include "ir/core_ops.h"
#include "lower/fused_body.h"
#include "lower/lowering.h"
#include "ops/elementwise.h"
#include "ops/views.h"

namespace weft {
namespace {

Symbol waiting(const Dim& symbol) { return {.name = symbol.as_symbol()->name + "'", .min = INT64_MIN}; }

SizeSetting set(const Symbol& symbol, const Dim& value) { return {.symbol = symbol, .value = value}; }
/// Returns the setting n := n'.
SizeSetting take(const Dim& symbol) { return set(*symbol.as_symbol(), Dim::symbol(waiting(symbol))); }

bool contains(const Dims& symbols, const Dim& dim) { return std::ranges::find(symbols, dim) != symbols.end(); }
bool contains_any(const Dims& symbols, const Dims& dims) {
  return std::ranges::any_of(dims, [&](const Dim& dim) { return contains(symbols, dim); });
}

/// For each size of `type` that is a symbol n of `symbols`, appends the setting n' := the same size of `from`.
void add_settings(std::vector<SizeSetting>& out, const Dims& symbols, const Dims& type, const Dims& from) {
  for (size_t a = 0; a < type.size(); ++a) {
    if (contains(symbols, type[a])) out.push_back(set(waiting(type[a]), from[a]));
  }
}

/// Returns the views of a body's operands; operands that need a copy are copied here, before the body begins. Also
/// records which of the body's parameters are known at load time.
std::vector<View> views_of(Lowering& lowering, const Module& body, std::span<const Value> operands) {
  std::vector<View> views;
  for (size_t i = 0; i < operands.size(); ++i) {
    views.push_back(lowering.view_of(operands[i]));
    lowering.set_load_time(body.parameters()[i], lowering.is_load_time(operands[i]));
  }
  return views;
}

/// Lowers one body of an If. Results with a size that the If sets are written to the branch's own buffers, which are
/// then swapped with the If's.
void lower_branch(Lowering& lowering, const Instruction& i, size_t which, const std::vector<View>& views,
                  const std::vector<BufferId>& targets) {
  const Module& body = *i.modules[which];
  const Dims& sets = i.as<If>()->sets;
  std::vector<BufferId> slots = targets, swaps;
  std::vector<SizeSetting> settings;
  for (size_t k = 0; k < targets.size(); ++k) {
    Value result = body.results()[k].value;
    const Dims& dims = i.types[k].shape.dims;
    if (!contains_any(sets, dims)) continue;
    slots[k] = lowering.new_working_buffer(result.shape(), result.source());
    swaps.insert(swaps.end(), {targets[k], slots[k]});
    add_settings(settings, sets, dims, result.dims());
  }
  lowering.set_sizes({}, lowering.guards().on_entry(body));
  lowering.lower_body(body, views, slots);
  lowering.set_sizes(std::move(settings), {});
  if (!swaps.empty()) lowering.add_control({.action = SwapStep{}, .buffers = swaps, .reason = "results of the branch"});
}

/// The lowering of one loop: buffers of carried values, before and after a trip, and of stacked rows (scan outputs).
class LoopLowering {
 public:
  LoopLowering(Lowering& lowering, Instruction& i)
      : lowering_(lowering),
        i_(i),
        op_(*i.as<Loop>()),
        body_(*i.modules[0]),
        operands_(body_operands(i, 0)),
        first_(op_.conditional ? 1 : 0),
        carried_(op_.carried) {}

  void run() {
    views_ = views_of(lowering_, body_, operands_);
    begin();
    StepId head = lowering_.next_step();
    std::vector<StepId> exits = branches();
    trip();
    lowering_.add_control({.action = JumpStep{head}, .reason = "next trip"});
    for (StepId branch : exits) lowering_.end_jump(branch);
    end();
  }

 private:
  Value result(size_t k) const { return body_.results()[first_ + k].value; }
  const Dims& dims(size_t k) const { return i_.types[k].shape.dims; }
  size_t rows() const { return i_.types.size() - carried_; }
  /// True if the stacked rows need memory that grows, because their number or size is unknown before the first trip.
  bool is_open(size_t k) const { return op_.conditional || contains_any(op_.sets, dims(k)); }
  bool is_passed_on(size_t k) const { return result(k) == body_.parameters()[k]; }
  Dim number() const { return Dim::symbol(waiting(op_.counter)); }

  void copy_to(BufferId buffer, Value value) {
    lowering_.copy_into(value, contiguous_view(buffer, value.type().shape), "initial value of a loop-carried value");
  }

  /// Adds the steps before the first trip.
  void begin() {
    settings_ = {set(waiting(op_.counter), 0)};
    std::vector<BufferId> stacked;
    if (op_.conditional) {
      copy_to(carry(i_.inputs[0].type(), body_.results()[0].value), i_.inputs[0]);
      slots_.push_back(swaps_.back());
    }
    for (size_t k = 0; k < carried_; ++k) {
      BufferId now = carry(operands_[k].type(), result(k));
      copy_to(now, operands_[k]);
      slots_.push_back(swaps_.back());
      if (is_passed_on(k)) {
        slots_.back() = {};
        swaps_.resize(swaps_.size() - 2);
      }
      views_[k] = contiguous_view(now, body_.parameters()[k].type().shape);
      lowering_.set_load_time(body_.parameters()[k], false);
      lowering_.set_view({&i_, static_cast<uint32_t>(k)}, contiguous_view(now, i_.types[k].shape));
      add_settings(settings_, op_.carries, body_.parameters()[k].type().shape.dims, operands_[k].type().shape.dims);
    }
    for (size_t k = carried_; k < i_.types.size(); ++k) stacked.push_back(begin_rows(k));
    lowering_.set_sizes(std::move(settings_), {}, std::move(stacked));
  }

  /// Adds two buffers for a carried value, before and after the trip; returns the first.
  BufferId carry(const Type& now, Value next) {
    swaps_.push_back(lowering_.new_working_buffer(now, next.source()));
    swaps_.push_back(lowering_.new_working_buffer(next.type(), next.source()));
    return swaps_[swaps_.size() - 2];
  }

  BufferId begin_rows(size_t k) {
    Value stack{&i_, static_cast<uint32_t>(k)};
    slots_.emplace_back();
    if (!is_open(k)) {
      rows_.push_back(lowering_.new_result(stack).buffer);
      return rows_.back();
    }
    Shape so_far = result(k).shape();
    so_far.dims.insert(so_far.dims.begin(), op_.counter + 1);
    rows_.push_back(lowering_.new_working_buffer(so_far, i_.source));
    lowering_.plan().buffers[rows_.back()].kind = BufferKind::dynamic;
    lowering_.set_view(stack, contiguous_view(rows_.back(), stack.shape()));
    for (size_t a = 1; a < dims(k).size(); ++a) {
      if (contains(op_.sets, dims(k)[a])) settings_.push_back(set(waiting(dims(k)[a]), 0));
    }
    return rows_.back();
  }

  /// Adds the branches that leave the loop when all trips are made or the condition is false.
  std::vector<StepId> branches() {
    std::vector<StepId> steps;
    if (op_.trips != Dim(INT64_MAX)) {
      steps.push_back(lowering_.add_control({.action = BranchStep{op_.trips - number()}, .reason = "trips are left"}));
    }
    if (op_.conditional) {
      steps.push_back(
          lowering_.add_control({.action = BranchStep{}, .buffers = {swaps_[0]}, .reason = "the loop goes on"}));
    }
    return steps;
  }

  void trip() {
    std::vector<SizeSetting> settings = {take(op_.counter)};
    for (const Dim& symbol : op_.carries) settings.push_back(take(symbol));
    lowering_.set_sizes(std::move(settings), lowering_.guards().on_entry(body_));
    if (lowering_.on_gpu()) ask_for_rows();
    lowering_.lower_body(body_, views_, slots_);
    for (size_t k = 0; k < rows(); ++k) add_row(carried_ + k, rows_[k]);
    settings = {set(waiting(op_.counter), op_.counter + 1)};
    for (size_t k = 0; k < carried_; ++k)
      add_settings(settings, op_.carries, body_.parameters()[k].type().shape.dims, result(k).type().shape.dims);
    lowering_.set_sizes(std::move(settings), {});
    if (!swaps_.empty())
      lowering_.add_control({.action = SwapStep{}, .buffers = swaps_, .reason = "carried to the next trip"});
  }

  /// Asks the kernels that compute rows of known sizes to store them among the rows as well, which saves a copy.
  void ask_for_rows() {
    for (size_t k = carried_; k < i_.types.size(); ++k) {
      const Instruction& i = *result(k).def;
      bool may_ask = !is_open(k) && result(k).index == 0 && i.parent == &body_;
      asked_.push_back(may_ask && lowering_.store_also(i, row_view(k)));
    }
  }

  /// The view of this trip's row, where the memory of all rows is known before the loop.
  View row_view(size_t k) const {
    View to = contiguous_view(rows_[k - carried_], result(k).shape());
    to.offset = op_.counter * result(k).shape().elements();
    return to;
  }

  void add_row(size_t k, BufferId buffer) {
    Value row = result(k);
    if (!asked_.empty() && asked_[k - carried_] && lowering_.is_stored_also(*row.def)) return;
    std::vector<SizeSetting> settings;
    std::vector<SizeCheck> checks;
    for (size_t a = 1; a < dims(k).size(); ++a) {
      if (!contains(op_.sets, dims(k)[a])) continue;
      // From the second trip on, checks that each row has the size of the row before.
      Dim differs = row.dims()[a - 1] - Dim::symbol(waiting(dims(k)[a]));
      checks.push_back({true, min(op_.counter, 1) * differs, 0, row.source(), "rows of a loop differ in size"});
      settings.push_back(set(waiting(dims(k)[a]), row.dims()[a - 1]));
    }
    if (!checks.empty())
      lowering_.add_control({.action = SizesStep{.checks = std::move(checks)}, .reason = "rows are alike"});
    lowering_.set_sizes(std::move(settings), {});
    Shape shape = row.shape();
    if (is_open(k)) {
      shape.dims.insert(shape.dims.begin(), op_.counter + 1);
      lowering_.add_control({.action = GrowStep{bytes_of(shape)}, .buffers = {buffer}, .reason = "room for a row"});
    }
    lowering_.copy_into(row, row_view(k), "a row of the loop's result");
  }

  /// Adds the steps after the last trip.
  void end() {
    std::vector<SizeSetting> settings;
    if (op_.conditional) settings.push_back(set(*op_.count.as_symbol(), number()));
    for (size_t k = 0; k < carried_; ++k) {
      for (size_t a = 0; a < dims(k).size(); ++a) {
        if (contains(op_.sets, dims(k)[a]))
          settings.push_back(
              set(*dims(k)[a].as_symbol(), Dim::symbol(waiting(body_.parameters()[k].type().shape.dims[a]))));
      }
    }
    for (size_t k = carried_; k < i_.types.size(); ++k) {
      for (size_t a = 1; a < dims(k).size(); ++a) {
        if (contains(op_.sets, dims(k)[a])) settings.push_back(take(dims(k)[a]));
      }
    }
    lowering_.set_sizes(std::move(settings), lowering_.guards().after(i_), swaps_);
    if (lowering_.plan().steps.back().is<JumpStep>())  // lifetimes of a loop's buffers end at the step after the loop
      lowering_.add_control({.action = SizesStep{}, .reason = "the loop is left"});
  }

  Lowering& lowering_;
  Instruction& i_;
  const Loop& op_;
  const Module& body_;
  std::span<const Value> operands_;
  size_t first_, carried_;  // number of results of the body before the carried values; number of carried values
  std::vector<View> views_;
  std::vector<BufferId> slots_, swaps_, rows_;
  std::vector<bool> asked_;  // for each stack of rows: a kernel may store the row; empty on CPUs
  std::vector<SizeSetting> settings_;
};

}  // namespace

/// Returns the integer input of the program whose elements `value` has, if there is one.
static Value as_input(Value value) {
  auto is_number = [&] { return value.dtype() == DType::i32 || value.dtype() == DType::i64; };
  while (is_number() && (value.def->is<Convert>() || value.def->is<Reshape>())) value = value.def->inputs[0];
  bool is_input = value.def->is<Parameter>() && value.def->parent == &value.def->parent->program().main();
  return is_input && is_number() ? value : Value{};
}

Value input_bound_by(const Instruction& i) { return i.is<Bind>() ? as_input(i.inputs[0]) : Value{}; }

/// If an If of the main module compares an integer input with a small number, lets the host read the input, and returns
/// an amount that is above 0 if they are equal. A run then reads back nothing that it computes, and may be captured.
static std::optional<Dim> as_amount(Lowering& lowering, const Instruction& i) {
  auto reshaped = [](Value value) {
    while (value.def->is<Reshape>()) value = value.def->inputs[0];
    return value;
  };
  const Instruction& test = *reshaped(i.inputs[0]).def;
  const auto* op = test.as<Elementwise>();
  bool may_read = lowering.on_gpu() && op && op->fn == Fn::equal && i.parent == &i.parent->program().main();
  for (size_t k = 0; may_read && k < 2; ++k) {
    Value input = reshaped(test.inputs[k]);
    std::optional<double> number = splat_of(test.inputs[1 - k]);
    if (as_input(input) != input || !number || std::abs(*number) > 1 << 30) continue;
    Symbol read{.name = cat("input ", input.def->as<Parameter>()->parameter), .min = INT64_MIN};
    lowering.set_sizes({{.symbol = read, .buffer = lowering.view_of(input).buffer}}, {});
    Dim n = static_cast<int64_t>(*number), differs = min(max(Dim::symbol(read), n - 1), n + 1) - n;
    return 1 - max(differs, -1 * differs);
  }
  return std::nullopt;
}

void lower_bind(Lowering& lowering, const Region& region) {
  const Instruction& i = *region.anchor;
  const auto& op = *i.as<Bind>();
  Value input = lowering.on_gpu() ? input_bound_by(i) : Value{};
  BufferId buffer = input ? lowering.view_of(input).buffer : lowering.whole_view_of(i.inputs[0]).buffer;
  std::vector<SizeSetting> settings;
  for (size_t k = 0; k < op.symbols.size(); ++k) {
    settings.push_back({.symbol = *op.symbols[k].as_symbol(),
                        .buffer = buffer,
                        .element = static_cast<int>(k),
                        .most = op.most.empty() ? Dim(INT64_MAX) : op.most[k]});
  }
  lowering.set_sizes(std::move(settings), lowering.guards().after(i));
}

void lower_if(Lowering& lowering, const Region& region) {
  Instruction& i = *region.anchor;
  const auto& op = *i.as<If>();
  std::vector<View> yes = views_of(lowering, *i.modules[0], body_operands(i, 0)),
                    no = views_of(lowering, *i.modules[1], body_operands(i, 1));
  std::optional<Dim> amount = as_amount(lowering, i);
  std::vector<BufferId> condition, targets;
  if (!amount) condition.push_back(lowering.whole_view_of(i.inputs[0]).buffer);
  for (uint32_t k = 0; k < i.types.size(); ++k) {
    bool is_open = contains_any(op.sets, i.types[k].shape.dims);
    BufferId buffer =
        is_open ? lowering.new_working_buffer(i.types[k].shape, i.source) : lowering.new_result({&i, k}).buffer;
    if (is_open) lowering.set_view({&i, k}, contiguous_view(buffer, i.types[k].shape));
    targets.push_back(buffer);
  }
  StepId branch = lowering.add_control(
      {.action = BranchStep{amount.value_or(0)}, .buffers = std::move(condition), .reason = "which branch"});
  lower_branch(lowering, i, 0, yes, targets);
  StepId jump = lowering.add_control({.action = JumpStep{}, .reason = "the branch is done"});
  lowering.end_jump(branch);
  lower_branch(lowering, i, 1, no, targets);
  lowering.end_jump(jump);
  std::vector<SizeSetting> settings;
  for (const Dim& symbol : op.sets) settings.push_back(take(symbol));
  lowering.set_sizes(std::move(settings), lowering.guards().after(i));
}

void lower_loop(Lowering& lowering, const Region& region) { LoopLowering(lowering, *region.anchor).run(); }

}  // namespace weft
