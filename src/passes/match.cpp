// SPDX-License-Identifier: Apache-2.0
#include "passes/match.h"

#include <algorithm>
#include <array>

#include "base/watch.h"
#include "ir/control.h"
#include "ir/core_ops.h"
#include "ir/symbols.h"
#include "ops/views.h"

namespace weft {

/// True if `to` is wider and represents all values of `from`; false between integers and floats and for 8-bit floats.
static bool widens(DType from, DType to) {
  if (from == DType::boolean) return is_integer(to) || is_float(to);
  if (is_float(from) && is_float(to)) {
    constexpr std::array order = {DType::f16, DType::f32, DType::f64};
    auto place = [&](DType type) { return std::ranges::find(order, type == DType::bf16 ? DType::f16 : type); };
    bool both_narrow = bits(from) == 16 && bits(to) == 16;
    return !both_narrow && place(from) != order.end() && place(to) != order.end() && place(from) < place(to);
  }
  bool keeps_sign = is_signed_integer(to) || !is_signed_integer(from);
  return is_integer(from) && is_integer(to) && keeps_sign && bits(from) < bits(to);
}

bool rewrite_each(Module& module, std::span<const Rewrite> rewrites) {
  bool changed = false;
  for (Instruction& i : module) {
    check_watch();
    if (i.users.empty() && !module.is_result(i.result())) continue;
    ReplaceScope scope(module, i);
    for (Rewrite rewrite : rewrites) {
      auto better = rewrite(module, i);
      if (!better) continue;
      module.replace(i.result(), *better);
      changed = true;
      break;
    }
  }
  return changed;
}

std::optional<double> splat_number(Value value) {
  Instruction* def = value.def;
  while (def->is<Broadcast>() || def->is<Reshape>() || def->is<Transpose>() || def->is<Slice>())
    def = def->inputs[0].def;
  const auto* constant = def->as<Constant>();
  return constant ? splat_value(constant->tensor) : std::nullopt;
}

Value without_broadcast(Value value) {
  while (value.def->is<Broadcast>()) value = value.def->inputs[0];
  return value;
}

Value before_widening(Value value) {
  const auto* op = value.def->as<Convert>();
  return op && widens(value.def->inputs[0].dtype(), op->to) ? value.def->inputs[0] : value;
}

Instruction* as_fn(Value value, Fn fn) {
  const auto* op = value.def->as<Elementwise>();
  return op && op->fn == fn ? value.def : nullptr;
}

Scaled without_scale(Value value) {
  if (Instruction* i = as_fn(value, Fn::mul)) {
    for (size_t side : {0, 1}) {
      if (auto number = splat_number(i->inputs[side])) return {i->inputs[1 - side], *number};
    }
  }
  if (Instruction* i = as_fn(value, Fn::div)) {
    if (auto number = splat_number(i->inputs[1])) return {i->inputs[0], 1 / *number};
  }
  return {value, 1};
}

bool only_read_by(Value value, const Instruction* user) {
  return std::ranges::all_of(value.def->users, [&](const Instruction* u) { return u == user; }) &&
         !value.def->parent->is_result(value);
}

bool is_view(const Instruction& i) { return i.is<Reshape>() || i.is<Transpose>() || i.is<Broadcast>(); }

/// Marks in `fixed` those parameters of a body that get values which depend on constants only. A body has one caller.
static void note_fixed_parameters(const Module& body, std::vector<bool>& fixed) {
  for (const auto& outer : body.program().modules()) {
    for (const Instruction& i : *outer) {
      auto found = std::ranges::find(i.modules, &body);
      if (found == i.modules.end()) continue;
      std::vector<bool> known = find_fixed(*outer);
      auto operands = body_operands(i, found - i.modules.begin());
      for (size_t k = i.is<Loop>() ? i.as<Loop>()->carried : 0; k < operands.size(); ++k)
        fixed[body.parameters()[k].def->id] = known[operands[k].def->id];
      return;
    }
  }
}

std::vector<bool> find_fixed(const Module& module) {
  std::vector<bool> fixed(module.id_limit());
  if (&module != &module.program().main()) note_fixed_parameters(module, fixed);
  for (const Instruction& i : module) fixed[i.id] = fixed[i.id] || follows_from_constants(i, fixed);
  return fixed;
}

}  // namespace weft
