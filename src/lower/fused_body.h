// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "lower/kernel_builder.h"
#include "lower/regions.h"

namespace weft {

/// How a kernel loops over the result. Each coordinate that the kernel passes to the store lambda is the flat index of
/// a group of neighbouring axes, such as (batch, row, column). A pointwise loop leaves the coordinates empty.
struct Iteration {
  Dims dims;                             ///< axes of the region
  std::vector<size_t> group_begin;       ///< the first axis of each coordinate, in rising order from 0
  std::vector<std::string> coordinates;  ///< names of the coordinates in the kernel, one for each group
  bool whole_vectors = true;             ///< the size of the last group is a multiple of the lanes
  bool loads_early = false;              ///< values that are equal for all coordinates are loaded once, at the start
  int lanes = 0;                         ///< vectors of this length never cross the end of the last axis; 0: they may
  std::vector<size_t> stored = {};       ///< the order of the axes in stored results; empty: `dims`
  std::string after_loads = {};          ///< a line that comes after all loads and before the arithmetic
};

/// A writer of the elementwise part of a region as C++ for `W` lanes along the last axis: loads of values from other
/// regions, one statement per instruction, and stores of the outputs.
///
///     FusedBody body(kernel, iteration, view_of, store_view_of);
///     body.plan(instructions, outputs, {anchor_value});  // decides which views are accessed, merges axes
///     body.define(anchor_value, "v", DType::f32);
///     body.emit();                                       // lines of the store lambda
class FusedBody {
 public:
  using ViewOf = std::function<View(Value)>;

  /// `load_view` returns the view of a value that is loaded, `store_view` that of an output; both must have the axes of
  /// the iteration.
  FusedBody(KernelBuilder& kernel, Iteration iteration, ViewOf load_view, ViewOf store_view);

  /// Stores an output a second time, to `view`. Call it before plan().
  void store_also(Value value, View view) { stores_.push_back({value, std::move(view), {}}); }
  /// Decides which views are accessed and merges axes. `given`: values that the kernel computes and passes to define().
  /// `loads`: values that are loaded even if no instruction reads them.
  void plan(const std::vector<Instruction*>& instructions, const std::vector<Value>& outputs,
            const std::vector<Value>& given, const std::vector<Value>& loads = {});
  /// True if a vector has a single stride in each view: the last coordinate is one merged axis, or Iteration::lanes is set.
  bool last_coordinate_is_axis() const;

  /// Declares that the kernel's variable `name` holds `value` in the compute type `type`.
  void define(Value value, std::string name, DType type);
  /// Writes the statements; the names `lanes` and `W` must be in scope.
  void emit();
  /// Returns the variable that holds a value in its compute type. Call it after emit() or define().
  std::string variable(Value value);

  /// Returns buffers whose memory the result may overwrite, because each element is read only where it is written.
  std::vector<BufferId> in_place() const;

  /// Returns the merged axes, which are the loops of a pointwise kernel. Call it after plan().
  const Dims& axes() const { return axes_; }

 private:
  struct Access {
    Value value;
    View view;
    Dims strides;  // for the merged axes
  };
  struct Variable {
    std::string name;
    DType type;
  };

  void add_access(std::vector<Access>& list, Value value, const ViewOf& view_of);
  void find_late(const std::vector<Value>& outputs);
  void collapse();
  void emit_coordinates();
  std::string address(const Access& access, bool written = false);
  bool is_whole(const Access& access) const;
  std::string load(const Access& access);
  void emit_store(const Access& access);
  void emit(const Instruction& instruction);
  void emit_late(Value value);
  void emit_nearest(const Instruction& nearest);
  std::string exact_rounding(const Instruction& nearest);
  std::string table(Value value);
  std::string operand(Value value, DType type);
  std::string converted(const Variable& from, DType to) const;
  std::string fresh() { return cat("v", next_++); }

  KernelBuilder& kernel_;
  Iteration iteration_;
  ViewOf load_view_, store_view_;
  std::vector<Instruction*> instructions_;
  std::set<const Instruction*> late_;  // instructions that run only if the guess of a Nearest is in doubt
  std::vector<Access> loads_, stores_;
  std::map<const Instruction*, std::string> tables_;  // key: a lookup's table; value: its name in the kernel
  Dims axes_;
  std::vector<std::string> axis_names_;
  std::map<std::pair<const Instruction*, uint32_t>, Variable> variables_;
  int next_ = 0;
};

/// Returns the number that all elements of a value equal, looking through views; nothing if they differ or are unknown.
std::optional<double> splat_of(Value value);

/// Returns the number of splat_of if it is simple (0, 1, 0.5, 127, infinity ...) and so becomes a literal in the
/// kernel. Other numbers (scales) are read from memory, so that layers with different scales share one kernel.
std::optional<double> literal_of(Value value);

/// Returns a number of this type as C++ text: `f32(0x1.8p+0)`, `i64(3)`.
std::string number_text(DType type, double number);

}  // namespace weft
