// SPDX-License-Identifier: Apache-2.0
#include "operands.h"

namespace weft::amdemu {

u64 constant_bits(const Operand& o, Meaning meaning) {
  const bool wide = meaning == Meaning::double_precision || meaning == Meaning::long_integer;
  if (o.is_float && wide) return std::bit_cast<u64>(o.value);
  if (o.is_float && meaning == Meaning::half) return bits_of(static_cast<f16>(o.value));
  if (o.is_float) return bits_of(static_cast<f32>(o.value));
  return o.literal && meaning == Meaning::double_precision ? o.bits << 32 : o.bits;
}

u64 read_scalar(const Wave& w, const Operand& o, Meaning meaning) {
  switch (o.kind) {
    case OperandKind::scalar: return o.index == null ? 0 : o.words >= 2 ? w.read_pair(o.index) : w.s[o.index];
    case OperandKind::constant: return constant_bits(o, meaning);
    case OperandKind::scc: return w.scc;
    case OperandKind::none:
    case OperandKind::vector:
    case OperandKind::accumulator:
    case OperandKind::off: break;
  }
  throw Fault("a scalar operand is none");
}

void write_scalar(Wave& w, const Operand& o, u64 value) {
  if (!o.is_scalar()) return;
  w.s[o.index] = static_cast<u32>(value);
  if (o.words >= 2) w.s[o.index + 1] = static_cast<u32>(value >> 32);
}

u64 read_mask(const Wave& w, const Operand& o) {
  if (o.kind == OperandKind::constant) return o.bits & w.all_lanes();
  if (!o.is_scalar()) return 0;
  return w.lanes == 64 ? w.read_pair(o.index) : w.s[o.index];
}

void write_mask(Wave& w, const Operand& o, u64 mask) {
  if (!o.is_scalar()) return;
  w.s[o.index] = static_cast<u32>(mask);
  if (w.lanes == 64) w.s[o.index + 1] = static_cast<u32>(mask >> 32);
}

int dpp_source(const Modifiers& m, u32 lane, u32 lanes) {
  const int l = static_cast<int>(lane), all = static_cast<int>(lanes), n = m.dpp_argument;
  const int row = l & ~15, column = l & 15;
  switch (m.dpp) {
    case Dpp::none: return l;
    case Dpp::quad_perm: return (l & ~3) | (n >> 2 * (l & 3) & 3);
    case Dpp::row_shl: return column + n < 16 ? l + n : -1;
    case Dpp::row_shr: return column >= n ? l - n : -1;
    case Dpp::row_ror: return row | ((column - n) & 15);
    case Dpp::wave_shl: return l + 1 < all ? l + 1 : -1;
    case Dpp::wave_shr: return l - 1;
    case Dpp::wave_rol: return (l + 1) % all;
    case Dpp::wave_ror: return (l + all - 1) % all;
    case Dpp::row_mirror: return row | (15 - column);
    case Dpp::row_half_mirror: return (l & ~7) | (7 - (l & 7));
    case Dpp::row_bcast15: return l >= 16 ? row - 1 : -1;
    case Dpp::row_bcast31: return l >= 32 ? 31 : -1;
    case Dpp::row_share: return row | n;
    case Dpp::row_xmask: return row | (column ^ n);
    case Dpp::dpp8: return (l & ~7) | m.dpp8[static_cast<size_t>(l & 7)];
  }
  return -1;
}

const u32* moved_by_dpp(const Wave& w, const Instruction& i, const u32* row, u32* moved) {
  u32 result[max_lanes];
  for_lanes(w, [&](u32 l) {
    const int from = dpp_source(i.modifiers, l, w.lanes);
    const bool reads = from >= 0 && (i.modifiers.fetch_inactive || is_on(w.dpp_exec, static_cast<u32>(from)));
    result[l] = reads ? row[from] : 0;
  });
  std::memcpy(moved, result, w.lanes * sizeof(u32));
  return moved;
}

const u32* source_row(const Wave& w, const Instruction& i, int operand, u32* room, int word, Meaning meaning) {
  const Operand& o = i[operand];
  if (o.is_register()) {
    const bool moves = i.modifiers.dpp != Dpp::none && operand == i.first_source;
    return moves ? moved_by_dpp(w, i, w.row(o, word), room) : w.row(o, word);
  }
  u32 value = 0;
  if (o.is_scalar()) value = w.s[o.index + static_cast<u32>(word)];
  else if (o.kind == OperandKind::constant) value = static_cast<u32>(constant_bits(o, meaning) >> 32 * word);
  else if (o.kind == OperandKind::scc) value = w.scc;
  for (u32 l = 0; l < max_lanes; ++l) room[l] = value;
  return room;
}

void write_row(Wave& w, const Operand& o, int word, const u32* row) {
  u32* to = w.row(o, word);
  const u64 active = w.exec_mask();
  if (active == w.all_lanes()) std::memcpy(to, row, w.lanes * sizeof(u32));
  else for_lanes(w, [&](u32 l) { to[l] = is_on(active, l) ? row[l] : to[l]; });
}

void write_half(Wave& w, const Instruction& i, const u32* row, bool high) {
  u32* to = w.row(i[0]);
  const bool zeroes = w.generation < 10 && !high && !i.keeps_high;
  const u32 keep = high ? 0xffff : zeroes ? 0 : 0xffff0000;
  for_active(w, [&](u32 l) { to[l] = (to[l] & keep) | (row[l] & 0xffff) << (high ? 16 : 0); });
}

void write_part(Wave& w, const Instruction& i, u32* row) {
  const Sdwa& sdwa = i.modifiers.sdwa;
  if (sdwa.to == 6) return write_row(w, i[0], 0, row);
  const u32* old = w.row(i[0]);
  const u32 width = sdwa.to < 4 ? 8 : 16, shift = sdwa.to < 4 ? 8u * sdwa.to : 16u * (sdwa.to - 4u);
  const u32 mask = ((1u << width) - 1) << shift, above = ~mask & ~((1u << shift) - 1);
  for_lanes(w, [&](u32 l) {
    u32 bits = row[l] << shift & mask;
    const bool negative = bits >> (shift + width - 1) & 1;
    if (sdwa.unused == 2) bits |= old[l] & ~mask;
    else if (sdwa.unused == 1 && negative) bits |= above;
    row[l] = bits;
  });
  write_row(w, i[0], 0, row);
}

u32 sdwa_part_of(u32 value, u8 part, bool sign_extend) {
  if (part == 6) return value;
  const u32 bits = part < 4 ? value >> 8 * part & 0xff : value >> 16 * (part - 4) & 0xffff;
  if (!sign_extend) return bits;
  return static_cast<u32>(part < 4 ? static_cast<i32>(static_cast<i8>(bits))
                                   : static_cast<i32>(static_cast<i16>(bits)));
}

}  // namespace weft::amdemu
