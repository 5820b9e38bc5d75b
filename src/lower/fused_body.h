// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "lower/kernel_builder.h"
#include "lower/regions.h"

namespace weft {

/// How a kernel walks the result. Each coordinate that it passes to the store lambda covers some neighbouring axes: a
/// pointwise loop has one coordinate per axis; a matrix product has (batch, row, column).
struct Iteration {
  Dims dims;                             ///< axes of the region
  std::vector<size_t> group_begin;       ///< the first axis of each coordinate, in rising order from 0
  std::vector<std::string> coordinates;  ///< names of the coordinates in the kernel, one for each group
  bool whole_vectors = true;             ///< the size of the last coordinate is a multiple of the lanes
  bool loads_early = false;              ///< loads values without coordinates once, at the start of the kernel
  std::string after_loads = {};          ///< a line that comes after all loads and before the arithmetic
};

/// Writes the elementwise part of a region as C++ for `W` lanes along the last axis: loads of values from other
/// regions, one statement per instruction, and stores of the outputs.
///
///     FusedBody body(kernel, iteration, view_of, store_view_of);
///     body.plan(instructions, outputs);          // decides which views are touched, merges axes
///     body.define(anchor_value, "v", DType::f32);
///     body.emit();                               // lines of the store lambda
class FusedBody {
 public:
  using ViewOf = std::function<View(Value)>;
  using NarrowViewOf = std::function<View(Value, double less)>;

  /// `load_view` returns the view of a value that is loaded, `store_view` that of an output; both must have the axes of
  /// the iteration.
  FusedBody(KernelBuilder& kernel, Iteration iteration, ViewOf load_view, ViewOf store_view);

  /// Allows f64 sums that are rounded to small integers to be computed in f32, and again in f64 only where the error of
  /// f32 could change the rounding. Call it before plan(). `narrow_view` returns a view of an f64 constant minus a
  /// number, as f32. The statements must form a function of their own, because the f32 path returns early.
  void round_in_f32_first(NarrowViewOf narrow_view);
  /// Subtracts this number from every loaded value. Call it before emit().
  void subtract(double less) { less_ = less; }
  /// Decides which views are accessed and merges axes. `given`: values that the kernel computes and passes to define().
  /// `loads`: values that are loaded even if no instruction reads them.
  void plan(const std::vector<Instruction*>& instructions, const std::vector<Value>& outputs,
            const std::vector<Value>& given, const std::vector<Value>& loads = {});
  /// True if the last coordinate is one merged axis, so that neighbouring lanes are neighbours in every view.
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
  void plan_first_look();
  void absorb_roundings(const std::vector<Value>& outputs);
  std::vector<Value> operands(const Instruction& instruction) const;
  bool is_quick() const;
  std::optional<double> quick_error(const Instruction& rounding) const;
  std::optional<Value> lowered_constant(const Instruction& sum) const;
  void collapse();
  void emit_coordinates();
  std::string address(const Access& access, bool written = false);
  bool is_whole(const Access& access) const;
  std::string load(const Access& access);
  void emit_store(const Access& access);
  void emit(const Instruction& instruction);
  void emit_first_look();
  std::string table(Value value);
  std::string quick_sum(const Instruction& sum, double error);
  std::string quick_rounding(const Instruction& rounding);
  DType register_type(DType type) const;
  std::string operand(Value value, DType type);
  std::string converted(const Variable& from, DType to) const;
  std::string fresh() { return cat("v", next_++); }

  KernelBuilder& kernel_;
  Iteration iteration_;
  ViewOf load_view_, store_view_;
  NarrowViewOf narrow_view_;
  std::vector<Instruction*> instructions_;
  std::map<const Instruction*, std::vector<Value>> roundings_;  // round-and-clamp conversions: x, low, high
  std::vector<Access> loads_, stores_;
  std::vector<Access> quick_loads_;                   // f64 constants that the f32 path loads as f32
  std::map<const Instruction*, std::string> tables_;  // lookups: names of their tables
  std::map<const Instruction*, double> lowered_;      // sums: number that the f32 path subtracts first
  bool quick_ = false;                                // true while the f32 path is written
  double less_ = 0;
  Dims axes_;
  std::vector<std::string> axis_names_;
  std::map<std::pair<const Instruction*, uint32_t>, Variable> variables_;
  int next_ = 0;
};

/// Returns the number that all elements of a value equal, looking through views; nothing if they differ or are unknown.
std::optional<double> splat_of(Value value);

/// Returns that number if it is simple (0, 1, 0.5, 127, infinity ...) and so becomes a literal in the kernel. Others
/// (scales) are read from memory, so that layers with different scales share one kernel.
std::optional<double> literal_of(Value value);

/// Returns a number of this type as C++ text: `f32(0x1.8p+0)`, `i64(3)`.
std::string number_text(DType type, double number);

}  // namespace weft
