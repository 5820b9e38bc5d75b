// SPDX-License-Identifier: Apache-2.0
#include "lower/lowering.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/glob.h"
#include "base/knobs.h"
#include "base/watch.h"
#include "ir/core_ops.h"
#include "ir/symbols.h"
#include "kernels/mailbox.h"
#include "lower/collective.h"
#include "lower/gpu/constant_sizes.h"
#include "lower/gpu/gemv.h"
#include "lower/gpu/merge_launches.h"
#include "lower/lower.h"
#include "ops/dot.h"
#include "ops/host.h"
#include "ops/indexed.h"
#include "ops/views.h"

namespace weft {
namespace {

/// Names the model's nodes that a region computes: "node 3 '/conv1/Conv' (Conv) .. node 5 'r' (Relu)".
std::string source_of(const Region& region) {
  const Instruction* first = !region.prologue.empty() ? region.prologue.front()
                             : region.anchor          ? region.anchor
                                                      : region.epilogue.front();
  const Instruction* last = region.epilogue.empty() ? region.anchor : region.epilogue.back();
  return first->source == last->source ? first->source : cat(first->source, " .. ", last->source);
}

/// Returns the value that reshapes made `value` from, or `value` itself if no reshape did.
Value behind_reshapes(Value value) {
  while (value.def->is<Reshape>()) value = value.def->inputs[0];
  return value;
}

}  // namespace

Dim bytes_of(const Shape& shape) {
  if (shape.dtype == DType::string) return shape.elements() * Dim(8);
  int width = bits(shape.dtype);
  return width >= 8 ? shape.elements() * Dim(width / 8) : ceildiv(shape.elements() * Dim(width), 8);
}

static Dim bytes_of(const Type& type) { return type.is_tensor() ? bytes_of(type.shape) : Dim(0); }

static std::set<std::string> symbols_set_in(const Program& program) {
  std::set<std::string> names;
  for (const auto& module : program.modules()) {
    for (const Instruction& i : *module) {
      for (const Dim& dim : symbols_set_by(i)) names.insert(dim.as_symbol()->name);
      for (const Dim& dim : symbols_of_bodies(i)) names.insert(dim.as_symbol()->name);
    }
  }
  return names;
}

/// True if the host sets sizes between two steps of a GPU, so that some sizes are unknown before the run.
static bool needs_host(const Program& program) {
  bool needs = false;
  for (const auto& module : program.modules()) {
    for (const Instruction& i : *module) needs |= sets_symbols(i) && !input_bound_by(i);
  }
  return needs;
}

static SizeCheck size_check(const Guard& g) { return {g.kind == Guard::Kind::equal, g.a, g.b, g.source, g.what}; }

LoweredProgram::LoweredProgram(const Program& from, const Chip& target, LowerOptions wanted)
    : program(from), chip(target), options(std::move(wanted)), overflowing(options.storage), guards(from) {
  plan.chip = chip;
  plan.program = from.name;
  plan.metadata = from.metadata;
  if (is_cpu(chip.kind) || needs_host(from)) pending = run_time = symbols_set_in(from);
  for (const Guard* guard : guards.on_entry(from.main())) plan.checks.push_back(size_check(*guard));
}

tasks::GemmTile Lowering::tile() const {
  if (on_gpu()) return {.lanes = tasks::gpu_lanes};
  if (has_feature(all_.chip, "avx512f")) return tasks::avx512_tile;
  return all_.chip.kind == ChipKind::arm ? tasks::neon_tile : tasks::avx2_tile;
}

int Lowering::compute_units() const {
  return all_.options.compute_units ? all_.options.compute_units : gpu().compute_units;
}

int Lowering::lanes_for(int widest_bits) const {
  if (on_gpu()) return std::clamp(tasks::vector_bits / widest_bits, 2, 8);
  return widest_bits > 32 ? tile().lanes : 2 * tile().lanes;
}

void Lowering::set_loop(KernelBuilder& kernel, const Dims& rows, const Dim& cols, int lanes) const {
  constexpr int threads = tasks::block_threads;
  if (on_gpu()) return kernel.set_grid(ceildiv(product(rows) * ceildiv(cols, lanes), threads), threads);
  std::string text = "1";
  for (const Dim& size : rows) text += cat(" * ", kernel.size(size));
  kernel.set_tasks(cat("tasks::pointwise_tasks(", text, ", ", kernel.size(cols), ", ", lanes, ")"));
}

void Lowering::set_items(KernelBuilder& kernel, const Dim& count, std::string cpu_tasks) const {
  constexpr int threads = tasks::block_threads;
  if (on_gpu()) kernel.set_grid(ceildiv(count, threads), threads);
  else kernel.set_tasks(std::move(cpu_tasks));
}

void Lowering::lower_program() {
  const Module& main = all_.program.main();
  bind_parameters(main);
  lower_module(main, output_buffers(main));
}

void Lowering::lower_module(const Module& module, const std::vector<BufferId>& slots) {
  for (BufferId slot : slots) all_.written.erase(slot);
  choose_slots(module, slots);
  if (all_.options.storage != DType::f32) all_.overflowing.add(module);
  std::vector<Region> regions = form_regions(module, on_gpu());
  if (on_gpu()) {
    extend_sums(*this, regions);
    join_twins(*this, regions);
    take_norms(*this, regions);
  }
  for (const Region& region : regions) {
    check_watch();
    Lowering(all_, region).lower(region);
  }
  write_results(module, slots);
}

BufferId Lowering::mailbox() {
  constexpr auto bytes = static_cast<int64_t>(sizeof(Mailbox));  // the runtime adds a pointer for each further rank
  if (!all_.mailbox)
    all_.mailbox = new_buffer({.kind = BufferKind::mailbox, .shape = {DType::u8, {bytes}}, .bytes = bytes});
  return all_.mailbox;
}

void Lowering::bind_parameters(const Module& main) {
  for (const Value& parameter : main.parameters()) {
    const std::string& name = parameter.def->as<Parameter>()->parameter;
    int index = static_cast<int>(all_.plan.inputs.size());
    all_.plan.inputs.push_back({name, parameter.type()});
    const auto& defaults = all_.program.defaults;
    if (auto found = defaults.find(name); found != defaults.end())
      all_.plan.inputs.back().default_value = found->second;
    const Shape& shape = parameter.type().shape;
    BufferId buffer = new_buffer({.kind = BufferKind::input,
                                  .index = index,
                                  .shape = shape,
                                  .bytes = bytes_of(parameter.type()),
                                  .value = name});
    all_.views[parameter.def] = {unpacked(contiguous_view(buffer, shape), parameter, false)};
    all_.load_time[parameter.def] = false;
  }
}

std::vector<BufferId> Lowering::output_buffers(const Module& main) {
  std::vector<BufferId> buffers;
  for (const Result& result : main.results()) {
    int index = static_cast<int>(all_.plan.outputs.size());
    all_.plan.outputs.push_back({result.name, result.value.type()});
    buffers.push_back(new_buffer({.kind = BufferKind::output,
                                  .index = index,
                                  .shape = result.value.type().shape,
                                  .bytes = bytes_of(result.value.type()),
                                  .value = result.name}));
  }
  return buffers;
}

/// Makes regions write results directly to output buffers; a value that is several results uses the first buffer.
void Lowering::choose_slots(const Module& module, const std::vector<BufferId>& slots) {
  for (size_t i = 0; i < slots.size(); ++i) {
    Value value = behind_reshapes(module.results()[i].value);
    bool is_placed = value.type().is_tensor() ? !is_packed_type(value.dtype()) : on_gpu();
    if (!slots[i] || is_leaf(*value.def) || !is_placed) continue;
    auto& chosen = all_.slots[value.def];
    chosen.resize(value.def->types.size());
    if (!chosen[value.index]) chosen[value.index] = slots[i];
  }
}

BufferId Lowering::slot_of(Value value) const {
  auto found = all_.slots.find(value.def);
  if (found == all_.slots.end() || !found->second[value.index]) return {};
  BufferId slot = found->second[value.index];
  // The value before a reshape may be computed before the step that sets the output's sizes.
  const Dims& sizes = all_.plan.buffers[slot].shape.dims;
  return std::ranges::all_of(sizes, [&](const Dim& size) { return has_value(size); }) ? slot : BufferId();
}

bool Lowering::is_load_time(Value value) const {
  while (is_view_op(value.def->op)) {
    if (value.def->is<Slice>() && has_symbols(value.def->op)) return false;
    value = value.def->inputs[0];
  }
  if (value.def->is<Constant>()) return true;
  auto found = all_.load_time.find(value.def);
  return found != all_.load_time.end() && found->second;
}

View Lowering::stored_view_of(Value value) {
  auto [entry, is_new] = all_.stored.try_emplace(value.def);
  if (!is_new) return entry->second;
  const Tensor& tensor = value.def->as<Constant>()->tensor;
  int index = static_cast<int>(all_.plan.constants.size());
  if (tensor.dtype != DType::string) all_.plan.constants.push_back(tensor);
  else
    all_.plan.constants.push_back(
        make_tensor(DType::i64, tensor.dims, std::span<const int64_t>(all_.strings.encode(*tensor.strings))));
  BufferId buffer = new_buffer({.kind = BufferKind::constant,
                                .index = index,
                                .shape = value.shape(),
                                .bytes = bytes_of(value.shape()),
                                .value = value.source()});
  return entry->second = contiguous_view(buffer, value.shape());
}

/// Unpacks elements of fewer than 8 bits to one byte each; other types are returned unchanged.
View Lowering::unpacked(const View& packed, Value value, bool load_time) {
  if (!is_packed_type(packed.dtype)) return packed;
  DType wide = compute_type(packed.dtype);
  Dim count = product(packed.dims);
  View to = new_packed(wide, count, load_time, cat("unpacked ", value.source()));
  KernelBuilder kernel("unpack.h");
  std::string from = kernel.buffer(packed.buffer, DType::u8, false), out = kernel.buffer(to.buffer, wide, true);
  kernel.line("unpack<", bits(packed.dtype), ">(WEFT_LAUNCH, ", kernel.size(count), ", ", from, ", ", out, ");");
  set_items(kernel, ceildiv(count, tasks::unpack_thread),
            cat("tasks::ceil_div(", kernel.size(count), ", unpack_chunk)"));
  PlanStep step = kernel.finish(all_.plan, cat("unpack_", packed.dtype));
  step.source = value.source();
  add_step(std::move(step), "unpacks elements narrower than a byte", load_time);
  return contiguous_view(shared(to).buffer, {wide, packed.dims});
}

/// Packs bytes into an output whose elements have fewer than 8 bits.
void Lowering::pack(const View& wide, BufferId output, Value value) {
  DType type = value.dtype();
  Dim count = product(wide.dims);
  KernelBuilder kernel("unpack.h");
  std::string from = kernel.buffer(wide.buffer, wide.dtype, false), to = kernel.buffer(output, DType::u8, true);
  kernel.line("pack<", bits(type), ">(WEFT_LAUNCH, ", kernel.size(count), ", ", from, " + ", kernel.size(wide.offset),
              ", ", to, ");");
  set_items(kernel, ceildiv(count, tasks::unpack_thread),
            cat("tasks::ceil_div(", kernel.size(count), ", unpack_chunk)"));
  PlanStep step = kernel.finish(all_.plan, cat("pack_", type));
  step.source = value.source();
  add_step(std::move(step), "packs elements narrower than a byte", false);
}

/// For checked kernels, gives axes of size 1 an absurd stride, to find kernels that use the stride of such an axis.
static void poison_strides(View& view) {
  constexpr int64_t absurd = int64_t{3} << 16;
  for (size_t axis = 0; axis < view.dims.size(); ++axis) {
    if (known_equal(view.dims[axis], 1)) view.strides[axis] = absurd;
  }
}

/// Finds the view by walking up the chain of view operators and down again; recursion could overflow the stack.
View Lowering::view_of(Value value) {
  std::vector<const Instruction*> chain;
  for (; !all_.views.contains(value.def) && !value.def->is<Constant>(); value = value.def->inputs[0]) {
    check(is_view_op(value.def->op), "an operand is computed before its reader");
    chain.push_back(value.def);
  }
  if (!all_.views.contains(value.def)) {
    View constant = unpacked(stored_view_of(value), value, true);
    all_.views[value.def] = {constant};
  }
  View view = all_.views.at(value.def).at(value.index);
  for (; !chain.empty(); chain.pop_back()) {
    const Instruction& i = *chain.back();
    auto next = apply_view(view, i);
    if (!next) next = apply_view(copy_of(view, i.inputs[0], "strides cannot express this view"), i);
    view = *next;
    if (knobs().checked) poison_strides(view);
    all_.views[&i] = {view};
  }
  return view;
}

View Lowering::whole_view_of(Value value) {
  View view = view_of(value);
  return !value.type().is_tensor() || is_whole(view) ? view : copy_of(view, value, "it is read by the host");
}

View Lowering::contiguous_view_of(Value value) {
  View view = view_of(value);
  if (!is_contiguous(view)) return copy_of(view, value, "its reader needs elements in row-major order");
  view.strides = contiguous_strides(view.dims);  // strides of axes of size 1 are arbitrary
  return view;
}

View Lowering::copy_of(const View& from, Value value, const std::string& reason, std::optional<DType> type,
                       int64_t align) {
  bool load_time = is_load_time(value) && is_fixed(from);
  Shape shape{type.value_or(from.dtype), from.dims};
  if (align > 1) shape.dims.back() = ceildiv(shape.dims.back(), align) * align;
  BufferId buffer = new_buffer({.kind = load_time ? BufferKind::persistent : BufferKind::arena,
                                .shape = shape,
                                .bytes = bytes_of(shape),
                                .value = cat("copy of ", value.source())});
  View to = contiguous_view(buffer, shape);
  to.dims = from.dims;
  copy(from, to, value, reason, load_time);
  return shared(to);
}

View Lowering::distinct_copy_of(Value value, const std::string& reason) {
  View view = view_of(value), distinct = view;
  for (size_t axis = 0; axis < view.dims.size(); ++axis) {
    if (known_equal(view.strides[axis], 0)) distinct.dims[axis] = 1;
  }
  View copy = copy_of(distinct, value, reason);
  for (size_t axis = 0; axis < view.dims.size(); ++axis) {
    if (known_equal(view.strides[axis], 0)) copy.strides[axis] = 0;
  }
  copy.dims = view.dims;
  return copy;
}

/// True if two views of different buffers have the same type, offset and strides (of axes larger than 1).
static bool is_same_place(const View& a, const View& b) {
  bool same = a.dtype == b.dtype && a.buffer != b.buffer && known_equal(a.offset, b.offset);
  for (size_t i = 0; same && i < a.dims.size(); ++i)
    same = known_equal(a.dims[i], 1) || known_equal(a.strides[i], b.strides[i]);
  return same;
}

void Lowering::copy(const View& from, const View& to, Value value, const std::string& reason, bool load_time) {
  if (!value.type().is_tensor() || (on_gpu() && is_text(value.type())))
    return add_host_step({.action = HostStep{{.fn = HostFn::same}}, .reason = reason}, {from}, {to});
  KernelBuilder kernel("pointwise.h");
  lower_copy(*this, from, to, value, kernel);
  PlanStep step = kernel.finish(all_.plan, "copy");
  step.source = value.source();
  step.bytes = bytes_of({from.dtype, from.dims}) * Dim(2);
  bool is_read = std::ranges::find(step.buffers, from.buffer) !=
                 step.buffers.end();  // false if all elements are one number, which is a literal in the kernel
  if (is_read && is_same_place(from, to)) step.moves = from.buffer;
  add_step(std::move(step), reason, load_time);
}

View Lowering::pixel_view_of(Value value) {
  View view = view_of(value);
  size_t channels = view.dims.size() - 1;
  bool is_dense = known_equal(view.strides[channels], 1) || known_equal(view.dims[channels], 1);
  if (is_dense && even_stride(view, 0, channels)) return view;
  // On CPUs the copy is narrowed to the stored type, because a kernel reads each pixel once for each tap.
  return copy_of(view, value, "its reader needs channels side by side",
                 on_gpu() ? view.dtype : stored_type(view.dtype));
}

namespace {

/// Removes the axes of size 1 that `view` has in addition to `dims`; returns nothing if `view` differs in other axes.
std::optional<View> without_single_axes(View view, const Dims& dims) {
  View less = view;
  less.dims.clear();
  less.strides.clear();
  for (size_t i = 0; i < view.dims.size(); ++i) {
    bool wanted = less.dims.size() < dims.size() && view.dims[i] == dims[less.dims.size()];
    if (!wanted && view.dims[i] != Dim(1)) return std::nullopt;
    if (!wanted) continue;
    less.dims.push_back(view.dims[i]);
    less.strides.push_back(view.strides[i]);
  }
  return less.dims == dims ? std::optional(less) : std::nullopt;
}

}  // namespace

/// Returns the part of a concatenation's result into which a value can be computed directly. The value may have other
/// readers, and may be reshaped by axes of size 1 before the concatenation (a stack).
std::optional<View> Lowering::part_of_concat(Value value) {
  if (!may_place_ || runs_at_load_ || slot_of(value)) return std::nullopt;
  if (auto part = direct_part_of_concat(value)) return part;
  for (Instruction* user : value.def->users) {
    if (!user->is<Reshape>() || user->inputs[0] != value || slot_of(user->result())) continue;
    auto part = direct_part_of_concat(user->result());
    if (auto less = part ? without_single_axes(*part, value.dims()) : std::nullopt) return less;
  }
  return std::nullopt;
}

std::optional<View> Lowering::direct_part_of_concat(Value value) {
  auto user = std::ranges::find_if(value.def->users, [](const Instruction* i) { return i->is<Concat>(); });
  if (user == value.def->users.end() || std::ranges::count((*user)->inputs, value) != 1) return std::nullopt;
  Value whole{*user, 0};
  if (!std::ranges::all_of(whole.dims(), [&](const Dim& dim) { return has_value(dim); })) return std::nullopt;
  bool narrow =
      std::exchange(may_narrow_, may_narrow_ && !all_.overflowing.contains(whole) && !is_kept({.anchor = *user}));
  View part = has_view(whole) ? view_of(whole) : new_result(whole);
  may_narrow_ = narrow;
  size_t axis = (*user)->as<Concat>()->axis;
  for (const Value& input : (*user)->inputs) {
    if (input == value) break;
    part.offset += input.dims()[axis] * part.strides[axis];
  }
  part.dims = value.dims();
  return part;
}

/// Returns the scatter that updates `value`, if the scatter is the only reader; the value is then computed directly
/// into the scatter's result.
static Instruction* scatter_over(Value value) {
  if (value.def->users.size() != 1 || value.def->types.size() != 1) return nullptr;
  Instruction* user = value.def->users[0];
  bool is_scatter = user->is<ScatterElements>() || user->is<ScatterNd>();
  return is_scatter && user->inputs[0] == value && user->types[0] == value.type() ? user : nullptr;
}

View Lowering::new_result(Value value) {
  if (!value.type().is_tensor()) {
    BufferId slot = slot_of(value);
    if (slot) all_.written.insert(slot);
    View view = contiguous_view(slot ? slot : new_working_buffer(value.type(), value.source()), {});
    set_view(value, view);
    return view;
  }
  Instruction* scatter = runs_at_load_ || may_narrow_ || slot_of(value) ? nullptr : scatter_over(value);
  if (scatter && value.def->parent == scatter->parent && !has_view(scatter->result())) {
    bool may_place = std::exchange(may_place_, false);  // a scatter writes to a whole buffer
    View whole = new_result(scatter->result());
    may_place_ = may_place;
    return all_.views[value.def].emplace_back(whole);
  }
  if (auto part = part_of_concat(value)) {
    auto& views = all_.views[value.def];
    views.resize(value.def->types.size());
    part_buffers_.insert(part->buffer);
    return views[value.index] = *part;
  }
  BufferId slot = runs_at_load_ ? BufferId() : slot_of(value);
  Shape shape = value.shape();
  if (is_packed_type(shape.dtype)) shape.dtype = compute_type(shape.dtype);
  else if (!slot && !runs_at_load_) shape.dtype = stored_type(shape.dtype);
  if (slot) all_.written.insert(slot);
  BufferId buffer = slot ? slot
                         : new_buffer({.kind = runs_at_load_ ? BufferKind::persistent : BufferKind::arena,
                                       .shape = shape,
                                       .bytes = bytes_of(shape),
                                       .value = value.source()});
  if (slot) all_.plan.buffers[slot].value = value.source();
  View view = contiguous_view(buffer, shape);
  auto& views = all_.views[value.def];
  views.resize(value.def->types.size());
  views[value.index] = view;
  return view;
}

View Lowering::new_result(Value value, const std::vector<size_t>& stored) {
  View view = new_result(value);
  if (!runs_at_load_ && (slot_of(value) || scatter_over(value))) return view;
  if (part_buffers_.contains(view.buffer)) return view;
  Dim stride = 1;
  for (size_t i = stored.size(); i-- > 0;) {
    view.strides[stored[i]] = stride;
    stride = stride * view.dims[stored[i]];
  }
  set_view(value, view);
  return view;
}

void Lowering::copy_into(Value value, const View& to, const std::string& reason) {
  copy(view_of(value), to, value, reason, runs_at_load_);
}

void Lowering::copy_apart(Value value, const View& to, const std::string& reason) {
  View from = view_of(value);
  part_buffers_.insert(to.buffer);
  copy(from, to, value, reason, runs_at_load_);
  PlanStep& step = (runs_at_load_ ? all_.plan.load_steps : all_.plan.steps).back();
  const Shape& all = all_.plan.buffers[from.buffer].shape;
  step.moves_apart = step.moves && is_whole(from) && known_equal(product(from.dims), all.elements());
}

View Lowering::new_packed(DType type, const Dim& elements, bool load_time, const std::string& name) {
  Shape shape{type, {elements}};
  return contiguous_view(new_buffer({.kind = load_time ? BufferKind::persistent : BufferKind::arena,
                                     .shape = shape,
                                     .bytes = bytes_of(shape),
                                     .value = name}),
                         shape);
}

View Lowering::shared(View to) {
  auto& steps = all_.plan.load_steps;
  bool is_newest = to.buffer + 1 == all_.plan.buffers.end_id();
  if (!is_newest || steps.empty() || steps.back().outputs != std::vector{to.buffer}) return to;
  std::vector<BufferId> operands = steps.back().buffers;
  std::ranges::replace(operands, to.buffer, BufferId());
  auto [entry, is_new] =
      all_.filled.try_emplace({launch_of(steps.back()).kernel, std::move(operands), steps.back().sizes}, to.buffer);
  if (is_new) return to;
  steps.pop_back();
  all_.plan.buffers.pop_back();
  to.buffer = entry->second;
  return to;
}

size_t Lowering::choose(Decision decision, const std::function<bool(size_t)>& can_take) {
  auto ask = [&] { return all_.options.choose ? all_.options.choose(decision) : Choice{favourite(decision)}; };
  std::vector<size_t> numbers(decision.candidates.size());
  std::iota(numbers.begin(), numbers.end(), 0);
  Choice choice = ask();
  for (; can_take && decision.candidates[choice.candidate].needs_measurement; choice = ask()) {
    if (can_take(numbers[choice.candidate])) break;
    auto at = static_cast<std::ptrdiff_t>(choice.candidate);
    decision.candidates.erase(decision.candidates.begin() + at);
    numbers.erase(numbers.begin() + at);
  }
  decision.chosen = choice.candidate;
  choice_reason_ = std::move(choice.why);
  decision_ = all_.plan.decisions.add(std::move(decision));
  return numbers[choice.candidate];
}

void Lowering::add_step(PlanStep step, std::string reason, bool load_time) {
  if (step.source.empty()) step.source = source_;
  step.reason = std::move(reason);
  if (!load_time) {
    step.decision = decision_;
    if (!choice_reason_.empty()) step.reason += cat("; ", std::exchange(choice_reason_, {}));
  }
  step.writes_apart &= std::ranges::all_of(step.outputs, [&](BufferId id) { return part_buffers_.contains(id); });
  (load_time ? all_.plan.load_steps : all_.plan.steps).push_back(std::move(step));
}

bool Lowering::is_kept(const Region& region) const {
  bool kept = false;
  for_each_member(region, [&](const Instruction& i) {
    for (const std::string& pattern : all_.options.keep_f32)
      kept |= matches_glob(i.source, pattern) || matches_glob(i.source, cat("*'", pattern, "'*"));
  });
  return kept;
}

/// False for a constant f32 tensor with finite numbers beyond f16's range, seen through views; otherwise true.
static bool fits_in_f16(Value value) {
  while (is_view_op(value.def->op)) value = value.def->inputs[0];
  const auto* constant = value.def->as<Constant>();
  if (!constant || constant->tensor.dtype != DType::f32) return true;
  const OverflowingValues numbers(DType::f16);
  return std::ranges::none_of(constant->tensor.as<float>(), [&](float x) { return numbers.overflows(x); });
}

DType Lowering::product_type(const Instruction& i) const {
  DType a = i.inputs[0].dtype(), b = i.inputs[1].dtype();
  if (a == b && (a == DType::f16 || a == DType::bf16 || a == DType::f64 || a == DType::i8)) return a;
  // f16 represents all numbers of these 8-bit floats.
  if (is_float8(a)) return a == b && multiplies_float8(gpu(), a) ? a : DType::f16;
  if (is_integer(a)) return DType::i16;  // u8 times i8 is exact in i16, which vector units multiply
  bool narrow = stored_type(DType::f32) == DType::bf16 || (may_narrow_ && fits_in_f16(i.inputs[1]));
  return narrow ? all_.options.storage : DType::f32;
}

/// True if the region depends on constants only and its steps need no size that is known only in a run.
bool Lowering::follows_from_constants(const Region& region) const {
  bool follows = true;
  for_each_member(region, [&](const Instruction& i) {
    for (const Value& input : i.inputs) {
      bool is_member = all_.load_time.contains(input.def) || is_leaf(*input.def);
      follows &= !is_member || is_load_time(input);
      follows &= input.type().is_tensor() && input.shape().is_static();  // a broadcast may have a symbolic size
    }
    for (const Type& type : i.types) follows &= type.is_tensor() && type.shape.is_static();
    follows &= !has_symbols(i.op) && !sets_symbols(i) && !i.is<HostOp>();
  });
  return follows;
}

/// True for a product of 8-bit floats before its multiplication by the scales; it may exceed the range of f16.
static bool is_unscaled_product(Value value) {
  bool is_product = value.def->is<Dot>() || value.def->is<Convolution>();
  return is_product && is_float8(value.def->inputs[0].dtype());
}

Lowering::Lowering(LoweredProgram& all, const Region& region)
    : all_(all), source_(source_of(region)), runs_at_load_(follows_from_constants(region)) {
  for_each_member(region, [&](const Instruction& i) { all_.load_time[&i] = runs_at_load_; });
  const Family& family = family_of(region.anchor ? *region.anchor : *region.epilogue.front());
  may_place_ = family.places;
  may_narrow_ = all_.options.storage != DType::f32 && family.narrow == Narrow::read_and_written && !is_kept(region) &&
                std::ranges::none_of(region.outputs, [&](Value value) {
                  return all_.overflowing.contains(value) || is_unscaled_product(value);
                });
}

void Lowering::lower(const Region& region) {
  const Family& family = family_of(region.anchor ? *region.anchor : *region.epilogue.front());
  check(family.lower != nullptr, "operators without a kernel were refused before");
  if (family.narrow == Narrow::never) widen_operands(*region.anchor);
  (on_gpu() && family.lower_on_gpu ? family.lower_on_gpu : family.lower)(*this, region);
}

/// Copies f32 operands that are stored in 16 bits to f32, for a reader whose kernel only reads f32.
void Lowering::widen_operands(const Instruction& reader) {
  for (const Value& operand : reader.inputs) {
    if (!operand.type().is_tensor() || operand.dtype() != DType::f32) continue;
    View view = view_of(operand);
    if (view.dtype == DType::f32) continue;
    set_view(operand, copy_of(view, operand, "its reader takes elements of the whole type", DType::f32));
  }
}

/// Emits prefetches of constants that all rows read (such as a bias), before the wait for the previous launch.
void Lowering::fetch_rows_ahead(KernelBuilder& kernel, const Region& region) {
  constexpr int64_t most = 1 << 14;
  for (const Instruction* i : region.epilogue) {
    for (const Value& input : i->inputs) {
      if (!is_load_time(input) || literal_of(input) || input.rank() == 0) continue;
      View view = view_of(input);
      bool is_row = known_equal(view.strides.back(), 1) && view.dims.back().is_constant();
      for (size_t axis = 0; axis + 1 < view.dims.size(); ++axis)
        is_row &= known_equal(view.strides[axis], 0) || known_equal(view.dims[axis], 1);
      if (!is_row || view.dims.back().value() > most || view.dims.back().value() < 16) continue;
      kernel.before_wait(cat("fetch_ahead(WEFT_LAUNCH, raw(", kernel.buffer(view.buffer, view.dtype, false), ") + ",
                             kernel.size(view.offset), ", ", kernel.size(view.dims.back()), ");"));
    }
  }
}

void Lowering::emit_epilogue(KernelBuilder& kernel, const Region& region, Iteration iteration,
                             const std::string& anchor, DType type, const std::vector<size_t>& order) {
  iteration.loads_early = !on_gpu();
  if (on_gpu() && region.anchor && !runs_at_load_) fetch_rows_ahead(kernel, region);
  const std::vector<size_t> stored = iteration.stored.empty() ? order : std::move(iteration.stored);
  FusedBody body(
      kernel, std::move(iteration), [&](Value value) { return in_order(view_of(value), order); },
      [&](Value value) { return in_order(stored.empty() ? new_result(value) : new_result(value, stored), order); });
  for (const Value& output : region.outputs) {
    auto found = all_.also.find(output.def);
    if (found == all_.also.end() || output.index > 0 || runs_at_load_) continue;
    body.store_also(output, in_order(found->second.first, order));
    found->second.second = true;
  }
  std::vector<Value> given{{region.anchor, 0}};
  for (Instruction* sibling : region.siblings) given.push_back({sibling, 0});
  body.plan(region.epilogue, region.outputs, given);
  for (size_t i = 0; i < given.size(); ++i)
    body.define(given[i], given.size() == 1 ? anchor : cat(anchor, ".of[", i, "]"), type);
  // On CPUs a result may overwrite an operand of the epilogue that the anchor does not read. On GPUs no result may,
  // because several threads may read one element.
  std::vector<BufferId> in_place = on_gpu() ? std::vector<BufferId>() : body.in_place();
  std::erase_if(in_place, [&](BufferId buffer) { return kernel.uses(buffer); });
  body.emit();
  kernel.set_in_place(std::move(in_place));
}

void Lowering::write_results(const Module& module, const std::vector<BufferId>& slots) {
  for (size_t i = 0; i < slots.size(); ++i) {
    if (!slots[i] || all_.written.contains(slots[i])) continue;
    Value value = module.results()[i].value;
    const PlanBuffer& place = all_.plan.buffers[slots[i]];
    if (is_packed_type(place.shape.dtype)) {
      pack(contiguous_view_of(value), slots[i], value);
      continue;
    }
    View from = view_of(value);
    copy(from, contiguous_view(slots[i], value.type().shape), value,
         "a result that is a view, an input or another result", false);
    all_.written.insert(slots[i]);
  }
}

bool Lowering::is_run_time(const Dim& dim) const {
  bool found = false;
  if (!all_.run_time.empty())
    dim.visit_symbols([&](const Symbol& symbol) { found |= all_.run_time.contains(symbol.name); });
  return found;
}

bool Lowering::has_value(const Dim& dim) const {
  bool known = true;
  if (!all_.pending.empty())
    dim.visit_symbols([&](const Symbol& symbol) { known &= !all_.pending.contains(symbol.name); });
  return known;
}

void Lowering::add_check(SizeCheck check) {
  if (all_.depth == 0 && !is_run_time(check.a) && !is_run_time(check.b))
    return all_.plan.checks.push_back(std::move(check));
  add_control({.action = SizesStep{.checks = {std::move(check)}}, .reason = "a condition on sizes"});
}

StepId Lowering::add_control(PlanStep step) {
  step.source = source_;
  return all_.plan.steps.add(std::move(step));
}

BufferId Lowering::new_working_buffer(const Type& type, const std::string& name) {
  Type wide = type;
  if (wide.is_tensor() && is_packed_type(wide.shape.dtype)) wide.shape.dtype = compute_type(wide.shape.dtype);
  return new_buffer({.kind = wide.is_tensor() ? BufferKind::arena : BufferKind::value,
                     .shape = wide.shape,
                     .bytes = bytes_of(wide),
                     .value = name});
}

void Lowering::add_host_step(PlanStep step, const std::vector<View>& operands, const std::vector<View>& results) {
  for (const auto* views : {&operands, &results}) {
    for (const View& view : *views) {
      step.buffers.push_back(view.buffer);
      if (views == &results && step.is<PartStep>()) continue;  // a CPU part returns the sizes of its own results
      step.sizes.push_back(all_.plan.size_id(static_cast<int64_t>(view.dims.size())));
      for (const Dim& dim : view.dims) step.sizes.push_back(all_.plan.size_id(dim));
    }
  }
  for (const View& view : results) step.outputs.push_back(view.buffer);
  add_control(std::move(step));
}

void Lowering::set_sizes(std::vector<SizeSetting> settings, const GuardPlaces::Guards& decided,
                         std::vector<BufferId> buffers) {
  for (const SizeSetting& setting : settings) all_.pending.erase(setting.symbol.name);
  std::vector<SizeCheck> checks;
  for (const Guard* guard : decided) checks.push_back(size_check(*guard));
  if (settings.empty() && checks.empty() && buffers.empty()) return;
  const char* reason = settings.empty() ? "conditions on sizes" : "sizes that only the run tells";
  add_control(
      {.action = SizesStep{std::move(settings), std::move(checks)}, .buffers = std::move(buffers), .reason = reason});
}

void Lowering::lower_body(const Module& body, const std::vector<View>& parameters, const std::vector<BufferId>& slots) {
  for (size_t i = 0; i < parameters.size(); ++i) all_.views[body.parameters()[i].def] = {parameters[i]};
  ++all_.depth;
  Lowering(all_).lower_module(body, slots);
  --all_.depth;
}

Plan lower(const Program& program, const Chip& chip, const LowerOptions& options) {
  check_nesting(program);
  refuse_unsupported(program, chip);
  LoweredProgram all(program, chip, options);
  Lowering(all).lower_program();
  for (int64_t code = 0; code < all.strings.size(); ++code) all.plan.strings.push_back(all.strings.text(code));
  if (!is_cpu(chip.kind) && !knobs().checked) {
    if (knobs().gpu_merge) merge_launches(all.plan);
    use_constant_sizes(all.plan);
  }
  return std::move(static_cast<Plan&>(all.plan));
}

}  // namespace weft
