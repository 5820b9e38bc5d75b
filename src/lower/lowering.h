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
  OverflowingValues overflowing;  ///< for the type of options.storage
  GuardPlaces guards;
  PlanDraft plan = {};
  StringPool strings;
  std::unordered_map<const Instruction*, std::vector<View>> views = {};
  std::unordered_map<const Instruction*, View> stored = {};             ///< views of constants
  std::unordered_map<const Instruction*, std::vector<int>> slots = {};  ///< buffer meant for each result, -1: none
  std::map<std::vector<int>, int> filled = {};        ///< a load step's kernel, operands and sizes -> its buffer
  std::set<int> written = {};                         ///< output buffers already written
  std::set<std::string> run_time = {}, pending = {};  ///< symbols set by steps; those not set yet
  std::unordered_map<const Instruction*, bool> load_time = {};
  int mailbox = -1;  ///< the buffer of that kind, if there is one
  int depth = 0;     ///< number of bodies around the current module
};

/// Lowering of one region: the kernel families (matmul.cpp, convolution.cpp ...) ask it for views of operands and
/// buffers for results, and add steps, which belong to the region.
class Lowering {
 public:
  /// For parameters and results of the program, which belong to no region.
  explicit Lowering(LoweredProgram& all) : all_(all), source_("the results") {}
  Lowering(LoweredProgram& all, const Region& region);
  void lower_program();
  void lower(const Region& region);

  PlanDraft& plan() { return all_.plan; }
  const Chip& chip() const { return all_.chip; }
  tasks::GemmTile tile() const;
  bool on_gpu() const { return !is_cpu(all_.chip.kind); }
  /// The features of the GPU.
  const GpuModel& gpu() const { return gpu_model(all_.chip.arch); }
  /// The number of compute units of the GPU.
  int compute_units() const;
  /// Lanes of a loop over elements of these widths: on a GPU what a thread moves in 16 bytes.
  int lanes_for(int widest_bits) const;
  /// How a kernel made of `pointwise<lanes>` over rows x cols is launched.
  void set_loop(KernelBuilder& kernel, const Dims& rows, const Dim& cols, int lanes) const;
  /// How a kernel is launched in which each of `count` items has a thread (kernels/device.h: for_items); `cpu_tasks` is
  /// the number of tasks on a CPU.
  void set_items(KernelBuilder& kernel, const Dim& count, std::string cpu_tasks) const;

  /// The view of a value; if strides cannot express it, the value is copied first.
  View view_of(Value value);
  /// The same, with elements in row-major order without gaps (copied if need be).
  View contiguous_view_of(Value value);
  /// The same for channels-last images: channels side by side, pixels evenly spaced (as in a part of a concatenation).
  View pixel_view_of(Value value);
  /// A constant as it is stored, also where several elements share a byte.
  View stored_view_of(Value constant);
  /// From now on the value is read through this view.
  void set_view(Value value, View view) {
    auto& views = all_.views[value.def];
    views.resize(value.def->types.size());
    views[value.index] = std::move(view);
  }
  /// A row-major copy of any view of the value's elements, as elements of `type` if that is another float.
  View copy_of(const View& from, Value value, const std::string& reason, std::optional<DType> type = {},
               double less = 0);
  /// The same of a value's own view, with each element once where the view repeats them.
  View distinct_copy_of(Value value, const std::string& reason, std::optional<DType> type = {}, double less = 0);
  /// The type in which the values of the current region lie in memory (LowerOptions::storage).
  DType stored_type(DType type) const { return type == DType::f32 && may_narrow_ ? all_.options.storage : type; }
  /// The type in which a GPU multiplies the operands of a dot or convolution.
  DType product_type(const Instruction& instruction) const;
  /// A buffer for a value that the current region computes.
  View new_result(Value value);
  /// The same with its axes stored in the order `stored` (outermost first), unless the value is an output.
  View new_result(Value value, const std::vector<size_t>& stored);
  /// Whether the value has a place already.
  bool has_view(Value value) const { return all_.views.contains(value.def); }
  /// Copies elements that come from `value`; `copy_into` copies a whole value into a part of a result.
  void copy_view(const View& from, const View& to, Value value, const std::string& reason) {
    copy(from, to, value, reason, runs_at_load_);
  }
  void copy_into(Value value, const View& to, const std::string& reason);
  /// The same into memory that no other step writes.
  void copy_apart(Value value, const View& to, const std::string& reason);
  /// A buffer with a special layout, such as packed weights: `elements` of `type`.
  View new_packed(DType type, const Dim& elements, bool load_time, const std::string& name);
  /// Returns `to`, which the newest step fills. If an equal load step came before, drops the new one and returns that
  /// one's buffer: layers that share weights share their packed form.
  View shared(View to);
  /// True when a value follows from constants alone, so that its steps run once, when the program is loaded.
  bool is_load_time(Value value) const;

  /// Whether kernels of this rank can write to the memory of all others.
  bool are_connected() const { return all_.options.are_connected; }
  /// The buffer through which ranks exchange values.
  int mailbox();
  /// The vendors' libraries that may replace kernels.
  const VendorLibraries& libraries() const { return all_.options.libraries; }
  /// Chooses one of several kernels; later steps of the current region belong to the decision. A candidate that needs
  /// measurement is a candidate only if `can_take` accepts its number.
  size_t choose(Decision decision, const std::function<bool(size_t)>& can_take = {});

  /// Adds a launch; `source` and the phase (run or load) come from the region that is being lowered.
  void add_step(PlanStep step, std::string reason, bool load_time);
  void add_step(PlanStep step, std::string reason) { add_step(std::move(step), std::move(reason), runs_at_load_); }

  /// Adds a condition on sizes, which is checked before the run, or at this step for run-time sizes.
  void add_check(SizeCheck check);

  // Control flow (control.cpp).

  /// Appends a step of another kind than `kernel`, for the current region; gives its number.
  int add_control(PlanStep step);
  /// Lets a branch or a jump continue at the step that comes next.
  void end_jump(int number) { *all_.plan.steps[number].target() = next_step(); }
  /// The view of a whole buffer that holds the value's elements in order; of a container its place.
  View whole_view_of(Value value);
  int next_step() const { return static_cast<int>(all_.plan.steps.size()); }
  /// Working memory for a tensor, or a place for a container.
  int new_working_buffer(const Type& type, const std::string& name);
  /// Appends a step of kind `host` or `part`; `operands` and `results` are views of whole buffers.
  void add_host_step(PlanStep step, const std::vector<View>& operands, const std::vector<View>& results);
  /// From now on these symbols have values.
  void set_known(const Dims& symbols) {
    for (const Dim& symbol : symbols) all_.pending.erase(symbol.as_symbol()->name);
  }
  /// Adds a step that sets symbols and checks the guards on them.
  void set_sizes(std::vector<SizeSetting> settings, const GuardPlaces::Guards& guards, std::vector<int> buffers = {});
  const GuardPlaces& guards() const { return all_.guards; }
  /// Lowers a body whose parameters have the views `parameters`; writes results to the buffers `slots` (-1: not
  /// written, the caller reads their views).
  void lower_body(const Module& body, const std::vector<View>& parameters, const std::vector<int>& slots);
  /// Marks parameters whose operands follow from constants alone.
  void set_load_time(Value parameter, bool load_time) { all_.load_time[parameter.def] = load_time; }

  /// Emits the region's epilogue into a store lambda of `kernel`: coordinates as `iteration` says, the anchor's result
  /// in the variable `anchor` of compute type `type`, that of a twin in `second`.
  /// `order`: the order of the region's axes in the iteration and in stored results, if it is not their own.
  void emit_epilogue(KernelBuilder& kernel, const Region& region, Iteration iteration, const std::string& anchor,
                     DType type, const std::vector<size_t>& order = {});

  /// The output buffer that the region of `value` writes directly, if the value is an output.
  std::optional<int> slot_of(Value value) const;

 private:
  void bind_parameters(const Module& main);
  std::vector<int> output_buffers(const Module& main);
  void choose_slots(const Module& module, const std::vector<int>& slots);
  void lower_module(const Module& module, const std::vector<int>& slots);
  bool follows_from_constants(const Region& region) const;
  void write_results(const Module& module, const std::vector<int>& slots);
  bool is_run_time(const Dim& dim) const;
  bool has_value(const Dim& dim) const;
  View unpacked(const View& packed, Value value, bool load_time);
  void pack(const View& wide, int output, Value value);
  void copy(const View& from, const View& to, Value value, const std::string& reason, bool load_time, double less = 0);
  int new_buffer(PlanBuffer buffer);
  std::optional<View> part_of_concat(Value value);
  std::optional<View> direct_part_of_concat(Value value);

  bool is_kept(const Region& region) const;
  void widen_operands(const Instruction& reader);
  void fetch_rows_ahead(KernelBuilder& kernel, const Region& region);

  LoweredProgram& all_;
  // The source of the region.
  std::string source_ = {};
  bool runs_at_load_ = false;        // the region is computed once, when the program is loaded
  bool may_place_ = false;           // its kernel stores through any strides
  bool may_narrow_ = false;          // the store lambda converts its values
  std::set<int> part_buffers_ = {};  // buffers that it writes in parts, apart from other steps
  int decision_ = -1;                // of PlanDraft::decisions
  std::string choice_reason_ = {};   // the reason, if the choice was not the cost model's
};

/// The bytes of a dense tensor.
Dim bytes_of(const Shape& shape);
void lower_copy(Lowering& lowering, View from, View to, Value value, KernelBuilder& kernel, double less);

}  // namespace weft
