// SPDX-License-Identifier: Apache-2.0
#include "passes/reduce_precision.h"

#include <algorithm>
#include <cmath>

#include "base/glob.h"
#include "base/numeric.h"
#include "ir/core_ops.h"
#include "ops/build.h"

namespace weft {
namespace {

/// The constant behind a weight; null for weights that are computed.
const Constant* constant_behind(Value value) {
  while (value.def->is<Reshape>() || value.def->is<Transpose>() || value.def->is<Broadcast>())
    value = value.def->inputs[0];
  return value.def->as<Constant>();
}

/// The weight in another type. Its views stay outside, so that what is converted has fixed sizes and is converted once.
Value converted_weight(Module& module, Value value, DType type) {
  Instruction& i = *value.def;
  if (i.is<Constant>()) return convert(module, value, type);
  return module.append(i.op, {converted_weight(module, i.inputs[0], type)});
}

bool fits(const Tensor& tensor, DType type) {
  if (type != DType::f16) return true;
  constexpr float largest = 65504;
  return std::ranges::all_of(tensor.as<float>(), [](float x) { return std::abs(x) <= largest || !std::isfinite(x); });
}

}  // namespace

bool reduce_precision(Module& module, DType type, const std::vector<std::string>& keep, bool convolutions) {
  bool changed = false;
  for (Instruction& i : module) {
    if (!i.is<Dot>() && !i.is<GroupedDot>() && !(convolutions && i.is<Convolution>())) continue;
    if (std::ranges::any_of(keep, [&](const std::string& pattern) {
          return matches_glob(i.source, pattern) || matches_glob(i.source, cat("*'", pattern, "'*"));
        }))
      continue;
    const Constant* weight = constant_behind(i.inputs[1]);
    bool is_f32 = i.inputs[0].dtype() == DType::f32 && i.inputs[1].dtype() == DType::f32;
    if (!weight || !is_f32 || !fits(weight->tensor, type)) continue;
    ReplaceScope scope(module, i);
    module.set_input(i, 1, converted_weight(module, i.inputs[1], type));
    changed = true;
  }
  return changed;
}

}  // namespace weft
