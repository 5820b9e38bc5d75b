// SPDX-License-Identifier: Apache-2.0
#include "passes/fold_constants.h"

#include <algorithm>
#include <optional>
#include <set>

#include "ir/core_ops.h"
#include "ir/symbols.h"
#include "ops/boxes.h"
#include "ops/build.h"
#include "ops/dot.h"
#include "ops/indexed.h"
#include "ops/quantize.h"
#include "ops/wide.h"

namespace weft {
namespace {

constexpr int64_t largest_result = int64_t{64} << 20, largest_copy = int64_t{64} << 10;

bool only_moves_or_widens(const Instruction& i) {
  return i.is<Reshape>() || i.is<Transpose>() || i.is<Broadcast>() || i.is<Slice>() || i.is<Pad>() || i.is<Concat>() ||
         i.is<Iota>() || i.is<Dequantize>();
}

int64_t result_bytes(const Instruction& i) {
  int64_t total = 0;
  for (const Type& type : i.types) total += byte_size(type.shape.dtype, type.shape.elements().value());
  return total;
}

int64_t elements(const Type& type) { return type.shape.elements().value(); }

/// Returns the factors of the number of inner steps per result element: terms of a sum, taps of a window, keys, boxes.
std::vector<int64_t> looked_at(const Instruction& i) {
  auto size = [&](size_t input, int64_t axis) { return i.inputs[input].dims()[axis].value(); };
  if (i.is<Dot>() || i.is<GroupedDot>()) return {size(0, i.inputs[0].rank() - 1)};
  if (i.is<Convolution>()) return {elements(i.inputs[1].type()) / std::max<int64_t>(size(1, 0), 1)};
  if (i.is<Attention>()) return {size(1, i.inputs[1].rank() - 2)};
  if (i.is<NonMaxSuppression>()) return {size(0, 1)};
  if (const auto* pool = i.as<Pool>()) return pool->kernel;
  return {};
}

/// Estimates the work: the elements of the operands plus the inner steps of all result elements; at most INT64_MAX.
int64_t work(const Instruction& i) {
  int64_t total = 0;
  for (const Type& type : i.types) total += elements(type);
  for (int64_t factor : looked_at(i)) {
    if (__builtin_mul_overflow(total, factor, &total)) return INT64_MAX;
  }
  for (const Value& input : i.inputs) {
    if (__builtin_add_overflow(total, elements(input.type()), &total)) return INT64_MAX;
  }
  return total;
}

/// Returns the bytes of the results minus the bytes of operands that only this instruction reads, but at least 0.
int64_t added_bytes(const Instruction& i) {
  int64_t added = result_bytes(i);
  for (const Value& input : i.inputs) {
    if (input.def->users.size() == 1) added -= static_cast<int64_t>(input.def->as<Constant>()->tensor.data.size());
  }
  return std::max<int64_t>(added, 0);
}

thread_local FoldingScope* scope = nullptr;

/// Deducts the cost of folding `i` from the budget; returns false, without deducting, if too little is left.
bool spend(FoldingScope& left, const Instruction& i) {
  int64_t bytes = added_bytes(i), steps = work(i);
  if (bytes > left.bytes || steps > left.work) return false;
  left.bytes -= bytes;
  left.work -= steps;
  return true;
}

/// Erases `i` and the constants that only `i` reads, so that folding a long chain frees memory on the way.
void erase_with_operands(Module& module, Instruction& i) {
  std::set<Instruction*> operands;
  for (const Value& input : i.inputs) operands.insert(input.def);
  module.erase(i);
  for (Instruction* operand : operands) {
    if (operand->users.empty() && !module.is_result(operand->result())) module.erase(*operand);
  }
}

bool is_folded(const Type& type) { return type.is_tensor() && type.shape.is_static() && !is_complex(type.shape.dtype); }

/// True if the instruction repeats a constant for arithmetic on computed values, as for a bias for each channel. Kernels
/// read the constant itself, which takes less memory than its copies.
bool repeats_for_kernels(const Instruction& i) {
  constexpr int64_t small = 1024;  // bytes
  auto is_computed = [](const Value& v) {
    return !v.def->is<Constant>() && !(v.def->is<Broadcast>() && v.def->inputs[0].def->is<Constant>());
  };
  return i.is<Broadcast>() && result_bytes(i) > small && std::ranges::all_of(i.users, [&](const Instruction* user) {
           return user->is<Elementwise>() && std::ranges::any_of(user->inputs, is_computed);
         });
}

bool can_fold(const Instruction& i) {
  if (i.is<Constant>() || i.is<Parameter>() || i.is<Sizes>() || !i.modules.empty()) return false;
  if (!i.op.info().evaluate || i.op.info().has_side_effects || is_quantized_weight(i)) return false;
  if (!std::ranges::all_of(i.inputs, [](const Value& v) { return v.def->is<Constant>() && is_folded(v.type()); }))
    return false;
  if (!std::ranges::all_of(i.types, is_folded) || has_symbols(i.op) || repeats_for_kernels(i)) return false;
  return result_bytes(i) <= (only_moves_or_widens(i) ? largest_copy : largest_result);
}

}  // namespace

FoldingScope::FoldingScope(const Program& program) : outer_(scope) {
  int64_t weights = 0;
  for (const auto& module : program.modules()) {
    for (const Instruction& i : *module) {
      if (const auto* known = i.as<Constant>()) weights += static_cast<int64_t>(known->tensor.data.size());
    }
  }
  bytes = (int64_t{128} << 20) + 2 * weights;
  work = (int64_t{1} << 26) + 8 * weights;
  scope = this;
}
FoldingScope::~FoldingScope() { scope = outer_; }

bool fold_constants(Module& module) {
  std::optional<FoldingScope> own;
  if (!scope) own.emplace(module.program());
  bool changed = false;
  for (Instruction& i : module) {
    bool is_needed = !i.users.empty() || module.is_result(i.result());
    if (!is_needed || !can_fold(i) || !spend(*scope, i)) continue;
    StringScope strings;
    std::vector<Wide> in;
    for (const Value& input : i.inputs) in.push_back(to_wide(input.def->as<Constant>()->tensor));
    std::vector<Wide> out = i.op.info().evaluate(i.op, in);
    ReplaceScope place(module, i);
    for (uint32_t k = 0; k < out.size(); ++k) module.replace(i.result(k), constant(module, to_tensor(out[k])));
    erase_with_operands(module, i);
    changed = true;
  }
  return changed;
}

}  // namespace weft
