// SPDX-License-Identifier: Apache-2.0
#include "passes/merge_common.h"

#include <unordered_map>

#include "base/hash.h"
#include "base/watch.h"
#include "ir/core_ops.h"

namespace weft {
namespace {

/// Equal instructions have equal keys; what has the same key is compared.
std::string key_of(const Instruction& i) {
  std::string key = cat(i.op.name());
  for (const Value& input : i.inputs) key += cat(" ", input.def->id, ".", input.index);
  if (const auto* c = i.as<Constant>()) {
    size_t head = std::min<size_t>(c->tensor.data.size(), 256);
    key += cat(" ", c->tensor.dtype, c->tensor.dims, hash128(c->tensor.data.part(0, head)));
  }
  return key;
}

bool may_merge(const Instruction& i) {
  return !i.is<Parameter>() && i.modules.empty() && !i.op.info().has_side_effects;
}

}  // namespace

bool merge_common(Module& module) {
  bool changed = false;
  std::unordered_map<std::string, std::vector<Instruction*>> seen;
  for (Instruction& i : module) {
    heed_watch();
    if (!may_merge(i)) continue;
    auto& candidates = seen[key_of(i)];
    auto same = std::ranges::find_if(candidates, [&](Instruction* other) { return other->op == i.op; });
    if (same == candidates.end()) {
      candidates.push_back(&i);
      continue;
    }
    for (uint32_t k = 0; k < i.types.size(); ++k) module.replace(i.result(k), (*same)->result(k));
    module.erase(i);
    changed = true;
  }
  return changed;
}

}  // namespace weft
