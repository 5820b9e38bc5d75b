// SPDX-License-Identifier: Apache-2.0
#include "lower/cpu/mac.h"

#include <algorithm>

#include "base/chip_features.h"
#include "base/error.h"
#include "ops/dot.h"
#include "ops/interval.h"

namespace weft {

/// True for 8-bit integers and for i16, which holds 8-bit integers minus a zero point.
static bool is_short(DType type) { return type == DType::u8 || type == DType::i8 || type == DType::i16; }

bool has_short_product(const Instruction& instruction) {
  return is_short(instruction.inputs[0].dtype()) && is_short(instruction.inputs[1].dtype());
}

/// True if the weights fit into the cache in 16 bits. Packed in 16 bits, they need no widening for each tile of rows.
static bool fits_widened(Value weight) {
  constexpr int64_t most = int64_t{1} << 18;
  return weight.shape().elements().upper_bound() <= most;
}

/// Returns the number of input channels of a group, or the k of a matrix product.
static Dim summed(const Instruction& instruction) {
  const auto* op = instruction.as<Convolution>();
  if (!op) return instruction.inputs[0].dims().back();
  const Dims& weights = instruction.inputs[1].dims();
  return op->transposed ? exact_divide(weights[0], op->groups).value_or(1) : weights[1];
}

/// Returns the product's number of columns in one group.
static Dim columns(const Instruction& instruction) {
  const auto* op = instruction.as<Convolution>();
  const Dims& b = instruction.inputs[1].dims();
  if (!op) return b.back();
  return op->transposed ? b[1] : exact_divide(b[0], op->groups).value_or(b[0]);
}

double largest_of_a(const Instruction& instruction) {
  const auto& inputs = instruction.inputs;
  double x = interval_of(inputs[0]).size();
  bool has_padding = instruction.is<Convolution>() && inputs.size() > 2;
  return has_padding ? std::max(x, interval_of(inputs[2]).size()) : x;
}

Mac with_quads(const Lowering& lowering, const Mac& direct, const Dim& count, double max_a, double max_b) {
  bool is_faster = lowering.chip().kind == ChipKind::x86 && !has_feature(lowering.chip(), "avx512f");
  bool is_exact = max_a + max_b <= 32767;
  if (!is_faster || !is_exact || !count.is_multiple_of(4) || count.lower_bound() <= 0) return direct;
  return {macs::MacQuads, "tasks::quad_tile", tasks::quad_tile, direct.packed};
}

/// Returns the AMX form of `direct` if the chip has this feature, such as "amx-int8", else `direct`.
static Mac on_amx(Mac direct, const Lowering& lowering, const std::string& feature) {
  if (has_feature(lowering.chip(), feature)) direct.tile_name = "tasks::amx_tile", direct.tile = tasks::amx_tile;
  return direct;
}

/// Returns `wide` with AVX-512's tile for few columns if the product fits this tile.
static Mac for_columns(const Lowering& lowering, const Instruction& instruction, Mac wide) {
  constexpr auto narrow = tasks::avx512_narrow_tile;
  if (has_feature(lowering.chip(), "avx512f") && columns(instruction).upper_bound() <= narrow.nr())
    wide.tile_name = "tasks::avx512_narrow_tile", wide.tile = narrow;
  return wide;
}

/// Returns the Mac that multiplies pairs of bf16, for chips that can.
static Mac bf16_mac(const Lowering& lowering, const Instruction* instruction = nullptr) {
  const Mac pairs(macs::MacBf16Pairs, "native_tile", lowering.tile());
  return on_amx(instruction ? for_columns(lowering, *instruction, pairs) : pairs, lowering, "amx-bf16");
}

static Mac short_mac(const Lowering& lowering, const Instruction& instruction) {
  DType a = instruction.inputs[0].dtype(), b = instruction.inputs[1].dtype();
  tasks::GemmTile tile = lowering.tile();
  if (a == DType::u8 && b == DType::i8 && multiplies_bytes(lowering.chip()))
    return on_amx(for_columns(lowering, instruction, {macs::MacInt8, "native_tile", tile}), lowering, "amx-int8");
  DType packed = b == DType::i8 && !fits_widened(instruction.inputs[1]) ? DType::i8 : DType::i16;
  Mac pairs(macs::MacInt16, "native_tile", tile, packed);
  return with_quads(lowering, pairs, summed(instruction), largest_of_a(instruction),
                    interval_of(instruction.inputs[1]).size());
}

bool Mac::is_short(const Dim& k, size_t epilogue) const {
  bool fits = name == "MacF32" || (tile.lanes == 16 && !tile.amx && (direct == DType::bf16 || direct == DType::u8));
  return fits && k.upper_bound() <= group * tasks::partial_sum && epilogue <= 12;
}
std::string Mac::units_at(const std::string& address) const {
  return group == 1 ? address : cat("reinterpret_cast<const ", name, "::Unit*>(", address, ")");
}

void Mac::share(KernelBuilder& kernel) const {
  if (name == "MacQuads<i8>") kernel.share("micro.h", cat("Micro<MacQuads<i16>, ", tile_name, ">"));
  kernel.share("micro.h", cat("Micro<", name, ", ", tile_name, ">"));
}

Dim Mac::packed_elements(const Dim& columns, const Dim& units) const {
  return ceildiv(columns, tile.nr()) * Dim(tile.nr() * group) * (units + Dim(header));
}

Mac attention_mac(const Lowering& lowering, DType type) {
  if (type == DType::bf16 && multiplies(type, lowering.chip())) return bf16_mac(lowering);
  return {macs::MacF32, "native_tile", lowering.tile()};
}

Mac mac_for(const Lowering& lowering, const Instruction& instruction) {
  DType a = instruction.inputs[0].dtype(), b = instruction.inputs[1].dtype();
  tasks::GemmTile tile = lowering.tile();
  bool weights_are_narrow = a == DType::f32 && (b == DType::f16 || b == DType::bf16);
  if (a == b || weights_are_narrow) {
    switch (b) {
      case DType::f32: return for_columns(lowering, instruction, {macs::MacF32, "native_tile", tile});
      case DType::f64: return {macs::MacF64, "tasks::half_lanes(native_tile)", tasks::half_lanes(tile)};
      case DType::f16: return {macs::MacF16, "native_tile", tile};
      case DType::bf16:
        if (multiplies(DType::bf16, lowering.chip())) return bf16_mac(lowering, &instruction);
        return {macs::MacBf16, "native_tile", tile};
      default: break;
    }
  }
  if (has_short_product(instruction)) return short_mac(lowering, instruction);
  throw Error({.kind = ErrorKind::unsupported,
               .code = "E149",
               .what = cat("the cpu target has no ", instruction.op.name(), " of ", a, " by ", b),
               .where = instruction.source});
}

}  // namespace weft
