// SPDX-License-Identifier: Apache-2.0
#include "passes/split_gates.h"

#include <algorithm>

#include "base/chip_features.h"
#include "ir/symbols.h"
#include "kernels/gpu_tasks.h"
#include "ops/build.h"
#include "passes/match.h"

namespace weft {
namespace {

/// Returns the most rows for which one kernel computes products with all slices of a matrix. Only on NVIDIA's matrix
/// unit, or with a small matrix, are eight rows faster than in a product with tiles.
int64_t most_rows(const Value& matrix, const PassContext& context) {
  constexpr int64_t small = int64_t{1} << 20, few = 4;
  DType type = matrix.dtype() == DType::f32 ? context.precision : matrix.dtype();
  bool is_ring = bits(type) == 16 && gpu_model(context.chip.arch).matrix == MatrixUnit::mma;
  return is_ring || product(matrix.dims()).value() <= small ? tasks::ring_rows : few;
}

/// True if the instruction is one of two to four equal parts of `whole` along its last axis, read by elementwise
/// functions only.
bool is_gate(const Instruction& i, Value whole) {
  const auto* op = i.as<Slice>();
  if (!op || whole.def->parent->is_result({const_cast<Instruction*>(&i), 0})) return false;
  Dims others = whole.dims();
  others.back() = op->sizes.back();
  bool is_even = op->sizes.back().is_constant() && op->starts.back().is_constant() && op->sizes == others &&
                 op->sizes.back().value() > 0 && op->starts.back().value() % op->sizes.back().value() == 0;
  return is_even && std::ranges::count(op->steps, 1) == whole.rank() &&
         std::ranges::all_of(i.users, [](auto* user) { return user->template is<Elementwise>(); });
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
  std::vector<bool> fixed;  // by instruction: it depends on constants only
  for (Instruction& i : module) {
    fixed.resize(module.id_limit());
    fixed[i.id] = follows_from_constants(i, fixed);
    if (!i.is<Dot>() || fixed[i.id] || !fixed[i.inputs[1].def->id] || rows_by_matrix(i) < 1 ||
        rows_by_matrix(i) > most_rows(i.inputs[1], context))
      continue;
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
