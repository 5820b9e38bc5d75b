// SPDX-License-Identifier: Apache-2.0
#include "passes/fold_constants.h"

#include <algorithm>

#include "ir/core_ops.h"
#include "ir/symbols.h"
#include "ops/build.h"
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

bool is_plain(const Type& type) { return type.is_tensor() && type.shape.is_static() && !is_complex(type.shape.dtype); }

bool can_fold(const Instruction& i) {
  if (i.is<Constant>() || i.is<Parameter>() || i.is<Sizes>() || !i.modules.empty()) return false;
  if (!i.op.info().evaluate || i.op.info().has_side_effects || is_quantized_weight(i)) return false;
  if (!std::ranges::all_of(i.inputs, [](const Value& v) { return v.def->is<Constant>() && is_plain(v.type()); }))
    return false;
  if (!std::ranges::all_of(i.types, is_plain) || has_symbols(i.op)) return false;
  return result_bytes(i) <= (only_moves_or_widens(i) ? largest_copy : largest_result);
}

}  // namespace

bool fold_constants(Module& module) {
  bool changed = false;
  for (Instruction& i : module) {
    bool is_needed = !i.users.empty() || module.is_result(i.result());
    if (!is_needed || !can_fold(i)) continue;
    TextScope texts;
    std::vector<Wide> in;
    for (const Value& input : i.inputs) in.push_back(to_wide(input.def->as<Constant>()->tensor));
    std::vector<Wide> out = i.op.info().evaluate(i.op, in);
    ReplaceScope scope(module, i);
    for (uint32_t k = 0; k < out.size(); ++k) module.replace(i.result(k), constant(module, to_tensor(out[k])));
    module.erase(i);
    changed = true;
  }
  return changed;
}

}  // namespace weft
