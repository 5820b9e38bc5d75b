// SPDX-License-Identifier: Apache-2.0
#pragma once
/// Converts elements of 2 or 4 bits to bytes or, for f4e2m1, to f32, and back. The first element is in the low bits of
/// its byte. Conversion to i8 extends the sign.
#include "device.h"
#include "tasks.h"

namespace weft::kernel {

#ifdef WEFT_CPU
inline constexpr i64 unpack_chunk = tasks::unpack_task;
#else
inline constexpr i64 unpack_chunk = tasks::unpack_thread;
#endif

/// Returns the value of four bits in f4e2m1.
WEFT_INLINE f32 f4_number(u32 bits) {
  const u32 magnitude = bits & 7, exponent = magnitude >> 1;
  const f32 half = exponent == 0 ? f32(magnitude) : f32((2 + (magnitude & 1)) << (exponent - 1));
  return bits & 8 ? -half / 2 : half / 2;
}

/// Unpacks `count` elements. Tasks: ceil_div(count, unpack_chunk).
template <int Bits, class L, class From, class To>
WEFT_INLINE void unpack(const L& launch, i64 count, From from, To to) {
  using T = Pointee<decltype(to)>;
  constexpr int per_byte = 8 / Bits;
  for_items(launch, ceil_div(count, unpack_chunk), [&](i64 task) WEFT_LAMBDA {
    const i64 last = least((task + 1) * unpack_chunk, count);
    for (i64 i = task * unpack_chunk; i < last; ++i) {
      const u32 bits = u32(from[i / per_byte]) >> (i % per_byte * Bits) & ((1u << Bits) - 1);
      if constexpr (is_same<T, f32>) to[i] = f4_number(bits);
      else if constexpr (is_same<T, i8>) to[i] = i8(i32(bits << (32 - Bits)) >> (32 - Bits));
      else to[i] = T(bits);
    }
  });
}

/// Returns the four bits of a number that f4e2m1 represents exactly.
WEFT_INLINE u32 f4_bits(f32 x) {
  const u32 sign = __builtin_bit_cast(u32, x) >> 28 & 8;
  const f32 size = x < 0 ? -x : x;
  return sign | (size < 2 ? u32(size * 2) : size < 4 ? 4 + u32(size >= 3) : 6 + u32(size >= 6));
}

/// Packs the low bits of bytes, or floats as f4e2m1; unused bits of the last byte are 0. Tasks: as for `unpack`.
template <int Bits, class L, class From, class To>
WEFT_INLINE void pack(const L& launch, i64 count, From from, To to) {
  constexpr int per_byte = 8 / Bits;
  for_items(launch, ceil_div(count, unpack_chunk), [&](i64 task) WEFT_LAMBDA {
    const i64 last = least((task + 1) * unpack_chunk, count);
    for (i64 i = task * unpack_chunk; i < last; i += per_byte) {
      u32 byte = 0;
      for (int part = 0; part < per_byte && i + part < last; ++part) {
        u32 bits;
        if constexpr (is_same<Pointee<decltype(from)>, f32>) bits = f4_bits(from[i + part]);
        else bits = u32(from[i + part]) & ((1u << Bits) - 1);
        byte |= bits << (part * Bits);
      }
      to[i / per_byte] = u8(byte);
    }
  });
}

}  // namespace weft::kernel
