// SPDX-License-Identifier: Apache-2.0
#include "passes/reduce_precision.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/glob.h"
#include "ir/control.h"
#include "ir/core_ops.h"
#include "ops/build.h"
#include "passes/match.h"

namespace weft {
namespace {

/// Returns the instruction before the views of a value.
const Instruction& behind_views(Value value) {
  while (is_view(*value.def)) value = value.def->inputs[0];
  return *value.def;
}

/// The weights of a module in another type, each converted once. Conversions are inserted before views.
class Converted {
 public:
  Converted(Module& module, DType type) : module_(module), type_(type) {}

  Value of(Value value) {
    Instruction& i = *value.def;
    auto [known, is_new] = known_.try_emplace({&i, value.index});
    if (!is_new) return known->second;
    Value result = is_view(i) ? module_.append(i.op, {of(i.inputs[0])}) : convert(module_, value, type_);
    return known_[{&i, value.index}] = result;
  }

 private:
  Module& module_;
  DType type_;
  std::map<std::pair<const Instruction*, uint32_t>, Value> known_;
};

/// True if no finite weight becomes infinite in `type`. False for f16 weights that are not a constant behind views.
bool fits(Value weight, DType type) {
  if (type != DType::f16) return true;
  const auto* constant = behind_views(weight).as<Constant>();
  constexpr float largest = 65504;
  return constant && std::ranges::all_of(constant->tensor.as<float>(),
                                         [](float x) { return std::abs(x) <= largest || !std::isfinite(x); });
}

}  // namespace

bool reduce_precision(Module& module, DType type, const std::vector<std::string>& keep, bool multiplies) {
  bool changed = false;
  Converted converted(module, type);
  std::vector<bool> is_fixed = find_fixed(module);
  for (Instruction& i : module) {
    if (!i.is<Dot>() && !i.is<GroupedDot>() && !(multiplies && i.is<Convolution>())) continue;
    if (std::ranges::any_of(keep, [&](const std::string& pattern) {
          return matches_glob(i.source, pattern) || matches_glob(i.source, cat("*'", pattern, "'*"));
        }))
      continue;
    bool is_f32 = i.inputs[0].dtype() == DType::f32 && i.inputs[1].dtype() == DType::f32;
    if (!is_f32 || !is_fixed[behind_views(i.inputs[1]).id] || !fits(i.inputs[1], type)) continue;
    ReplaceScope scope(module, i);
    module.set_input(i, 1, converted.of(i.inputs[1]));
    changed = true;
  }
  return changed;
}

}  // namespace weft
