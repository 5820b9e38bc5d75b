// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <set>
#include <unordered_map>

#include "base/chip_features.h"
#include "base/strings.h"
#include "ir/control.h"
#include "kernels/gpu_tasks.h"
#include "lower/families.h"
#include "lower/fused_body.h"
#include "lower/lower.h"
#include "lower/overflow.h"
#include "lower/regions.h"
#include "plan/plan.h"

namespace weft {

/// A program while it is lowered: the plan so far and the view of each value.
struct LoweredProgram {
  LoweredProgram(const Program& from, const Chip& target, LowerOptions wanted);

  const Program& program;
  Chip chip;
  LowerOptions options;
  OverflowingValues overflowing;  ///< values that options.storage does not represent (overflow.h)
  GuardPlaces guards;
  PlanDraft plan = {};
  StringPool strings;
  std::unordered_map<const Instruction*, std::vector<View>> views = {};
  std::unordered_map<const Instruction*, View> stored = {};                  ///< views of constants in stored form
  std::unordered_map<const Instruction*, std::vector<BufferId>> slots = {};  ///< each result's output buffer, if any
  /// The buffers that load steps fill, by the step's kernel, operands and sizes.
  std::map<std::tuple<KernelId, std::vector<BufferId>, std::vector<SizeId>>, BufferId> filled = {};
  std::set<BufferId> written = {};                    ///< output buffers already written
  std::set<std::string> run_time = {}, pending = {};  ///< symbols set in a run; symbols without a value so far
  /// Where the kernel that computes an instruction's first result should store it a second time; true if it does.
  std::unordered_map<const Instruction*, std::pair<View, bool>> also = {};
  std::unordered_map<const Instruction*, bool> load_time = {};
  BufferId mailbox = {};  ///< the buffer of kind mailbox, if there is one
  int depth = 0;          ///< number of bodies around the current module
};

/// The lowering of one region. The kernel families (matmul.cpp, convolution.cpp ...) get views of operands and buffers
/// of results from this class, and append their steps to the plan through it.
class Lowering {
 public:
  /// Makes a lowering outside any region, for the program's parameters and results.
  explicit Lowering(LoweredProgram& all) : all_(all), source_("the results") {}
  Lowering(LoweredProgram& all, const Region& region);
  void lower_program();
  void lower(const Region& region);

  PlanDraft& plan() { return all_.plan; }
  const Chip& chip() const { return all_.chip; }
  tasks::GemmTile tile() const;
  bool on_gpu() const { return !is_cpu(all_.chip.kind); }
  const GpuModel& gpu() const { return gpu_model(all_.chip.arch); }
  int compute_units() const;
  /// Returns the lanes of a loop over elements of at most this many bits; on a GPU, as many as 16 bytes hold (2 to 8).
  int lanes_for(int widest_bits) const;
  /// Sets the launch of a kernel that calls `pointwise<lanes>` over rows x cols.
  void set_loop(KernelBuilder& kernel, const Dims& rows, const Dim& cols, int lanes) const;
  /// Sets the launch of a kernel with one GPU thread for each of `count` items (kernels/device.h: for_items);
  /// `cpu_tasks` is the number of tasks on a CPU.
  void set_items(KernelBuilder& kernel, const Dim& count, std::string cpu_tasks) const;

  /// Returns the view of a value; first copies the value if strides cannot express its chain of view operators.
  View view_of(Value value);
  /// Returns a view whose elements lie in row-major order without gaps; copies the value if necessary.
  View contiguous_view_of(Value value);
  /// Returns a channels-last view with stride 1 along the channels and one stride between pixels; copies if necessary.
  View pixel_view_of(Value value);
  /// Returns a constant's view in its stored form, without unpacking types of several elements per byte.
  View stored_view_of(Value constant);
  /// Makes all later readers of `value` read it through `view`.
  void set_view(Value value, View view) {
    auto& views = all_.views[value.def];
    views.resize(value.def->types.size());
    views[value.index] = std::move(view);
  }
  /// Copies the elements of a view to a new row-major buffer; converts them if `type` is another float type. Each row
  /// begins at a multiple of `align` elements.
  View copy_of(const View& from, Value value, const std::string& reason, std::optional<DType> type = {},
               int64_t align = 1);
  /// Copies the value's view as copy_of does, but without the repetitions of a broadcast.
  View distinct_copy_of(Value value, const std::string& reason);
  /// Returns the type in which the current region stores values of `type` in memory (LowerOptions::storage).
  DType stored_type(DType type) const { return type == DType::f32 && may_narrow_ ? all_.options.storage : type; }
  /// Returns the type to which a GPU converts both operands of a dot or convolution before it multiplies them.
  DType product_type(const Instruction& instruction) const;
  /// Returns the view for a result of the current region: in an output buffer, in the result of a concatenation or
  /// scatter that reads it, or in a new buffer.
  View new_result(Value value);
  /// Like new_result(value), but a new buffer stores the axes in the order `stored` (outermost first).
  View new_result(Value value, const std::vector<size_t>& stored);
  bool has_view(Value value) const { return all_.views.contains(value.def); }
  /// Asks the kernel that computes the first result of `i` to store it to `to` as well; returns false if it shall
  /// already store it elsewhere.
  bool store_also(const Instruction& i, View to) { return all_.also.try_emplace(&i, std::move(to), false).second; }
  /// Returns true if a kernel has met the request.
  bool is_stored_also(const Instruction& i) const { return all_.also.at(&i).second; }
  /// Copies elements of `value` from one view to another.
  void copy_view(const View& from, const View& to, Value value, const std::string& reason) {
    copy(from, to, value, reason, runs_at_load_);
  }
  void copy_into(Value value, const View& to, const std::string& reason);
  /// Copies a value into a part of a buffer; no other step may write that part.
  void copy_apart(Value value, const View& to, const std::string& reason);
  /// Makes a buffer of `elements` of `type` with a special layout, such as packed weights.
  View new_packed(DType type, const Dim& elements, bool load_time, const std::string& name);
  /// If the newest load step fills `to` and equals an earlier step, removes the newest and returns the earlier step's
  /// buffer, so that layers with the same weights share their packed form. Otherwise returns `to`.
  View shared(View to);
  /// True if a value depends on constants only; its steps then run once, when the program is loaded.
  bool is_load_time(Value value) const;

  /// True if kernels of this rank can write to the memory of all other ranks.
  bool are_connected() const { return all_.options.are_connected; }
  /// Returns the buffer through which ranks exchange values; makes it at the first call.
  BufferId mailbox();
  const VendorLibraries& libraries() const { return all_.options.libraries; }
  /// Chooses one of several kernels and returns its index; the steps that the region adds later belong to this
  /// decision. A candidate with `needs_measurement` is only chosen if `can_take` accepts its index.
  size_t choose(Decision decision, const std::function<bool(size_t)>& can_take = {});

  /// Adds a kernel launch. `load_time`: the launch runs once, when the program is loaded.
  void add_step(PlanStep step, std::string reason, bool load_time);
  void add_step(PlanStep step, std::string reason) { add_step(std::move(step), std::move(reason), runs_at_load_); }

  /// Adds a condition on sizes, checked before the run; in a body, or if a size is set during the run, at this step.
  void add_check(SizeCheck check);

  // Control flow (control.cpp).

  /// Appends a step other than a kernel launch for the current region; returns its id.
  StepId add_control(PlanStep step);
  /// Makes this branch or jump continue at the next step that is added.
  void end_jump(StepId step) { *all_.plan.steps[step].target() = next_step(); }
  /// Returns a view of a whole buffer, with elements in row-major order; for a container, of a buffer without memory.
  View whole_view_of(Value value);
  StepId next_step() const { return all_.plan.steps.end_id(); }
  /// Makes a working buffer for a tensor, or a buffer without memory that stands for a container.
  BufferId new_working_buffer(const Type& type, const std::string& name);
  /// Appends a HostStep or PartStep. Its operands and results are whole buffers.
  void add_host_step(PlanStep step, const std::vector<View>& operands, const std::vector<View>& results);
  /// Notes that steps have set these symbols, so that later steps may use them.
  void set_known(const Dims& symbols) {
    for (const Dim& symbol : symbols) all_.pending.erase(symbol.as_symbol()->name);
  }
  /// Adds a step that sets symbols from results of earlier steps, and checks the guards that become decidable.
  void set_sizes(std::vector<SizeSetting> settings, const GuardPlaces::Guards& guards,
                 std::vector<BufferId> buffers = {});
  const GuardPlaces& guards() const { return all_.guards; }
  /// Lowers the body of a loop or branch. `parameters`: the views of its parameters. `slots`: the buffer to write each
  /// result to; none if the caller reads the result's view instead.
  void lower_body(const Module& body, const std::vector<View>& parameters, const std::vector<BufferId>& slots);
  /// Records whether a body's parameter depends on constants only (is_load_time).
  void set_load_time(Value parameter, bool load_time) { all_.load_time[parameter.def] = load_time; }

  /// Emits the region's epilogue into a store lambda of `kernel`. The lambda has the coordinates of `iteration` and the
  /// anchor's result in the variable `anchor` of compute type `type`; the results of joined products (gpu/gemv.h) are in
  /// its array `of`. `order`: the order of axes in the iteration and in stored results; empty: the region's own order.
  void emit_epilogue(KernelBuilder& kernel, const Region& region, Iteration iteration, const std::string& anchor,
                     DType type, const std::vector<size_t>& order = {});

  /// Returns the output buffer that the region of `value` writes directly; none if there is none, or if the buffer's
  /// sizes are not known yet.
  BufferId slot_of(Value value) const;

 private:
  void bind_parameters(const Module& main);
  std::vector<BufferId> output_buffers(const Module& main);
  void choose_slots(const Module& module, const std::vector<BufferId>& slots);
  void lower_module(const Module& module, const std::vector<BufferId>& slots);
  bool follows_from_constants(const Region& region) const;
  void write_results(const Module& module, const std::vector<BufferId>& slots);
  bool is_run_time(const Dim& dim) const;
  bool has_value(const Dim& dim) const;
  View unpacked(const View& packed, Value value, bool load_time);
  void pack(const View& wide, BufferId output, Value value);
  void copy(const View& from, const View& to, Value value, const std::string& reason, bool load_time);
  BufferId new_buffer(PlanBuffer buffer) { return all_.plan.buffers.add(std::move(buffer)); }
  std::optional<View> part_of_concat(Value value);
  std::optional<View> direct_part_of_concat(Value value);

  bool is_kept(const Region& region) const;
  void widen_operands(const Instruction& reader);
  void fetch_rows_ahead(KernelBuilder& kernel, const Region& region);

  LoweredProgram& all_;
  std::string source_ = {};
  bool runs_at_load_ = false;             // all values of the region depend on constants: it runs at load time
  bool may_place_ = false;                // the region's kernel can store results with any strides
  bool may_narrow_ = false;               // the region's store lambda converts to LowerOptions::storage
  std::set<BufferId> part_buffers_ = {};  // buffers in which the region writes a part that no other step touches
  DecisionId decision_ = {};              // the region's choice among kernels, if any
  std::string choice_reason_ = {};        // why the choice differs from the cost model's
};

/// Returns the bytes of a tensor without gaps.
Dim bytes_of(const Shape& shape);
void lower_copy(Lowering& lowering, View from, View to, Value value, KernelBuilder& kernel);

}  // namespace weft
