// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "lower/kernel_builder.h"
#include "lower/regions.h"

namespace weft {

/// How a kernel family walks the result: each coordinate that it passes to the store lambda covers some axes. A
/// pointwise loop has one coordinate for each axis; a matrix product has (batch, row, column).
struct Iteration {
  Dims dims;                        ///< axes of the region
  std::vector<size_t> group_begin;  ///< the first axis of each coordinate, rising from 0; coordinates cover all axes
  std::vector<std::string> coordinates;  ///< names of the coordinates in the kernel, one for each group
  bool whole_vectors = true;             ///< the last coordinate is a multiple of the lanes
  bool loads_early = false;              ///< values that are the same everywhere are loaded when the kernel begins
};

/// Writes the elementwise part of a region, for one place of the iteration and `W` lanes along its last axis: loads of
/// outside values, a statement for each instruction, and stores of the outputs.
///
///     FusedBody body(kernel, iteration, view_of, store_view_of);
///     body.plan(instructions, outputs);          // decides which views are touched, merges axes
///     body.define(anchor_value, "v", DType::f32);
///     body.emit();                               // lines of the store lambda
class FusedBody {
 public:
  using ViewOf = std::function<View(Value)>;
  using NarrowViewOf = std::function<View(Value, double less)>;

  /// `load_view` gives the view of a value from outside, `store_view` the view for an output; both have the iteration's
  /// axes.
  FusedBody(KernelBuilder& kernel, Iteration iteration, ViewOf load_view, ViewOf store_view);

  /// Allows sums of f64 that are only rounded to small integers to be computed in f32 first, and in f64 only where f32
  /// leaves the rounding in doubt. Call it before plan(). `narrow_view` returns a view of an f64 constant minus a
  /// number, as f32. The statements must form a function of their own, because the quick form returns early.
  void round_in_f32_first(NarrowViewOf narrow_view);
  /// Subtracts this number from everything that is loaded. Call it before emit().
  void subtract(double less) { less_ = less; }
  /// `given`: values that the kernel computes itself and defines as variables; `loads`: values that are read even if no
  /// instruction does.
  void plan(const std::vector<Instruction*>& instructions, const std::vector<Value>& outputs,
            const std::vector<Value>& given, const std::vector<Value>& loads = {});
  /// True when the last coordinate is one axis after merging, so that neighbouring lanes are neighbours in every view.
  bool last_coordinate_is_axis() const;

  /// The variable `name` holds `value` in `type` (a compute type).
  void define(Value value, std::string name, DType type);
  /// Writes the statements. `lanes` and `W` are names in scope.
  void emit();
  /// The variable that holds a value in its own compute type, after emit or define.
  std::string variable(Value value);

  /// Buffers that may share the result's memory, because they are read only at the places that are written.
  std::vector<int> in_place() const;

  /// The merged axes: for a pointwise loop the kernel's own loops. Valid after plan().
  const Dims& axes() const { return axes_; }

 private:
  struct Access {
    Value value;
    View view;
    Dims strides;  // over the merged axes
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
  std::map<const Instruction*, std::vector<Value>> roundings_;  // conversions that round and clamp: x, low, high
  std::vector<Access> loads_, stores_;
  std::vector<Access> quick_loads_;                   // f64 constants that the quick form loads as f32
  std::map<const Instruction*, std::string> tables_;  // names of the tables of lookups
  std::map<const Instruction*, double> lowered_;      // sums from which the quick form first subtracts this number
  bool quick_ = false;                                // whether the quick form is being written
  double less_ = 0;
  Dims axes_;
  std::vector<std::string> axis_names_;
  std::map<std::pair<const Instruction*, uint32_t>, Variable> variables_;
  int next_ = 0;
};

/// The number that all elements of a value equal, seen through views; nothing if they differ or are unknown.
std::optional<double> splat_of(Value value);

/// The same for simple numbers (0, 1, 0.5, 127, infinity ...), which are written into a kernel's text. Others, such as
/// scales, are read from memory, so that kernels with different scales have the same text.
std::optional<double> literal_of(Value value);

/// C++ text of a number of this type: `f32(0x1.8p+0)`, `i64(3)`.
std::string number_text(DType type, double number);

}  // namespace weft
