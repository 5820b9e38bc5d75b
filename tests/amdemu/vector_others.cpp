// SPDX-License-Identifier: Apache-2.0
// Instructions of the vector unit that cannot be written as a formula of one lane: carries, reads of other lanes, mixed
// precisions.
#include <algorithm>
#include <numeric>

#include "operands.h"
#include "semantics.h"

namespace weft::amdemu {
namespace {

// --- sums that carry -------------------------------------------------------------------------------------------------

struct CarryKind {
  bool subtract, reversed, carries_in;
};

template <CarryKind kind>
void carry(Wave& w, const Instruction& i) {  // operands: sum, carry out, a, b, carry in
  u32 a[max_lanes], b[max_lanes];
  read_vector(w, i, 2, 0, a);
  read_vector(w, i, 3, 1, b);
  const u64 carries = kind.carries_in ? read_mask(w, i[4]) : 0;
  u64 out = 0;
  for_lanes(w, [&](u32 l) {
    const u64 x = kind.reversed ? b[l] : a[l], y = kind.reversed ? a[l] : b[l], in = carries >> l & 1;
    const u64 sum = kind.subtract ? x - y - in : x + y + in;
    a[l] = static_cast<u32>(sum);
    out |= (sum >> 32 & 1) << l;
  });
  write_row(w, i[0], 0, a);
  write_mask(w, i[1], out & w.exec_mask());
}

void write_long_sum(Wave& w, const Instruction& i, u64* sums, u64 carries) {
  write_vector(w, i, sums);
  write_mask(w, i[1], carries & w.exec_mask());
}

void mad_u64_u32(Wave& w, const Instruction& i) {
  u32 a[max_lanes], b[max_lanes];
  u64 c[max_lanes], carries = 0;
  read_vector(w, i, 2, 0, a);
  read_vector(w, i, 3, 1, b);
  read_vector(w, i, 4, 2, c);
  for_lanes(w, [&](u32 l) {
    const u64 sum = static_cast<u64>(a[l]) * b[l] + c[l];
    carries |= static_cast<u64>(sum < c[l]) << l;
    c[l] = sum;
  });
  write_long_sum(w, i, c, carries);
}

void mad_i64_i32(Wave& w, const Instruction& i) {
  i32 a[max_lanes], b[max_lanes];
  i64 c[max_lanes];
  u64 sums[max_lanes], carries = 0;
  read_vector(w, i, 2, 0, a);
  read_vector(w, i, 3, 1, b);
  read_vector(w, i, 4, 2, c);
  for_lanes(w, [&](u32 l) {
    const i64 product = static_cast<i64>(a[l]) * b[l];
    i64 sum;
    carries |= static_cast<u64>(__builtin_add_overflow(product, c[l], &sum)) << l;
    sums[l] = static_cast<u64>(sum);
  });
  write_long_sum(w, i, sums, carries);
}

// --- selection -------------------------------------------------------------------------------------------------------

template <class T>
void cndmask(Wave& w, const Instruction& i) {
  const u64 mask = i.count > 3 ? read_mask(w, i[3]) : w.vcc_mask();
  T a[max_lanes], b[max_lanes];
  read_vector(w, i, 1, 0, a);
  read_vector(w, i, 2, 1, b);
  for_lanes(w, [&](u32 l) { a[l] = is_on(mask, l) ? b[l] : a[l]; });
  write_vector(w, i, a);
}

// --- division --------------------------------------------------------------------------------------------------------

template <class T>
struct DivisionLimits;  // AMD's limits of exponents for v_div_scale and v_div_fmas
template <>
struct DivisionLimits<f32> {
  static constexpr int far_apart = 96, small = 23, scale = 64, bias = 127;
};
template <>
struct DivisionLimits<f64> {
  static constexpr int far_apart = 768, small = 53, scale = 128, bias = 1023;
};

i32 raw_exponent(f32 x) { return static_cast<i32>(bits_of(x) >> 23 & 0xff); }
i32 raw_exponent(f64 x) { return static_cast<i32>(std::bit_cast<u64>(x) >> 52 & 0x7ff); }

template <class T>
bool is_denormal(T x) {
  return std::fpclassify(x) == FP_SUBNORMAL;
}
bool is_denormal_f32(f64 x) { return x != 0 && std::fabs(x) < 0x1p-126; }
template <class T>
bool quotient_is_denormal(T n, T d) {
  if constexpr (sizeof(T) == 4) return is_denormal_f32(static_cast<f64>(n) / static_cast<f64>(d));
  return is_denormal(n / d);
}

/// Scales `x`, which is the denominator or the numerator, so that the steps of the division neither overflow nor lose
/// bits; returns whether the last step must scale back.
template <class T>
bool scale_for_division(T& x, T denominator, T numerator) {
  using Limits = DivisionLimits<T>;
  const T given = x, up = std::ldexp(x, Limits::scale);
  if (numerator == 0 || denominator == 0) {
    x = std::numeric_limits<T>::quiet_NaN();
    return false;
  }
  const bool denominator_given = given == denominator, numerator_given = given == numerator;
  if (raw_exponent(numerator) - raw_exponent(denominator) >= Limits::far_apart) {
    if (denominator_given) x = up;
    return true;
  }
  const bool tiny_inverse = quotient_is_denormal(T(1), denominator),
             tiny = quotient_is_denormal(numerator, denominator);
  if (is_denormal(denominator)) {
    x = up;
  } else if (tiny_inverse && tiny) {  // AMD's manual multiplies by 2^scale here, which overflows
    if (denominator_given) x = std::ldexp(x, -Limits::scale);
    return true;
  } else if (tiny_inverse) {
    x = std::ldexp(x, -Limits::scale);
  } else if (tiny) {
    if (numerator_given) x = up;
    return true;
  } else if (raw_exponent(numerator) <= Limits::small) {
    x = up;
  }
  return false;
}

template <class T>
void div_scale(Wave& w, const Instruction& i) {
  T x[max_lanes], denominator[max_lanes], numerator[max_lanes];
  read_vector(w, i, 2, 0, x);
  read_vector(w, i, 3, 1, denominator);
  read_vector(w, i, 4, 2, numerator);
  u64 mask = 0;
  for_lanes(w, [&](u32 l) { mask |= static_cast<u64>(scale_for_division(x[l], denominator[l], numerator[l])) << l; });
  write_vector(w, i, x);
  write_mask(w, i[1], mask & w.exec_mask());
}

template <class T>
void div_fmas(Wave& w, const Instruction& i) {
  T a[max_lanes], b[max_lanes], c[max_lanes];
  read_vector(w, i, 1, 0, a);
  read_vector(w, i, 2, 1, b);
  read_vector(w, i, 3, 2, c);
  const u64 scales = w.vcc_mask();
  for_lanes(w, [&](u32 l) {
    // Undoes v_div_scale, which made a quotient smaller or larger; AMD's manual gives only one factor for both cases.
    // The result is rounded once.
    const int back =
        raw_exponent(c[l]) > DivisionLimits<T>::bias ? DivisionLimits<T>::scale : -DivisionLimits<T>::scale;
    const long double sum = std::fma<long double>(a[l], b[l], c[l]);
    a[l] = is_on(scales, l) ? static_cast<T>(std::ldexp(sum, back)) : std::fma(a[l], b[l], c[l]);
  });
  write_vector(w, i, a);
}

// --- mixed precisions ------------------------------------------------------------------------------------------------

/// Reads mixed operands: op_sel_hi marks f16 operands, op_sel chooses their half.
void read_mixed(const Wave& w, const Instruction& i, int source, f32* values) {
  const Operand& o = i[source + 1];
  const auto bit = static_cast<u32>(source);
  const bool half = is_on(i.modifiers.op_sel_hi, bit), high = i.modifiers.has_op_sel && is_on(i.modifiers.op_sel, bit);
  u32 room[max_lanes];
  const u32* row = source_row(w, i, source + 1, room, 0, half ? Meaning::half : Meaning::single);
  for_lanes(w, [&](u32 l) {
    f32 x = half ? static_cast<f32>(as_f16(row[l] >> (high ? 16 : 0))) : as_f32(row[l]);
    if (o.absolute) x = std::fabs(x);
    values[l] = o.negate ? -x : x;
  });
}

void fma_mix(Wave& w, const Instruction& i, f32* results) {
  f32 a[max_lanes], b[max_lanes], c[max_lanes];
  read_mixed(w, i, 0, a);
  read_mixed(w, i, 1, b);
  read_mixed(w, i, 2, c);
  for_lanes(w, [&](u32 l) {
    const f32 sum = std::fma(a[l], b[l], c[l]);
    results[l] = i.modifiers.clamp ? (sum > 0 ? std::min(sum, 1.0f) : 0.0f) : sum;
  });
}

void fma_mix_f32(Wave& w, const Instruction& i) {
  f32 results[max_lanes];
  fma_mix(w, i, results);
  write_row(w, i[0], 0, reinterpret_cast<const u32*>(results));
}

template <bool high>
void fma_mix_f16(Wave& w, const Instruction& i) {
  f32 results[max_lanes];
  fma_mix(w, i, results);
  u32* to = w.row(i[0]);
  for_active(w, [&](u32 l) {
    const u32 half = bits_of(static_cast<f16>(results[l]));
    to[l] = high ? (to[l] & 0xffff) | half << 16 : (to[l] & 0xffff0000) | half;
  });
}

template <bool bf16>
f32 half_of(u32 word, bool high) {
  const u32 half = high ? word >> 16 : word & 0xffff;
  return bf16 ? bf16_to_f32(half) : static_cast<f32>(as_f16(half));
}

template <bool bf16, bool accumulates>
void dot2(Wave& w, const Instruction& i) {
  u32 a_room[max_lanes], b_room[max_lanes], d[max_lanes];
  f32 c[max_lanes];
  const u32* a = source_row(w, i, 1, a_room, 0, Meaning::half);
  const u32* b = source_row(w, i, 2, b_room, 0, Meaning::half);
  if (accumulates) for_lanes(w, [&](u32 l) { c[l] = as_f32(w.row(i[0])[l]); });
  else read_vector(w, i, 3, 2, c);
  for_lanes(w, [&](u32 l) {
    const f32 low = half_of<bf16>(a[l], false) * half_of<bf16>(b[l], false);
    d[l] = bits_of(low + half_of<bf16>(a[l], true) * half_of<bf16>(b[l], true) + c[l]);
  });
  write_row(w, i[0], 0, d);
}

/// Executes v_dot4_i32_iu8; neg_lo marks the signed operands.
void dot4_iu8(Wave& w, const Instruction& i) {
  u32 a[max_lanes], b[max_lanes], c[max_lanes];
  read_vector(w, i, 1, 3, a);
  read_vector(w, i, 2, 3, b);
  read_vector(w, i, 3, 3, c);
  for_lanes(w, [&](u32 l) { c[l] = dot_bytes(a[l], b[l], c[l], i.modifiers.neg_lo & 1, i.modifiers.neg_lo & 2); });
  write_row(w, i[0], 0, c);
}

void pk_mov_b32(Wave& w, const Instruction& i) {
  u32 results[2][max_lanes];
  for (int k = 0; k < 2; ++k) {
    u32 room[max_lanes];
    const bool high = i[k + 1].words > 1 && is_on(i.modifiers.op_sel, static_cast<u32>(k));
    std::memcpy(results[k], source_row(w, i, k + 1, room, high), sizeof room);
  }
  write_row(w, i[0], 0, results[0]);
  write_row(w, i[0], 1, results[1]);
}

// --- 8-bit floats ----------------------------------------------------------------------------------------------------

Float8 float8_of(const Wave& w, const Instruction& i) {
  return {.exponent_bits = i.name.find("bf8") == std::string::npos ? 4 : 5, .fnuz = w.fnuz};
}

void cvt_f32_float8(Wave& w, const Instruction& i) {
  const Modifiers& m = i.modifiers;
  const Float8 kind = float8_of(w, i);
  const int byte = m.sdwa.used ? m.sdwa.from[0] & 3 : m.has_op_sel ? (m.op_sel & 1) * 2 + (m.op_sel >> 1 & 1) : 0;
  u32 room[max_lanes], d[max_lanes];
  const u32* a = source_row(w, i, 1, room);
  for_lanes(w, [&](u32 l) { d[l] = bits_of(float8_to_f32(static_cast<u8>(a[l] >> 8 * byte), kind)); });
  write_row(w, i[0], 0, d);
}

void cvt_pk_f32_float8(Wave& w, const Instruction& i) {
  const Modifiers& m = i.modifiers;
  const Float8 kind = float8_of(w, i);
  const int shift = (m.sdwa.used ? m.sdwa.from[0] == 5 : m.has_op_sel && (m.op_sel & 1)) ? 16 : 0;
  u32 room[max_lanes], d[2][max_lanes];
  const u32* a = source_row(w, i, 1, room);
  for (int k = 0; k < 2; ++k) {
    for_lanes(w, [&](u32 l) { d[k][l] = bits_of(float8_to_f32(static_cast<u8>(a[l] >> (shift + 8 * k)), kind)); });
  }
  write_row(w, i[0], 0, d[0]);
  write_row(w, i[0], 1, d[1]);
}

void cvt_pk_float8_f32(Wave& w, const Instruction& i) {
  const Float8 kind = float8_of(w, i);
  const bool high = i.modifiers.has_op_sel && (i.modifiers.op_sel >> 2 & 3);
  f32 a[max_lanes], b[max_lanes];
  read_vector(w, i, 1, 3, a);
  read_vector(w, i, 2, 3, b);
  u32* to = w.row(i[0]);
  for_active(w, [&](u32 l) {
    const u32 both = to_float8(a[l], kind) | static_cast<u32>(to_float8(b[l], kind)) << 8;
    to[l] = high ? (to[l] & 0xffff) | both << 16 : (to[l] & 0xffff0000) | both;
  });
}

void cvt_pk_u8_f32(Wave& w, const Instruction& i) {
  f32 a[max_lanes];
  u32 b[max_lanes], c[max_lanes];
  read_vector(w, i, 1, 0, a);
  read_vector(w, i, 2, 1, b);
  read_vector(w, i, 3, 2, c);
  for_lanes(w, [&](u32 l) {
    const u32 shift = 8 * (b[l] & 3);
    c[l] = (c[l] & ~(0xffu << shift)) | u32{to_integer<u8>(std::nearbyint(a[l]))} << shift;
  });
  write_row(w, i[0], 0, c);
}

// --- reads of other lanes --------------------------------------------------------------------------------------------

u32 lane_operand(const Wave& w, const Operand& o) { return static_cast<u32>(read_scalar(w, o)) & (w.lanes - 1); }

void readfirstlane(Wave& w, const Instruction& i) {
  u32 room[max_lanes];
  const u64 active = w.exec_mask();
  write_scalar(w, i[0], source_row(w, i, 1, room)[active ? std::countr_zero(active) : 0]);
}

void readlane(Wave& w, const Instruction& i) {
  u32 room[max_lanes];
  write_scalar(w, i[0], source_row(w, i, 1, room)[lane_operand(w, i[2])]);
}

void writelane(Wave& w, const Instruction& i) {
  w.row(i[0])[lane_operand(w, i[2])] = static_cast<u32>(read_scalar(w, i[1]));
}

/// Adds to b, for each lane, the number of earlier lanes in mask a; `first` is the lane of the mask's lowest bit.
template <u32 first>
void mbcnt(Wave& w, const Instruction& i) {
  u32 a[max_lanes], b[max_lanes];
  read_vector(w, i, 1, 0, a);
  read_vector(w, i, 2, 1, b);
  for_lanes(w, [&](u32 l) {
    const u32 before = l <= first ? 0 : l - first;
    const u32 mask = before >= 32 ? ~0u : (1u << before) - 1;
    b[l] += static_cast<u32>(std::popcount(a[l] & mask));
  });
  write_vector(w, i, b);
}

template <u32 other_row>
void permlane16(Wave& w, const Instruction& i) {
  u32 room[max_lanes], d[max_lanes];
  const u32 *from = source_row(w, i, 1, room), *old = w.row(i[0]);
  const u64 select = read_scalar(w, i[2]) & 0xffffffff, high = read_scalar(w, i[3]) & 0xffffffff,
            picks = select | high << 32;
  const bool fetch_inactive = i.modifiers.op_sel & 1, bound_control = i.modifiers.op_sel & 2;
  const u64 active = w.exec_mask();
  for_lanes(w, [&](u32 l) {
    const u32 lane = static_cast<u32>(picks >> 4 * (l & 15) & 15) | ((l & ~15u) ^ other_row);
    d[l] = fetch_inactive || is_on(active, lane) ? from[lane] : bound_control ? 0 : old[l];
  });
  write_row(w, i[0], 0, d);
}

void permlane64(Wave& w, const Instruction& i) {
  if (w.lanes == 32) return;
  u32 room[max_lanes], d[max_lanes];
  const u32* from = source_row(w, i, 1, room);
  for (u32 l = 0; l < 64; ++l) d[l] = from[l ^ 32];
  write_row(w, i[0], 0, d);
}

void swap(Wave& w, const Instruction& i) {
  u32 a[max_lanes], b[max_lanes];
  std::memcpy(a, w.row(i[0]), sizeof a);
  std::memcpy(b, w.row(i[1]), sizeof b);
  write_row(w, i[0], 0, b);
  write_row(w, i[1], 0, a);
}

/// Executes v_movrels, v_movreld and v_movrelsd: moves that add M0 to the number of the source register, of the
/// destination register, or of both.
template <bool source, bool destination>
void movrel(Wave& w, const Instruction& i) {
  u32 room[max_lanes], moved[max_lanes];
  Operand from = i[1], to = i[0];
  if (source) from.index = static_cast<u16>(from.index + w.s[m0]);
  if (destination) to.index = static_cast<u16>(to.index + w.s[m0]);
  const size_t registers = w.registers.size() / max_lanes;
  if ((from.is_register() && from.index >= registers) || to.index >= registers)
    throw Fault(text("M0 leads beyond the registers: ", i.text));
  std::memcpy(moved, from.is_register() ? w.row(from) : source_row(w, i, 1, room), sizeof moved);
  write_row(w, to, 0, moved);
}

void nothing(Wave&, const Instruction&) {}

using Entry = std::pair<const char*, Action>;
constexpr Entry entries[] = {
    {"v_add_co_u32", carry<CarryKind{false, false, false}>},
    {"v_sub_co_u32", carry<CarryKind{true, false, false}>},
    {"v_subrev_co_u32", carry<CarryKind{true, true, false}>},
    {"v_add_co_ci_u32", carry<CarryKind{false, false, true}>},
    {"v_sub_co_ci_u32", carry<CarryKind{true, false, true}>},
    {"v_subrev_co_ci_u32", carry<CarryKind{true, true, true}>},
    {"v_mad_u64_u32", mad_u64_u32},
    {"v_mad_i64_i32", mad_i64_i32},
    {"v_cndmask_b32", cndmask<u32>},
    {"v_cndmask_b16", cndmask<u16>},
    {"v_div_scale_f32", div_scale<f32>},
    {"v_div_scale_f64", div_scale<f64>},
    {"v_div_fmas_f32", div_fmas<f32>},
    {"v_div_fmas_f64", div_fmas<f64>},
    {"v_fma_mix_f32", fma_mix_f32},
    {"v_fma_mixlo_f16", fma_mix_f16<false>},
    {"v_fma_mixhi_f16", fma_mix_f16<true>},
    {"v_dot2_f32_f16", dot2<false, false>},
    {"v_dot2_f32_bf16", dot2<true, false>},
    {"v_dot2c_f32_f16", dot2<false, true>},
    {"v_dot2acc_f32_f16", dot2<false, true>},
    {"v_dot4_i32_iu8", dot4_iu8},
    {"v_pk_mov_b32", pk_mov_b32},
    {"v_cvt_f32_fp8", cvt_f32_float8},
    {"v_cvt_f32_bf8", cvt_f32_float8},
    {"v_cvt_pk_f32_fp8", cvt_pk_f32_float8},
    {"v_cvt_pk_f32_bf8", cvt_pk_f32_float8},
    {"v_cvt_pk_fp8_f32", cvt_pk_float8_f32},
    {"v_cvt_pk_bf8_f32", cvt_pk_float8_f32},
    {"v_cvt_pk_u8_f32", cvt_pk_u8_f32},
    {"v_readfirstlane_b32", readfirstlane},
    {"v_readlane_b32", readlane},
    {"v_writelane_b32", writelane},
    {"v_mbcnt_lo_u32_b32", mbcnt<0>},
    {"v_mbcnt_hi_u32_b32", mbcnt<32>},
    {"v_permlane16_b32", permlane16<0>},
    {"v_permlanex16_b32", permlane16<16>},
    {"v_permlane64_b32", permlane64},
    {"v_swap_b32", swap},
    {"v_movrels_b32", movrel<true, false>},
    {"v_movreld_b32", movrel<false, true>},
    {"v_movrelsd_b32", movrel<true, true>},
    {"v_nop", nothing},
};

}  // namespace

void add_vector_others(SemanticsTable& table) {
  for (const auto& [name, action] : entries) table[name] = {action, Unit::vector};
}

}  // namespace weft::amdemu
