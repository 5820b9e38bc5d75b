// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <type_traits>

#include "wave.h"

/// Reading and writing operands: the values of constants, and the effects of modifiers.
namespace weft::amdemu {

/// The type of an operand's bits, which decides the value of an inline constant such as 1.0.
enum class Meaning : u8 { word, single, half, long_integer, double_precision };

template <class T>
constexpr Meaning meaning_of = std::is_same_v<T, f32>   ? Meaning::single
                               : std::is_same_v<T, f64> ? Meaning::double_precision
                               : sizeof(T) == 8         ? Meaning::long_integer
                               : sizeof(T) == 2         ? Meaning::half
                                                        : Meaning::word;

u64 constant_bits(const Operand& o, Meaning meaning);

/// Returns the value of one or two scalar registers, of a constant or of SCC.
u64 read_scalar(const Wave& w, const Operand& o, Meaning meaning = Meaning::word);
void write_scalar(Wave& w, const Operand& o, u64 value);
/// Reads a mask with a bit for each lane.
u64 read_mask(const Wave& w, const Operand& o);
void write_mask(Wave& w, const Operand& o, u64 mask);

/// Returns the lane that DPP reads from, or -1 where there is none.
int dpp_source(const Modifiers& m, u32 lane, u32 lanes);
/// Moves the lanes of the first source, `row`, into `moved` as DPP specifies; returns `moved`.
const u32* moved_by_dpp(const Wave& w, const Instruction& i, const u32* row, u32* moved);

/// Returns word `word` of a source as one u32 for each lane; uses `room` if the values are not in a vector register.
const u32* source_row(const Wave& w, const Instruction& i, int operand, u32* room, int word = 0,
                      Meaning meaning = Meaning::word);

/// Writes `row` to the active lanes of a register.
void write_row(Wave& w, const Operand& o, int word, const u32* row);
/// Writes the low or high 16 bits of active lanes. The other half is kept; gfx9 mostly clears the high half instead.
void write_half(Wave& w, const Instruction& i, const u32* row, bool high);
/// Writes the part of each active lane's register that SDWA selects.
void write_part(Wave& w, const Instruction& i, u32* row);

/// Returns the part of `value` that SDWA selects, sign-extended if `sign_extend`.
u32 sdwa_part_of(u32 value, u8 part, bool sign_extend);

/// Fills values[lane] from operand `operand`; `source` is its number among the sources (op_sel and SDWA use this
/// number).
template <class T>
void read_vector(const Wave& w, const Instruction& i, int operand, int source, T* values);

template <class T>
void read_longs(const Wave& w, const Instruction& i, int operand, T* values) {
  const Operand& o = i[operand];
  u32 low_room[max_lanes], high_room[max_lanes];
  const u32 *low = low_room, *high = high_room;
  if (o.is_register()) {
    low = source_row(w, i, operand, low_room, 0), high = source_row(w, i, operand, high_room, 1);
  } else {
    const u64 value = read_scalar(w, o, meaning_of<T>);
    for (u32 l = 0; l < max_lanes; ++l)
      low_room[l] = static_cast<u32>(value), high_room[l] = static_cast<u32>(value >> 32);
  }
  for_lanes(w, [&](u32 l) {
    u64 bits = low[l] | static_cast<u64>(high[l]) << 32;
    if (o.absolute) bits &= ~u64{0} >> 1;
    if (o.negate) bits ^= u64{1} << 63;
    values[l] = std::bit_cast<T>(bits);
  });
}

template <class T>
void read_halves(const Wave& w, const Instruction& i, int operand, int source, T* values) {
  const Operand& o = i[operand];
  const Sdwa& sdwa = i.modifiers.sdwa;
  u32 room[max_lanes];
  const u32* row = source_row(w, i, operand, room, 0, Meaning::half);
  const bool high = i.modifiers.has_op_sel && is_on(i.modifiers.op_sel, static_cast<u32>(source));
  for_lanes(w, [&](u32 l) {
    u32 bits = row[l] >> (high ? 16 : 0);
    if (sdwa.used && source < 2) bits = sdwa_part_of(row[l], sdwa.from[static_cast<size_t>(source)], o.sign_extend);
    if (o.absolute) bits &= 0x7fff;
    if (o.negate) bits ^= 0x8000;
    values[l] = std::bit_cast<T>(static_cast<u16>(bits));
  });
}

template <class T>
void read_words(const Wave& w, const Instruction& i, int operand, int source, T* values) {
  const Operand& o = i[operand];
  const Sdwa& sdwa = i.modifiers.sdwa;
  u32 room[max_lanes];
  const u32* row = source_row(w, i, operand, room, 0, meaning_of<T>);
  const u32 keep = o.absolute ? 0x7fffffff : ~0u, flip = o.negate ? 0x80000000 : 0;
  const u8 part = sdwa.used && source < 2 ? sdwa.from[static_cast<size_t>(source)] : 6;
  for_lanes(w, [&](u32 l) {
    const u32 bits = part == 6 ? row[l] : sdwa_part_of(row[l], part, o.sign_extend);
    values[l] = std::bit_cast<T>((bits & keep) ^ flip);
  });
}

template <class T>
void read_vector(const Wave& w, const Instruction& i, int operand, int source, T* values) {
  if constexpr (sizeof(T) == 8) read_longs(w, i, operand, values);
  else if constexpr (sizeof(T) == 2) read_halves(w, i, operand, source, values);
  else read_words(w, i, operand, source, values);
}

/// Returns a pointer to the operand's values: to the registers if no modifier applies, otherwise to `room`.
template <class T>
const T* vector_source(const Wave& w, const Instruction& i, int operand, int source, T* room) {
  const Operand& o = i[operand];
  if constexpr (sizeof(T) == 4) {
    const bool as_it_is = i.plain && !o.negate && !o.absolute;
    if (as_it_is && o.kind == OperandKind::vector) return reinterpret_cast<const T*>(w.row(o));
  }
  read_vector(w, i, operand, source, room);
  return room;
}

/// Applies the output modifiers of floats: a factor, then clamping to [0, 1], where NaN becomes 0.
template <class T>
void apply_output_modifiers(const Wave& w, const Modifiers& m, T* values) {
  if (m.output) {
    const T factor = static_cast<T>(m.output == 1 ? 2.0f : m.output == 2 ? 4.0f : 0.5f);
    for_lanes(w, [&](u32 l) { values[l] = values[l] * factor; });
  }
  if (!m.clamp) return;
  const T zero = static_cast<T>(0.0f), one = static_cast<T>(1.0f);
  for_lanes(w, [&](u32 l) { values[l] = values[l] > zero ? (values[l] < one ? values[l] : one) : zero; });
}

template <class T>
constexpr bool is_real = std::is_floating_point_v<T> || std::is_same_v<T, f16>;

/// Writes the results of active lanes to operand 0.
template <class T>
void write_vector(Wave& w, const Instruction& i, T* values) {
  const Modifiers& m = i.modifiers;
  if constexpr (is_real<T>) apply_output_modifiers(w, m, values);
  u32 low[max_lanes];
  if constexpr (sizeof(T) == 8) {
    u32 high[max_lanes];
    for_lanes(w, [&](u32 l) {
      const u64 bits = std::bit_cast<u64>(values[l]);
      low[l] = static_cast<u32>(bits), high[l] = static_cast<u32>(bits >> 32);
    });
    write_row(w, i[0], 0, low);
    write_row(w, i[0], 1, high);
    return;
  } else if constexpr (sizeof(T) == 2) {
    for_lanes(w, [&](u32 l) { low[l] = std::bit_cast<u16>(values[l]); });
  } else {
    for_lanes(w, [&](u32 l) { low[l] = std::bit_cast<u32>(values[l]); });
  }
  if (m.sdwa.used) return write_part(w, i, low);
  if (sizeof(T) == 2) return write_half(w, i, low, m.has_op_sel && is_on(m.op_sel, static_cast<u32>(i.count - 1)));
  write_row(w, i[0], 0, low);
}

/// True if an instruction may write its results directly to the register: 32 bits, no modifier, all lanes active.
template <class T>
bool writes_directly(const Wave& w, const Instruction& i) {
  return sizeof(T) == 4 && i.plain && i[0].kind == OperandKind::vector && w.exec_mask() == w.all_lanes();
}

}  // namespace weft::amdemu
