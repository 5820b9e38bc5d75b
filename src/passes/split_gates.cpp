// SPDX-License-Identifier: Apache-2.0
#include "passes/split_gates.h"

#include <algorithm>

#include "base/chip_features.h"
#include "kernels/gpu_tasks.h"
#include "ops/build.h"
#include "passes/match.h"

namespace weft {
namespace {

/// True for a product of so few rows that one kernel should compute it for all parts of the matrix. Eight rows are faster
/// than in a product with tiles only on NVIDIA's matrix unit, or with a small matrix. An open number of rows, such as a
/// batch, counts as few with a small matrix: launches are then most of the time, and each run takes a kernel for its
/// number.
bool has_few_rows(const Instruction& dot, const PassContext& context) {
  constexpr int64_t small = int64_t{1} << 20, few = 4;
  Value matrix = dot.inputs[1];
  Dim rows = rows_by_matrix(dot);
  DType type = matrix.dtype() == DType::f32 ? context.precision : matrix.dtype();
  bool is_ring = bits(type) == 16 && gpu_model(context.chip.arch).matrix == MatrixUnit::mma,
       is_small = product(matrix.dims()).constant().value_or(small + 1) <= small;
  if (rows.as_symbol()) return is_small;
  int64_t number = rows.constant().value_or(0);
  return number >= 1 && number <= (is_ring || is_small ? tasks::ring_rows : few);
}

/// True if the instruction is an even part of `whole` along its last axis that only elementwise functions read; parts of
/// an open number of rows have a multiple of four columns, as tiles need.
bool is_gate(const Instruction& i, Value whole) {
  const auto* op = i.as<Slice>();
  if (!op || whole.def->parent->is_result({const_cast<Instruction*>(&i), 0})) return false;
  const Dim &start = op->starts.back(), &size = op->sizes.back();
  Dims others = whole.dims();
  others.back() = size;
  bool fits = whole.shape().is_static() || size.is_multiple_of(4);
  return fits && op->sizes == others && size.is_constant() && start.is_constant() && size.value() > 0 &&
         start.value() % size.value() == 0 && std::ranges::count(op->steps, 1) == whole.rank() &&
         std::ranges::all_of(i.users, [](const Instruction* user) { return user->is<Elementwise>(); });
}

/// Returns the part of the sum that the slice `part` reads, from the product's part of the columns. `sums`: the
/// additions to the product, in order.
Value computed_apart(Module& module, const Instruction& part, Instruction& dot, const std::vector<Instruction*>& sums) {
  const Slice& at = *part.as<Slice>();
  auto sliced = [&](Value x) { return slice_axis(module, x, x.rank() - 1, at.starts.back(), at.sizes.back()); };
  Value whole = dot.result(), here = module.append(dot.op, {dot.inputs[0], sliced(dot.inputs[1])});
  for (Instruction* sum : sums) {
    std::vector<Value> inputs = sum->inputs;
    for (Value& input : inputs) input = input == whole ? here : sliced(input);
    whole = sum->result(), here = module.append(sum->op, inputs);
  }
  return here;
}

}  // namespace

bool split_gates(Module& module, const PassContext& context) {
  bool changed = false;
  const std::vector<bool> fixed = find_fixed(module);
  for (Instruction& i : module) {
    bool is_wanted = i.id < fixed.size() && i.is<Dot>() && !fixed[i.id] && fixed[i.inputs[1].def->id];
    if (!is_wanted || !has_few_rows(i, context)) continue;
    std::vector<Instruction*> sums;
    Value whole = i.result();
    while (whole.def->users.size() == 1 && !module.is_result(whole) && as_fn({whole.def->users[0], 0}, Fn::add))
      sums.push_back(whole.def->users[0]), whole = sums.back()->result();
    std::vector<Instruction*> parts = whole.def->users;
    bool are_gates = parts.size() >= 2 && parts.size() <= 4 && !module.is_result(whole) &&
                     std::ranges::all_of(parts, [&](const Instruction* part) {
                       return is_gate(*part, whole) && part->types == parts[0]->types;
                     });
    if (!are_gates) continue;
    ReplaceScope scope(module, **std::ranges::min_element(parts, {}, &Instruction::order));
    for (Instruction* part : parts) module.replace(part->result(), computed_apart(module, *part, i, sums));
    changed = true;
  }
  return changed;
}

}  // namespace weft
