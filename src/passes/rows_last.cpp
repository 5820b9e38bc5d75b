// SPDX-License-Identifier: Apache-2.0
#include "passes/rows_last.h"

#include <algorithm>
#include <numeric>

#include "ops/build.h"

namespace weft {
namespace {

std::vector<int64_t> inverse_permutation(const std::vector<int64_t>& permutation) {
  std::vector<int64_t> result(permutation.size());
  for (size_t i = 0; i < permutation.size(); ++i) result[permutation[i]] = static_cast<int64_t>(i);
  return result;
}

/// Returns the permutation that moves the axes `moved` to the end and keeps the others in order.
std::vector<int64_t> moved_last(int64_t rank, const std::vector<int64_t>& moved) {
  std::vector<int64_t> permutation;
  for (int64_t axis = 0; axis < rank; ++axis) {
    if (std::ranges::find(moved, axis) == moved.end()) permutation.push_back(axis);
  }
  permutation.insert(permutation.end(), moved.begin(), moved.end());
  return permutation;
}

class RowsLast {
 public:
  explicit RowsLast(Module& module) : module_(module) {}

  bool run() {
    for (Instruction& i : module_) {
      if (const auto* op = i.as<Softmax>()) along_axis(i, *op);
      else if (const auto* op = i.as<Scan>()) along_axis(i, *op);
      else if (const auto* op = i.as<TopK>()) along_axis(i, *op);
      else if (const auto* op = i.as<ArgReduce>()) along_axis(i, *op);
      else if (const auto* op = i.as<Reduce>()) reduce_neighbours(i, *op);
    }
    return changed_;
  }

 private:
  Value insert(Instruction& place, Op op, Value input) {
    SourceScope scope(module_, place.source);
    return module_.insert_before(&place, std::move(op), {input});
  }

  Value transposed(Instruction& place, Value x, const std::vector<int64_t>& permutation) {
    return std::ranges::is_sorted(permutation) ? x : insert(place, Transpose{.permutation = permutation}, x);
  }

  void replace(Instruction& i, uint32_t index, Value value) {
    module_.replace({&i, index}, value);
    changed_ = true;
  }

  template <class T>
  void along_axis(Instruction& i, T op) {
    int64_t rank = i.inputs[0].rank();
    if (op.axis == rank - 1) return;
    std::vector<int64_t> permutation = moved_last(rank, {op.axis});
    bool drops_axis = i.types[0].shape.rank() < rank;
    op.axis = rank - 1;
    Value y = insert(i, std::move(op), transposed(i, i.inputs[0], permutation));
    for (uint32_t index = 0; index < i.types.size(); ++index) {
      Value result{y.def, index};
      replace(i, index, drops_axis ? result : transposed(i, result, inverse_permutation(permutation)));
    }
  }

  void reduce_neighbours(Instruction& i, Reduce op) {
    int64_t rank = i.inputs[0].rank();
    if (op.axes.empty()) return replace(i, 0, i.inputs[0]);
    if (auto moved = before_transpose(i, op)) return replace(i, 0, insert(i, *moved, i.inputs[0].def->inputs[0]));
    if (op.axes.back() - op.axes.front() + 1 == static_cast<int64_t>(op.axes.size())) return;
    std::vector<int64_t> permutation = moved_last(rank, op.axes);
    auto kept = rank - static_cast<int64_t>(op.axes.size());
    std::iota(op.axes.begin(), op.axes.end(), kept);
    bool keep = op.keep;
    Value y = insert(i, std::move(op), transposed(i, i.inputs[0], permutation));
    replace(i, 0, keep ? transposed(i, y, inverse_permutation(permutation)) : y);
  }

  /// Returns the reduction to apply to the operand of the transpose that `i` reduces; nothing unless the reduced axes
  /// are neighbours in that operand and the other axes keep their order.
  static std::optional<Reduce> before_transpose(const Instruction& i, Reduce op) {
    const auto* transpose = i.inputs[0].def->as<Transpose>();
    if (op.keep || !transpose) return std::nullopt;
    std::vector<int64_t> stay = transpose->permutation;
    for (int64_t& axis : op.axes) axis = std::exchange(stay[axis], -1);
    std::erase(stay, -1);
    std::ranges::sort(op.axes);
    bool are_neighbours = op.axes.back() - op.axes.front() + 1 == static_cast<int64_t>(op.axes.size());
    return are_neighbours && std::ranges::is_sorted(stay) ? std::optional(op) : std::nullopt;
  }

  Module& module_;
  bool changed_ = false;
};

}  // namespace

bool rows_last(Module& module) { return RowsLast(module).run(); }

}  // namespace weft
