// SPDX-License-Identifier: Apache-2.0
// Turns the entries of vector.def into functions over all lanes.
#include <algorithm>

#include "operands.h"
#include "semantics.h"

namespace weft::amdemu {
namespace {

template <class D, class A, auto formula>
void unary(Wave& w, const Instruction& i) {
  A a_room[max_lanes];
  D room[max_lanes];
  const A* a = vector_source(w, i, 1, 0, a_room);
  const bool direct = writes_directly<D>(w, i);
  D* d = direct ? reinterpret_cast<D*>(w.row(i[0])) : room;
  for_lanes(w, [&](u32 l) { d[l] = formula(a[l]); });
  if (!direct) write_vector(w, i, room);
}

template <class D, class A, class B, auto formula>
void binary(Wave& w, const Instruction& i) {
  A a_room[max_lanes];
  B b_room[max_lanes];
  D room[max_lanes];
  const A* a = vector_source(w, i, 1, 0, a_room);
  const B* b = vector_source(w, i, 2, 1, b_room);
  const bool direct = writes_directly<D>(w, i);
  D* d = direct ? reinterpret_cast<D*>(w.row(i[0])) : room;
  for_lanes(w, [&](u32 l) { d[l] = formula(a[l], b[l]); });
  if (!direct) write_vector(w, i, room);
}

template <class D, class A, class B, class C, auto formula>
void ternary(Wave& w, const Instruction& i) {
  A a_room[max_lanes];
  B b_room[max_lanes];
  C c_room[max_lanes];
  D room[max_lanes];
  const A* a = vector_source(w, i, 1, 0, a_room);
  const B* b = vector_source(w, i, 2, 1, b_room);
  const C* c = vector_source(w, i, 3, 2, c_room);
  const bool direct = writes_directly<D>(w, i);
  D* d = direct ? reinterpret_cast<D*>(w.row(i[0])) : room;
  for_lanes(w, [&](u32 l) { d[l] = formula(a[l], b[l], c[l]); });
  if (!direct) write_vector(w, i, room);
}

/// Returns the old value of the register that an accumulating instruction overwrites.
template <class D>
const D* old_result(const Wave& w, const Instruction& i, D* room) {
  const Operand& o = i[0];
  if (sizeof(D) == 4) return reinterpret_cast<const D*>(w.row(o));
  if constexpr (sizeof(D) == 8) {
    for_lanes(w, [&](u32 l) { room[l] = std::bit_cast<D>(w.row(o)[l] | static_cast<u64>(w.row(o, 1)[l]) << 32); });
  } else if constexpr (sizeof(D) == 2) {
    for_lanes(w, [&](u32 l) { room[l] = std::bit_cast<D>(static_cast<u16>(w.row(o)[l])); });
  }
  return room;
}

template <class D, class A, class B, auto formula>
void accumulate(Wave& w, const Instruction& i) {
  A a_room[max_lanes];
  B b_room[max_lanes];
  D c_room[max_lanes], room[max_lanes];
  const A* a = vector_source(w, i, 1, 0, a_room);
  const B* b = vector_source(w, i, 2, 1, b_room);
  const D* c = old_result(w, i, c_room);
  const bool direct = writes_directly<D>(w, i);
  D* d = direct ? reinterpret_cast<D*>(w.row(i[0])) : room;
  for_lanes(w, [&](u32 l) { d[l] = formula(a[l], b[l], c[l]); });
  if (!direct) write_vector(w, i, room);
}

template <class T, auto formula>
void saturating(Wave& w, const Instruction& i) {
  T a[max_lanes], b[max_lanes];
  read_vector(w, i, 1, 0, a);
  read_vector(w, i, 2, 1, b);
  constexpr i64 low = std::numeric_limits<T>::min(), high = std::numeric_limits<T>::max();
  for_lanes(w, [&](u32 l) {
    const i64 sum = formula(static_cast<i64>(a[l]), static_cast<i64>(b[l]));
    a[l] = static_cast<T>(i.modifiers.clamp ? std::clamp(sum, low, high) : sum);
  });
  write_vector(w, i, a);
}

/// Returns half `half` of packed operand `operand` in one lane's word.
template <class T>
T packed_half(const Modifiers& m, u32 word, int operand, int half) {
  const u32 select = half ? m.op_sel_hi : m.op_sel, negate = half ? m.neg_hi : m.neg_lo;
  u32 bits = word >> (is_on(select, static_cast<u32>(operand)) ? 16 : 0);
  if (is_real<T> && is_on(negate, static_cast<u32>(operand))) bits ^= 0x8000;
  return std::bit_cast<T>(static_cast<u16>(bits));
}

template <class T>
u32 packed_result(const Modifiers& m, T value) {
  if constexpr (is_real<T>) {
    const auto wide = static_cast<f32>(value);
    if (m.clamp) value = static_cast<T>(wide > 0 ? std::min(wide, 1.0f) : 0.0f);
  }
  return std::bit_cast<u16>(value);
}

template <class T, int operands, auto formula>
void packed(Wave& w, const Instruction& i) {
  u32 rooms[3][max_lanes], d[max_lanes];
  const u32* rows[3];
  constexpr Meaning meaning = is_real<T> ? Meaning::half : Meaning::word;
  for (int k = 0; k < 3; ++k) rows[k] = source_row(w, i, k < operands ? k + 1 : 1, rooms[k], 0, meaning);
  for_lanes(w, [&](u32 l) {
    d[l] = 0;
    for (int half = 0; half < 2; ++half) {
      const T a = packed_half<T>(i.modifiers, rows[0][l], 0, half),
              b = packed_half<T>(i.modifiers, rows[1][l], 1, half),
              c = packed_half<T>(i.modifiers, rows[2][l], 2, half);
      d[l] |= packed_result<T>(i.modifiers, formula(a, b, c)) << 16 * half;
    }
  });
  write_row(w, i[0], 0, d);
}

/// Computes a formula for two f32 values in each lane, which are in a pair of registers. A constant or a single scalar
/// register stands for both values.
template <auto formula>
void packed_f32(Wave& w, const Instruction& i) {
  f32 sources[3][2][max_lanes] = {};
  for (int k = 0; k + 1 < i.count; ++k) {
    for (int half = 0; half < 2; ++half) {
      u32 room[max_lanes];
      const Operand& o = i[k + 1];
      const bool single = !o.is_register() && o.words < 2;
      const u32* row = source_row(w, i, k + 1, room, single ? 0 : half, Meaning::single);
      for_lanes(w, [&](u32 l) { sources[k][half][l] = as_f32(row[l]); });
    }
  }
  const Modifiers& m = i.modifiers;
  u32 results[2][max_lanes];
  for (int half = 0; half < 2; ++half) {
    const u32 select = half ? m.op_sel_hi : m.op_sel, negate = half ? m.neg_hi : m.neg_lo;
    auto pick = [&](u32 k, u32 l) { return sources[k][is_on(select, k)][l] * (is_on(negate, k) ? -1.0f : 1.0f); };
    for_lanes(w, [&](u32 l) { results[half][l] = bits_of(formula(pick(0, l), pick(1, l), pick(2, l))); });
  }
  write_row(w, i[0], 0, results[0]);
  write_row(w, i[0], 1, results[1]);
}

/// Writes a comparison's result. On gfx9 v_cmpx writes its result register and EXEC, on later chips only EXEC.
void write_comparison(Wave& w, const Instruction& i, u64 mask) {
  mask &= w.exec_mask();
  if (!i.compares_to_exec) return write_mask(w, i[0], mask);
  if (i.first_source == 1) write_mask(w, i[0], mask);
  w.set_exec(mask);
}

template <class A, class B, auto formula>
void compare(Wave& w, const Instruction& i) {
  A a_room[max_lanes];
  B b_room[max_lanes];
  const A* a = vector_source(w, i, i.first_source, 0, a_room);
  const B* b = vector_source(w, i, i.first_source + 1, 1, b_room);
  u64 mask = 0;
  for_lanes(w, [&](u32 l) { mask |= static_cast<u64>(formula(a[l], b[l])) << l; });
  write_comparison(w, i, mask);
}

// --- functions that the formulas call --------------------------------------------------------------------------------

u32 low24(u32 x) { return x & 0xffffff; }
i32 signed_low24(u32 x) { return static_cast<i32>(x << 8) >> 8; }
u32 pair(u16 low, u16 high) { return low | static_cast<u32>(high) << 16; }
f16 fused_f16(f16 a, f16 b, f16 c) {
  return static_cast<f16>(static_cast<f64>(a) * static_cast<f64>(b) + static_cast<f64>(c));
}

/// Returns sin(2 pi (x + ahead)), exact at multiples of a quarter turn.
f64 sine_of_turns(f64 x, f64 ahead = 0) {
  const f64 part = x - std::rint(x) + ahead, turn = part - std::rint(part);
  if (turn == 0 || std::fabs(turn) == 0.5) return 0.0;
  return std::sin(2 * 3.14159265358979323846 * turn);
}

template <class T>
i32 exponent_of(T x) {
  int exponent = 0;
  if (std::isfinite(x)) std::frexp(x, &exponent);
  return exponent;
}
template <class T>
T mantissa_of(T x) {
  int exponent = 0;
  return std::isfinite(x) ? std::frexp(x, &exponent) : x;
}

/// Ends a division n / d: returns the quotient with its sign, or the result of a special case.
template <class T>
T fixed_quotient(T quotient, T d, T n) {
  const T sign = std::signbit(d) != std::signbit(n) ? T(-1) : T(1);
  if (d != d || n != n || (d == 0 && n == 0) || (std::isinf(d) && std::isinf(n)))
    return std::numeric_limits<T>::quiet_NaN();
  if (d == 0 || std::isinf(n)) return std::copysign(std::numeric_limits<T>::infinity(), sign);
  if (std::isinf(d) || n == 0) return std::copysign(T(0), sign);
  if (quotient != quotient) return std::copysign(std::numeric_limits<T>::infinity(), sign);  // a step overflowed
  return std::copysign(quotient, sign);
}

// --- the table -------------------------------------------------------------------------------------------------------

using Entry = std::pair<const char*, Action>;

#define UNARY(name, D, A, ...) Entry{#name, unary<D, A, [](A a) -> D { return (__VA_ARGS__); }>},
#define BINARY(name, D, A, B, ...) Entry{#name, binary<D, A, B, [](A a, B b) -> D { return (__VA_ARGS__); }>},
#define TERNARY(name, D, A, B, C, ...) \
  Entry{#name, ternary<D, A, B, C, [](A a, B b, C c) -> D { return (__VA_ARGS__); }>},
#define ACCUMULATE(name, D, A, B, ...) \
  Entry{#name, accumulate<D, A, B, [](A a, B b, D c) -> D { return (__VA_ARGS__); }>},
#define SATURATING(name, T, ...) Entry{#name, saturating<T, [](i64 x, i64 y) -> i64 { return (__VA_ARGS__); }>},
#define FLOATS1(name, ...)                                    \
  UNARY(v_##name##_f32, f32, f32, __VA_ARGS__)                \
  UNARY(v_##name##_f64, f64, f64, __VA_ARGS__)                \
  Entry{"v_" #name "_f16", unary<f16, f16, [](f16 x) -> f16 { \
          const f32 a = x;                                    \
          return static_cast<f16>(__VA_ARGS__);               \
        }>},
#define FLOATS2(name, ...)                                                 \
  BINARY(v_##name##_f32, f32, f32, f32, __VA_ARGS__)                       \
  BINARY(v_##name##_f64, f64, f64, f64, __VA_ARGS__)                       \
  Entry{"v_" #name "_f16", binary<f16, f16, f16, [](f16 x, f16 y) -> f16 { \
          const f32 a = x, b = y;                                          \
          return static_cast<f16>(__VA_ARGS__);                            \
        }>},
#define FLOATS3(name, ...)                                 \
  TERNARY(v_##name##_f32, f32, f32, f32, f32, __VA_ARGS__) \
  TERNARY(v_##name##_f16, f16, f16, f16, f16, __VA_ARGS__)
#define PACKED2(name, T, ...) Entry{#name, packed<T, 2, [](T a, T b, T) -> T { return (__VA_ARGS__); }>},
#define PACKED3(name, T, ...) Entry{#name, packed<T, 3, [](T a, T b, T c) -> T { return (__VA_ARGS__); }>},
#define PACKED_F32(name, ...) \
  Entry{#name, packed_f32<[](f32 a, f32 b, [[maybe_unused]] f32 c) -> f32 { return (__VA_ARGS__); }>},
#define COMPARE(name, T, ...)                                                          \
  Entry{"v_cmp_" name, compare<T, T, [](T a, T b) -> bool { return (__VA_ARGS__); }>}, \
      Entry{"v_cmpx_" name, compare<T, T, [](T a, T b) -> bool { return (__VA_ARGS__); }>},
#define COMPARE_BOTH(T)                                            \
  COMPARE("lt_" #T, T, a < b)                                      \
  COMPARE("eq_" #T, T, a == b)                                     \
  COMPARE("le_" #T, T, a <= b)                                     \
  COMPARE("gt_" #T, T, a > b)                                      \
  COMPARE("ge_" #T, T, a >= b)                                     \
  Entry{"v_cmp_f_" #T, compare<T, T, [](T, T) { return false; }>}, \
      Entry{"v_cmp_t_" #T, compare<T, T, [](T, T) { return true; }>},
#define COMPARE_INTEGERS(T) COMPARE_BOTH(T) COMPARE("ne_" #T, T, a != b)
#define COMPARE_FLOATS(T)                                                                \
  COMPARE_BOTH(T)                                                                        \
  COMPARE("lg_" #T, T, (a < b) || (a > b))                                               \
  COMPARE("neq_" #T, T, !(a == b))                                                       \
  COMPARE("nlt_" #T, T, !(a < b))                                                        \
  COMPARE("nle_" #T, T, !(a <= b))                                                       \
  COMPARE("ngt_" #T, T, !(a > b))                                                        \
  COMPARE("nge_" #T, T, !(a >= b))                                                       \
  COMPARE("nlg_" #T, T, !(a < b || a > b))                                               \
  COMPARE("o_" #T, T, a == a && b == b)                                                  \
  COMPARE("u_" #T, T, a != a || b != b)                                                  \
  Entry{"v_cmp_class_" #T, compare<T, u32, [](T a, u32 b) { return has_class(a, b); }>}, \
      Entry{"v_cmpx_class_" #T, compare<T, u32, [](T a, u32 b) { return has_class(a, b); }>},

const Entry entries[] = {
#include "vector.def"
};

}  // namespace

void add_vector_arithmetic(SemanticsTable& table) {
  for (const auto& [name, action] : entries) table[name] = {action, Unit::vector};
}

}  // namespace weft::amdemu
