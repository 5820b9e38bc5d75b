// SPDX-License-Identifier: Apache-2.0
#pragma once
/// The functions that generated kernels use in addition to the header of their family: the elementwise operators
/// (fn::op_add, fn::op_exp ... from ops/elementwise.def), the IR's conversions, and access along a strided axis.
#include "device.h"
#include "math.h"
#include "rounding.h"
#include "vec.h"

/// WEFT_PLAN(name) { out[0] = tasks; out[1] = scratch bytes of a thread; } defines a function by which the host learns
/// how to launch the kernel `name` for given sizes.
#ifdef WEFT_CPU
#define WEFT_PLAN(name) \
  extern "C"            \
      __attribute__((visibility("default"))) void name##_plan([[maybe_unused]] const weft::i64* sizes, weft::i64* out)
#else
#define WEFT_PLAN(name) \
  [[maybe_unused]] static void name##_plan([[maybe_unused]] const weft::i64* sizes, weft::i64* out)
#endif

namespace weft::kernel {

/// The elementwise operators: fn::op_add(x, y), fn::op_exp(x) ... generated from elementwise.def. A result has the type
/// of the last operand, or is a stored boolean.
namespace fn {

template <class T, class V>
WEFT_INLINE T gives_same(V v) {
  return T(v);
}
template <class, class M>
WEFT_INLINE auto gives_logic(M mask) {
  return as_bool(mask);
}

#define ELEMENTWISE(name, arity, accepts, gives, onnx, tf, torch, ...)                    \
  template <class X, class Y = X, class T = Y>                                            \
  WEFT_INLINE auto op_##name(X x, [[maybe_unused]] Y y = {}, [[maybe_unused]] T z = {}) { \
    return gives_##gives<T>(__VA_ARGS__);                                                 \
  }
#include "../ops/elementwise.def"
#undef ELEMENTWISE

}  // namespace fn

/// Converts computed values as the IR defines it: floats to integers truncate and saturate, NaN gives 0; integers wrap;
/// 8-bit floats saturate. cast_to_bool converts to booleans.
template <class To, class V>
WEFT_INLINE Vec<To, lanes_of<V>> cast(V v) {
  using From = Elem<V>;
  using R = Vec<To, lanes_of<V>>;
  if constexpr (is_real<From> && !is_real<To> && !is_packed<To>) {
    constexpr f64 low = integer_low<To>, high = integer_high<To>;
    constexpr To lowest = To(low), highest = is_signed<To> ? To(~u64(0) >> (65 - sizeof(To) * 8)) : To(~To(0));
    const auto inside = (v >= V(From(low))) & (v < V(From(high)));
    R r = convert<To>(select(inside, v, V(0)));
    r = select(v >= V(From(high)), R(highest), r);
    return select(v < V(From(low)), R(lowest), r);
  } else if constexpr (is_float8<To> && is_same<From, f64>) {
    return cast<To>(rounded_to_odd(v));
  } else if constexpr (is_float8<To>) {
    return from_bits<To>(convert_plain<u8>(Float8Of<To>::type::encode(convert<f32>(v))));
  } else {
    return convert<To>(v);
  }
}
/// Converts to integers of `bits` < 8 bits, each in a byte To of its own, by the rules of `cast`.
template <int bits, class To, class V>
WEFT_INLINE Vec<To, lanes_of<V>> cast_to_part(V v) {
  using R = Vec<To, lanes_of<V>>;
  if constexpr (is_real<Elem<V>>) {
    constexpr i32 low = is_signed<To> ? -(1 << (bits - 1)) : 0, high = low + (1 << bits) - 1;
    const auto from_low = select(v > V(low), v, V(low)), within = select(from_low < V(high), from_low, V(high));
    return convert<To>(convert<i32>(select(v == v, within, V(0))));
  } else {
    const R shifted = convert<To>(convert<u8>(v) << (8 - bits));
    return shifted >> (8 - bits);
  }
}
/// Converts to the values of f4e2m1: 0 to 6 with a sign, halves to even, saturating; NaN gives -0.
template <class V>
WEFT_INLINE Vec<f32, lanes_of<V>> cast_to_f4(V v) {
  if constexpr (is_same<Elem<V>, f64>) return cast_to_f4(rounded_to_odd(v));
  else {
    using F = Vec<f32, lanes_of<V>>;
    using U = Vec<u32, lanes_of<V>>;
    const F x = convert<f32>(v), size = bits_to<f32>(bits_to<u32>(x) & U(0x7fffffff));
    F r = select(size < F(4), round_even(size), round_even(size * F(0.5f)) * F(2));
    r = select(size < F(2), round_even(size * F(2)) * F(0.5f), r);
    r = select(r < F(6), r, F(6));
    const U number = bits_to<u32>(r) | (bits_to<u32>(x) & U(0x80000000));
    return bits_to<f32>(select(x == x, number, U(0x80000000)));
  }
}
template <class V>
WEFT_INLINE auto cast_to_bool(V v) {
  return as_bool(v != V(0));
}

/// A table with an 8-bit element for each value of a byte, for `looked_up`. It stays in memory, to save registers.
template <class T>
struct ByteTable {
#ifdef __AVX2__
  alignas(64) T part[256];
#else
  const WEFT_GLOBAL T* part;
#endif
};
template <class T>
WEFT_INLINE ByteTable<T> byte_table(const WEFT_GLOBAL T* p) {
#ifdef __AVX2__
  ByteTable<T> table;
  Vec<T, 16> t[16];
  WEFT_UNROLL for (int k = 0; k < 16; k++) t[k] = load<16>(p + k * 16, Full{});
#ifdef __AVX512VBMI__
  WEFT_UNROLL for (int k = 0; k < 16; k++) store(table.part + k * 16, t[k], Full{});
#else
  // A byte shuffle gives 0 only for negative indices, so looked_up XORs elements of all parts up to the right one. To
  // cancel the earlier parts, parts other than 0 and 8 are stored XOR the part before. Parts k and k + 8 are adjacent.
  WEFT_UNROLL for (int k = 15; k > 0; k--) if (k != 8) t[k] ^= t[k - 1];
  WEFT_UNROLL for (int k = 0; k < 16; k++) store(table.part + (k % 8 * 2 + k / 8) * 16, t[k], Full{});
#endif
  return table;
#else
  return {p};
#endif
}
/// Returns the table's elements for the bytes of x.
template <class T, class V>
WEFT_INLINE Vec<T, lanes_of<V>> looked_up(const ByteTable<T>& table, V x) {
  constexpr int N = lanes_of<V>;
#ifdef __AVX2__
#ifdef __AVX512VBMI__
  constexpr int least = 64, most = 64;
#else
  constexpr int least = 16, most = 32;
#endif
  if constexpr (N < least) {
    if constexpr (N >= 16) asm("" : "+v"(x));  // keeps x in a register; see below
    return low_lanes<N>(looked_up(table, join(x, x)));
  } else if constexpr (N > most)
    return join(looked_up(table, low_lanes<N / 2>(x)), looked_up(table, high_lanes<N / 2>(x)));
  else {
    const T* part = table.part;
    asm("" : "+r"(part), "+v"(x));  // keeps both in registers: the compiler would split them into single bytes
#ifdef __AVX512VBMI__
    using B = char __attribute__((__vector_size__(64)));
    const B at = __builtin_bit_cast(B, x);
    const auto half = [&](int k) WEFT_LAMBDA {
      const auto low = __builtin_bit_cast(B, load<64>(part + k, Full{}));
      const auto high = __builtin_bit_cast(B, load<64>(part + k + 64, Full{}));
      return __builtin_bit_cast(Vec<T, 64>, __builtin_ia32_vpermi2varqi512(low, at, high));
    };
    return select(__builtin_bit_cast(Vec<i8, 64>, x) < Vec<i8, 64>(0), half(128), half(0));
#else
    // Each step k after step 0 subtracts 16 from all indices, saturating at -128: indices below 16 * k are negative and
    // read 0. Indices 0 to 127 read the first eight parts; indices from 128 on, minus 128, read the last eight.
    using B = char __attribute__((__vector_size__(32)));
    const auto first = __builtin_bit_cast(Vec<u8, N>, x), second = first ^ Vec<u8, N>(128);
    const auto add = [&](int k, auto of, B& at, B& sum) WEFT_LAMBDA {
      if (k > 0) at = __builtin_elementwise_sub_sat(at, B{} + 16);
      sum ^= __builtin_ia32_pshufb256(__builtin_bit_cast(B, of), at);
    };
    B sum{};
    if constexpr (N == 16) {
      B at = __builtin_bit_cast(B, join(first, second));
      WEFT_UNROLL for (int k = 0; k < 8; k++) add(k, load<32>(part + k * 32, Full{}), at, sum);
      const auto both = __builtin_bit_cast(Vec<T, 32>, sum);
      return low_lanes<16>(both) ^ high_lanes<16>(both);
    } else {
      B low = __builtin_bit_cast(B, first), high = __builtin_bit_cast(B, second);
      WEFT_UNROLL for (int k = 0; k < 8; k++) {
        const auto of = load<16>(part + k * 32, Full{}), more = load<16>(part + k * 32 + 16, Full{});
        add(k, join(of, of), low, sum), add(k, join(more, more), high, sum);
      }
      return __builtin_bit_cast(Vec<T, N>, sum);
    }
#endif
  }
#else
  Vec<T, N> r{};
  WEFT_UNROLL for (int i = 0; i < N; i++) set_lane(r, i, table.part[u8(lane(x, i))]);
  return r;
#endif
}

/// Returns an index into an axis of `limit` elements; negative indices count from the end. For an index out of range,
/// records a fault for the host and returns `otherwise`.
template <class L, class I>
WEFT_INLINE i64 checked_index(const L& launch, I index, i64 limit, i64 otherwise = 0) {
  const i64 at = i64(index) < 0 ? i64(index) + limit : i64(index);
  if (at >= 0 && at < limit) return at;
  note_fault((WEFT_GLOBAL KernelFault*)checks(launch).fault, FaultKind::index, index, limit);
  return otherwise;
}
/// Returns matrix number `which` of `count` matrices, each of `elements` elements; null for a negative number. A number
/// out of range is recorded as a fault for the host.
template <class L, class T>
WEFT_INLINE T* chosen_matrix(const L& launch, T* all, i64 which, i64 elements, i64 count) {
  return which < 0 ? nullptr : all + checked_index(launch, which, count) * elements;
}
/// Returns x[index[i]] for each lane i of a vector of indices, checked against `limit`.
template <int N, class Launch, class P, class I, class L>
WEFT_INLINE auto gather_lanes(const Launch& launch, P x, I index, i64 limit, L lanes) {
  using T = Pointee<decltype(x)>;
  Vec<T, N> v{};
  const int count = valid_lanes(lanes, N);
  WEFT_NO_UNROLL for (int i = 0; i < count; i++) set_lane(v, i, x[checked_index(launch, index[i], limit)]);
  return v;
}

/// Loads N lanes along an axis whose elements are `stride` apart.
template <int N, class P, class L>
WEFT_INLINE auto load_strided(P p, i64 stride, L lanes) {
  using T = Pointee<decltype(p)>;
  Vec<T, N> v{};
  const int count = valid_lanes(lanes, N);
  WEFT_UNROLL for (int i = 0; i < N; i++) if (i < count) set_lane(v, i, p[i * stride]);
  return v;
}
/// Loads one element into all lanes.
template <int N, class P>
WEFT_INLINE auto load_uniform(P p) {
  using T = Pointee<decltype(p)>;
  return splat<T, N>(p[0]);
}
template <class P, class V, class L>
WEFT_INLINE void store_strided(P p, i64 stride, V v, L lanes) {
  const int count = valid_lanes(lanes, lanes_of<V>);
  WEFT_UNROLL for (int i = 0; i < lanes_of<V>; i++) if (i < count) p[i * stride] = lane(v, i);
}

}  // namespace weft::kernel
