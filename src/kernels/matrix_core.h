// SPDX-License-Identifier: Apache-2.0
#pragma once
/// The matrix units of GPUs behind one interface. A tile type (MatrixCore<f16>, ...) multiplies in one wave a 16 x k
/// piece of A by a k x 16 piece of B:
///
///     T, Acc             element and sum type          k            elements of the inner dimension in one step
///     A, B, C            what one lane holds           c_count      elements of C in a lane
///     load_a(p, stride)  a lane's part of A from shared memory; p: row 0, k 0; rows are `stride` elements apart and
///                        hold k side by side; load_b likewise, with B's columns as rows
///     multiply(a, b, c)  c += a b
///     row(i), col(i)     where element i of a lane's C lies in the 16 x 16 piece
///     row_slots, slot(i) how many rows a lane has elements of, and which of them element i belongs to
///     row_lanes          number of lanes with the same rows: lanes whose numbers differ in the low bits only
///
/// MFMA on CDNA, WMMA on RDNA 3 and 4, mma.sync on NVIDIA from sm_80, where f32 is three products of TF32; types
/// without a matrix unit of their precision use the vector units (VectorCore). 8-bit floats have a unit where
/// WEFT_FLOAT8 is set: on CDNA 3 for f8e4m3fnuz and f8e5m2fnuz, elsewhere for f8e4m3fn and f8e5m2.

#include "vec.h"

#ifdef WEFT_GPU
namespace weft::kernel {

WEFT_INLINE int lane_id() { return thread_id() & (wave_size - 1); }
template <class T>
using Shared = WEFT_SHARED_SPACE T*;

/// Loads a vector from shared memory; the address is a multiple of the vector's size.
template <class V, class T>
WEFT_INLINE V load_shared(const WEFT_SHARED_SPACE T* p) {
  if constexpr (is_packed<Elem<V>>) {
    using Bits = typename BitsOf<Elem<V>>::type;
    return from_bits<Elem<V>>(*(const WEFT_SHARED_SPACE Vec<Bits, lanes_of<V>>*)p);
  } else {
    return *(const WEFT_SHARED_SPACE V*)p;
  }
}

/// The type in which products of T are summed.
template <class T>
struct SumOf : TypeIs<f32> {};
template <>
struct SumOf<f64> : TypeIs<f64> {};
template <>
struct SumOf<i8> : TypeIs<i32> {};
template <>
struct SumOf<i16> : TypeIs<i32> {};

/// The product on vector units: a lane computes a few columns of 2 rows and reads k in pieces of 16 bytes.
template <class Element>
struct VectorCore {
  using T = Element;
  using Acc = typename SumOf<T>::type;
  static constexpr int k = 16 / sizeof(T), lane_cols = 16 / (wave_size / 8), c_count = 2 * lane_cols;
  static constexpr int row_slots = 2, row_lanes = 16 / lane_cols;
  static WEFT_INLINE constexpr int slot(int i) { return i / lane_cols; }
  using Piece = Vec<T, k>;
  struct A {
    Piece row[2];
  };
  struct B {
    Piece col[lane_cols];
  };
  struct C {
    Acc v[c_count];
  };
  static WEFT_INLINE int first_row() { return lane_id() / (16 / lane_cols) * 2; }
  static WEFT_INLINE int first_col() { return lane_id() % (16 / lane_cols) * lane_cols; }
  static WEFT_INLINE int row(int i) { return first_row() + i / lane_cols; }
  static WEFT_INLINE int col(int i) { return first_col() + i % lane_cols; }
  static WEFT_INLINE A load_a(const WEFT_SHARED_SPACE T* p, int stride) {
    A a;
    WEFT_UNROLL for (int i = 0; i < 2; i++) a.row[i] = load_shared<Piece>(p + (first_row() + i) * stride);
    return a;
  }
  static WEFT_INLINE B load_b(const WEFT_SHARED_SPACE T* p, int stride) {
    B b;
    WEFT_UNROLL for (int i = 0; i < lane_cols; i++) b.col[i] = load_shared<Piece>(p + (first_col() + i) * stride);
    return b;
  }
  static WEFT_INLINE void multiply(const A& a, const B& b, C& c) {
    WEFT_UNROLL for (int j = 0; j < k; j++) {
      WEFT_UNROLL for (int i = 0; i < c_count; i++) {
        const Acc x = convert<Acc>(lane(a.row[i / lane_cols], j)), y = convert<Acc>(lane(b.col[i % lane_cols], j));
        if constexpr (is_same<Acc, i32>) c.v[i] += x * y;
        else c.v[i] = __builtin_elementwise_fma(x, y, c.v[i]);
      }
    }
  }
};

template <class T>
struct MatrixCore : VectorCore<T> {};

#ifdef WEFT_MFMA
/// MFMA. Lane l holds elements [l / 16 * per, (l / 16 + 1) * per) along k of row l % 16 of an operand, and the sums of
/// rows [l / 16 * 4, l / 16 * 4 + 4) of column l % 16.
template <class Element, class Sum, class Fragment, int K>
struct Mfma {
  using T = Element;
  using Acc = Sum;
  static constexpr int k = K, c_count = 4, per = K / 4, row_slots = 4, row_lanes = 16;
  static WEFT_INLINE constexpr int slot(int i) { return i; }
  using A = Fragment;
  using B = Fragment;
  struct C {
    Vec<Acc, 4> v;
  };
  static WEFT_INLINE int row(int i) { return lane_id() / 16 * 4 + i; }
  static WEFT_INLINE int col(int) { return lane_id() % 16; }
  static WEFT_INLINE Fragment load_a(const WEFT_SHARED_SPACE T* p, int stride) {
    return load_shared<Fragment>(p + lane_id() % 16 * stride + lane_id() / 16 * per);
  }
  static WEFT_INLINE Fragment load_b(const WEFT_SHARED_SPACE T* p, int stride) { return load_a(p, stride); }
};
template <>
struct MatrixCore<f16> : Mfma<f16, f32, Vec<f16, 4>, 16> {
  static WEFT_INLINE void multiply(A a, B b, C& c) { c.v = __builtin_amdgcn_mfma_f32_16x16x16f16(a, b, c.v, 0, 0, 0); }
};
#if WEFT_MFMA == 1
template <>
struct MatrixCore<bf16> : Mfma<bf16, f32, Vec<short, 2>, 8> {
  static WEFT_INLINE void multiply(A a, B b, C& c) { c.v = __builtin_amdgcn_mfma_f32_16x16x8bf16(a, b, c.v, 0, 0, 0); }
};
#else
template <>
struct MatrixCore<bf16> : Mfma<bf16, f32, Vec<short, 4>, 16> {
  static WEFT_INLINE void multiply(A a, B b, C& c) {
    c.v = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(a, b, c.v, 0, 0, 0);
  }
};
#endif
template <>
struct MatrixCore<f32> : Mfma<f32, f32, f32, 4> {
  static WEFT_INLINE void multiply(A a, B b, C& c) { c.v = __builtin_amdgcn_mfma_f32_16x16x4f32(a, b, c.v, 0, 0, 0); }
};
#if WEFT_MFMA == 3
template <>
struct MatrixCore<i8> : Mfma<i8, i32, long, 32> {
  static WEFT_INLINE void multiply(A a, B b, C& c) { c.v = __builtin_amdgcn_mfma_i32_16x16x32_i8(a, b, c.v, 0, 0, 0); }
};
template <>
struct MatrixCore<f8e4m3fnuz> : Mfma<f8e4m3fnuz, f32, long, 32> {
  static WEFT_INLINE void multiply(A a, B b, C& c) {
    c.v = __builtin_amdgcn_mfma_f32_16x16x32_fp8_fp8(a, b, c.v, 0, 0, 0);
  }
};
template <>
struct MatrixCore<f8e5m2fnuz> : Mfma<f8e5m2fnuz, f32, long, 32> {
  static WEFT_INLINE void multiply(A a, B b, C& c) {
    c.v = __builtin_amdgcn_mfma_f32_16x16x32_bf8_bf8(a, b, c.v, 0, 0, 0);
  }
};
#else
template <>
struct MatrixCore<i8> : Mfma<i8, i32, int, 16> {
  static WEFT_INLINE void multiply(A a, B b, C& c) { c.v = __builtin_amdgcn_mfma_i32_16x16x16i8(a, b, c.v, 0, 0, 0); }
};
#endif
#endif

#ifdef WEFT_RDNA_WMMA
/// WMMA in waves of 32. RDNA 3: lane l holds all 16 k of row l % 16 (both halves of the wave hold the same) and every
/// second row of a column of sums. RDNA 4: lane l holds eight k of the row, from (l / 16) * 8 on, and eight
/// neighbouring sums.
template <class Element, class Sum, class Fragment>
struct Wmma {
  using T = Element;
  using Acc = Sum;
  static constexpr int k = 16, c_count = 8, row_slots = 8, row_lanes = 16;
  static WEFT_INLINE constexpr int slot(int i) { return i; }
  using A = Fragment;
  using B = Fragment;
  struct C {
    Vec<Acc, 8> v;
  };
  static WEFT_INLINE int col(int) { return lane_id() % 16; }
#if WEFT_RDNA_WMMA == 3
  static WEFT_INLINE int row(int i) { return 2 * i + lane_id() / 16; }
  static WEFT_INLINE int first_k() { return 0; }
#else
  static WEFT_INLINE int row(int i) { return lane_id() / 16 * 8 + i; }
  static WEFT_INLINE int first_k() { return lane_id() / 16 * 8; }
#endif
  static WEFT_INLINE Fragment load_a(const WEFT_SHARED_SPACE T* p, int stride) {
    return load_shared<Fragment>(p + lane_id() % 16 * stride + first_k());
  }
  static WEFT_INLINE Fragment load_b(const WEFT_SHARED_SPACE T* p, int stride) { return load_a(p, stride); }
};
#if WEFT_RDNA_WMMA == 3
inline constexpr int wmma_k = 16;
#define WEFT_WMMA(name) __builtin_amdgcn_wmma_##name##_w32
#else
inline constexpr int wmma_k = 8;
#define WEFT_WMMA(name) __builtin_amdgcn_wmma_##name##_w32_gfx12
#endif
template <>
struct MatrixCore<f16> : Wmma<f16, f32, Vec<f16, wmma_k>> {
  static WEFT_INLINE void multiply(A a, B b, C& c) { c.v = WEFT_WMMA(f32_16x16x16_f16)(a, b, c.v); }
};
template <>
struct MatrixCore<bf16> : Wmma<bf16, f32, Vec<short, wmma_k>> {
  static WEFT_INLINE void multiply(A a, B b, C& c) { c.v = WEFT_WMMA(f32_16x16x16_bf16)(a, b, c.v); }
};
template <>
struct MatrixCore<i8> : Wmma<i8, i32, Vec<int, wmma_k / 4>> {
  static WEFT_INLINE void multiply(A a, B b, C& c) { c.v = WEFT_WMMA(i32_16x16x16_iu8)(true, a, true, b, c.v, false); }
};
#ifdef WEFT_FLOAT8
template <>
struct MatrixCore<f8e4m3fn> : Wmma<f8e4m3fn, f32, Vec<int, wmma_k / 4>> {
  static WEFT_INLINE void multiply(A a, B b, C& c) { c.v = WEFT_WMMA(f32_16x16x16_fp8_fp8)(a, b, c.v); }
};
template <>
struct MatrixCore<f8e5m2> : Wmma<f8e5m2, f32, Vec<int, wmma_k / 4>> {
  static WEFT_INLINE void multiply(A a, B b, C& c) { c.v = WEFT_WMMA(f32_16x16x16_bf8_bf8)(a, b, c.v); }
};
#endif
#endif

#ifdef WEFT_MMA
/// Makes what the lanes of a wave wrote to shared memory visible to the whole wave.
WEFT_INLINE void sync_wave() { asm volatile("bar.warp.sync 0xffffffff;" ::: "memory"); }

/// Returns an address in shared memory as the 32-bit number that PTX instructions take.
WEFT_INLINE u32 shared_address(const WEFT_SHARED_SPACE void* p) { return u32(u64(p)); }
/// Starts a copy of 16 bytes into shared memory; only the first `bytes` are read, further bytes become zero.
WEFT_INLINE void copy_async_to(u32 shared, const WEFT_GLOBAL void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(from), "r"(bytes) : "memory");
}
WEFT_INLINE void copy_async_to(u32 shared, const WEFT_GLOBAL void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared), "l"(from) : "memory");
}
/// Copies 16 bytes, or writes zeros if `is_there` is 0; takes fewer instructions than a number of bytes.
WEFT_INLINE void copy_async_if(u32 shared, const WEFT_GLOBAL void* from, int is_there) {
  asm volatile(
      "{ .reg .pred skip; setp.eq.b32 skip, %2, 0; cp.async.cg.shared.global [%0], [%1], 16, skip; }" ::"r"(shared),
      "l"(from), "r"(is_there)
      : "memory");
}
/// Copies a piece of 4, 8 or 16 bytes, or writes zeros if `bytes` is 0.
template <int Piece>
WEFT_INLINE void copy_async_piece(u32 shared, const WEFT_GLOBAL void* from, int bytes) {
  if constexpr (Piece == 16) copy_async_to(shared, from, bytes);
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared), "l"(from), "n"(Piece), "r"(bytes)
                 : "memory");
}
WEFT_INLINE void copy_async(WEFT_SHARED_SPACE void* to, const WEFT_GLOBAL void* from, int bytes) {
  copy_async_to(shared_address(to), from, bytes);
}
/// Makes the copies started since the last call one group.
WEFT_INLINE void end_async_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits until at most `Left` groups are unfinished.
template <int Left>
WEFT_INLINE void wait_async_groups() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Left) : "memory");
}

/// Returns the number of this block in its cluster of `Split` blocks.
template <int Split>
WEFT_INLINE int cluster_rank_of() {
  if constexpr (Split > 1) return int(__nvvm_read_ptx_sreg_cluster_ctarank());
  else return 0;
}

/// Loads four matrices of 8 rows of 16 bytes. Lane l passes the address of row l % 8 of matrix l / 8, a multiple of 16,
/// and gets word l % 4 of row l / 4 of each matrix.
WEFT_INLINE void load_matrices(u32 (&words)[4], u32 shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(shared)
               : "memory");
}
/// Adds a product to the four sums c by one mma.sync m16n8; a has 4 words.
#define WEFT_MMA_M16N8(instruction, register, c, a, b0, b1)                                             \
  asm volatile("mma.sync.aligned." instruction " {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"    \
               : "+" register((c)[0]), "+" register((c)[1]), "+" register((c)[2]), "+" register((c)[3]) \
               : "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), "r"(b0), "r"(b1))

/// Adds a product to c: a is 16 x 16, b is 16 x 8. Lane l holds two words of each of its rows and columns: l % 4 and
/// l % 4 + 4. Its rows of a are l / 4 and l / 4 + 8, its column of b is l / 4.
template <class T>
WEFT_INLINE void multiply_pairs(f32 (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  if constexpr (is_same<T, f16>) WEFT_MMA_M16N8("m16n8k16.row.col.f32.f16.f16.f32", "f", c, a, b0, b1);
  else WEFT_MMA_M16N8("m16n8k16.row.col.f32.bf16.bf16.f32", "f", c, a, b0, b1);
}

/// Two instructions mma.sync m16n8 side by side. Operands are held in 32-bit words (2 f16 or 4 i8, neighbours along k).
/// Lane l holds words l % 4 and l % 4 + 4 of rows l / 4 and l / 4 + 8. Of each row it holds 2 sums per instruction.
template <class Element, class Sum>
struct MmaSync {
  using T = Element;
  using Acc = Sum;
  static constexpr int per = 4 / sizeof(T), k = 8 * per, c_count = 8, row_slots = 2, row_lanes = 4;
  static WEFT_INLINE constexpr int slot(int i) { return i / 2 % 2; }
  struct A {
    u32 w[4];
  };
  struct B {
    u32 w[4];
  };
  struct C {
    Acc v[8];
  };
  static WEFT_INLINE int row(int i) { return lane_id() / 4 + i / 2 % 2 * 8; }
  static WEFT_INLINE int col(int i) { return lane_id() % 4 * 2 + i % 2 + i / 4 * 8; }
  static WEFT_INLINE A load_a(const WEFT_SHARED_SPACE T* p, int stride) {
    A a;
    load_matrices(a.w, shared_address(p + lane_id() % 16 * stride + lane_id() / 16 * (4 * per)));
    return a;
  }
  static WEFT_INLINE B load_b(const WEFT_SHARED_SPACE T* p, int stride) {
    B b;
    load_matrices(b.w,
                  shared_address(p + (lane_id() % 8 + lane_id() / 16 * 8) * stride + lane_id() / 8 % 2 * (4 * per)));
    return b;
  }
};
#define WEFT_MMA(instruction, register)   \
  WEFT_UNROLL for (int h = 0; h < 2; h++) \
      WEFT_MMA_M16N8(instruction, register, c.v + 4 * h, a.w, b.w[2 * h], b.w[2 * h + 1]);
template <>
struct MatrixCore<f16> : MmaSync<f16, f32> {
  static WEFT_INLINE void multiply(const A& a, const B& b, C& c) { WEFT_MMA("m16n8k16.row.col.f32.f16.f16.f32", "f") }
};
template <>
struct MatrixCore<bf16> : MmaSync<bf16, f32> {
  static WEFT_INLINE void multiply(const A& a, const B& b, C& c) { WEFT_MMA("m16n8k16.row.col.f32.bf16.bf16.f32", "f") }
};
template <>
struct MatrixCore<i8> : MmaSync<i8, i32> {
  static WEFT_INLINE void multiply(const A& a, const B& b, C& c) { WEFT_MMA("m16n8k32.row.col.s32.s8.s8.s32", "r") }
};
#ifdef WEFT_FLOAT8
/// The matrix unit keeps about 14 bits of a sum of 8-bit floats, so it sums only one k step; FP32 units add the steps.
#define WEFT_MMA_FLOAT8(instruction)                                                                         \
  WEFT_UNROLL for (int h = 0; h < 2; h++) {                                                                  \
    f32 step[4];                                                                                             \
    asm volatile("mma.sync.aligned." instruction " {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%10,%10,%10,%10};"   \
                 : "=f"(step[0]), "=f"(step[1]), "=f"(step[2]), "=f"(step[3])                                \
                 : "r"(a.w[0]), "r"(a.w[1]), "r"(a.w[2]), "r"(a.w[3]), "r"(b.w[2 * h]), "r"(b.w[2 * h + 1]), \
                   "f"(0.0f));                                                                               \
    WEFT_UNROLL for (int i = 0; i < 4; i++) c.v[4 * h + i] += step[i];                                       \
  }
template <>
struct MatrixCore<f8e4m3fn> : MmaSync<f8e4m3fn, f32> {
  static WEFT_INLINE void multiply(const A& a, const B& b, C& c) {
    WEFT_MMA_FLOAT8("m16n8k32.row.col.f32.e4m3.e4m3.f32")
  }
};
template <>
struct MatrixCore<f8e5m2> : MmaSync<f8e5m2, f32> {
  static WEFT_INLINE void multiply(const A& a, const B& b, C& c) {
    WEFT_MMA_FLOAT8("m16n8k32.row.col.f32.e5m2.e5m2.f32")
  }
};
#endif
/// Adds a b to c in TF32, which has 11 significant bits.
WEFT_INLINE void multiply_tf32(const u32 (&a)[4], u32 b0, u32 b1, f32 (&c)[4]) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
/// f32 precision from three TF32 products: x = high + low to 22 bits, and low * low is below the rounding of f32. The
/// matrix unit rounds sums towards zero, so it only sums one k step, small products first; FP32 units add the steps
/// (Ootomo, Yokota, "Recovering single precision accuracy from Tensor Cores", 2022). An infinite operand gives NaN.
template <>
struct MatrixCore<f32> : MmaSync<f32, f32> {
  using Words = MmaSync<f32, f32>;
  struct A {
    u32 high[4], low[4];
  };
  using B = A;
  static WEFT_INLINE u32 to_tf32(f32 x) {
    u32 bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return bits;
  }
  static WEFT_INLINE A split(const u32 (&w)[4]) {
    A parts;
    WEFT_UNROLL for (int i = 0; i < 4; i++) {
      const f32 x = __builtin_bit_cast(f32, w[i]);
      parts.high[i] = to_tf32(x);
      parts.low[i] = to_tf32(x - __builtin_bit_cast(f32, parts.high[i]));
    }
    return parts;
  }
  static WEFT_INLINE A load_a(const WEFT_SHARED_SPACE f32* p, int stride) { return split(Words::load_a(p, stride).w); }
  static WEFT_INLINE B load_b(const WEFT_SHARED_SPACE f32* p, int stride) { return split(Words::load_b(p, stride).w); }
  static WEFT_INLINE void multiply(const A& a, const B& b, C& c) {
    WEFT_UNROLL for (int h = 0; h < 2; h++) {
      f32 step[4] = {0, 0, 0, 0};
      multiply_tf32(a.low, b.high[2 * h], b.high[2 * h + 1], step);
      multiply_tf32(a.high, b.low[2 * h], b.low[2 * h + 1], step);
      multiply_tf32(a.high, b.high[2 * h], b.high[2 * h + 1], step);
      WEFT_UNROLL for (int i = 0; i < 4; i++) c.v[4 * h + i] += step[i];
    }
  }
};
#endif

}  // namespace weft::kernel
#endif
