// SPDX-License-Identifier: Apache-2.0
#include "passes/merge_common.h"

#include <unordered_map>

#include "base/hash.h"
#include "base/watch.h"
#include "ir/core_ops.h"

namespace weft {
namespace {

/// Returns a key that equal instructions share; instructions with equal keys are then compared.
std::string key_of(const Instruction& i) {
  std::string key = cat(i.op.name());
  for (const Value& input : i.inputs) key += cat(" ", input.def->id, ".", input.index);
  if (const auto* c = i.as<Constant>()) {
    size_t head = std::min<size_t>(c->tensor.data.size(), 256);
    key += cat(" ", c->tensor.dtype, c->tensor.dims, hash128(c->tensor.data.part(0, head)));
  }
  return key;
}

/// Returns a longer key that includes an operator's fields, or the hash of a whole constant.
std::string full_key_of(const Instruction& i) {
  const auto* c = i.as<Constant>();
  return cat(key_of(i), " ", c ? to_string(hash128(c->tensor.data)) : to_string(i.op));
}

bool may_merge(const Instruction& i) {
  return !i.is<Parameter>() && i.modules.empty() && !i.op.info().has_side_effects;
}

using Seen = std::unordered_map<std::string, std::vector<Instruction*>>;

Instruction* equal_in(const std::vector<Instruction*>& candidates, const Instruction& i) {
  auto same = std::ranges::find_if(candidates, [&](Instruction* other) { return other->op == i.op; });
  return same == candidates.end() ? nullptr : *same;
}

/// Returns an earlier equal instruction; if there is none, adds `i` to `seen` and returns null. Uses the longer key for
/// entries with many instructions: 10,000 slices of one operand would need 10,000 x 10,000 comparisons in one entry.
Instruction* find_same(Seen& seen, Instruction& i) {
  constexpr size_t crowded = 16;
  auto* alike = &seen[key_of(i)];
  Instruction* same = equal_in(*alike, i);
  if (!same && alike->size() >= crowded) alike = &seen[full_key_of(i)], same = equal_in(*alike, i);
  if (!same) alike->push_back(&i);
  return same;
}

}  // namespace

bool merge_common(Module& module) {
  bool changed = false;
  Seen seen;
  for (Instruction& i : module) {
    check_watch();
    if (!may_merge(i)) continue;
    Instruction* same = find_same(seen, i);
    if (!same) continue;
    for (uint32_t k = 0; k < i.types.size(); ++k) module.replace(i.result(k), same->result(k));
    module.erase(i);
    changed = true;
  }
  return changed;
}

}  // namespace weft
