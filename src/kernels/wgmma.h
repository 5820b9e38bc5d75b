// SPDX-License-Identifier: Apache-2.0
#pragma once
/// The matrix unit of Hopper as a warp group (four waves) uses it: wgmma multiplies a 64 x k piece of A by a k x N
/// piece of B, read from shared memory (A also from registers) while the threads do other work; sums stay in registers.
/// Rows of a piece are 128 bytes of k, their 16-byte parts permuted (`swizzled`) so that eight rows have no bank
/// conflict. The layout follows the PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions".
///
///     Wgmma<f16, 128>::Sums c = {};
///     wgmma_begin();
///     Wgmma<f16, 128>::multiply(operand_at(a) + i * wgmma_step, operand_at(b) + i * wgmma_step, c);
///     wgmma_commit();
///     wgmma_wait<0>();

#include "matrix_core.h"

namespace weft::kernel {
#ifdef WEFT_WARP_GROUPS
inline constexpr bool has_warp_groups = true;
#else
inline constexpr bool has_warp_groups = false;
#endif
}  // namespace weft::kernel

#ifdef WEFT_WARP_GROUPS
namespace weft::kernel {

/// Returns the byte offset of 16-byte part `part` of 128-byte row `row`.
WEFT_INLINE constexpr u32 swizzled(int row, int part) { return u32(row * 128 + ((part ^ (row & 7)) << 4)); }

/// Returns the descriptor of an operand in swizzled rows of 128 bytes at this shared address, a multiple of 1024.
WEFT_INLINE u64 operand_at(u32 address) {
  return u64(address >> 4 & 0x3fff) | u64(1) << 16 | u64(64) << 32 | u64(1) << 62;
}
/// Returns the descriptor of an operand whose rows each hold 64 elements of one k; the next 64 elements are `apart`
/// bytes further on.
WEFT_INLINE u64 transposed_operand_at(u32 address, int apart) {
  return u64(address >> 4 & 0x3fff) | u64(u32(apart) >> 4) << 16 | u64(64) << 32 | u64(1) << 62;
}
/// The distance between k steps in a descriptor's units of 16 bytes: 32 bytes of a row or, if transposed, 16 rows.
inline constexpr u64 wgmma_step = 2, transposed_step = 128;

/// Makes earlier writes to registers and shared memory visible to the following products.
WEFT_INLINE void wgmma_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
/// Makes the products since the last call one group.
WEFT_INLINE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
/// Waits until at most `Left` groups are unfinished.
template <int Left>
WEFT_INLINE void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Left) : "memory");
}
/// Waits until all groups of products are finished; until then the compiler does not reuse the registers of `a`.
template <int N>
WEFT_INLINE void wgmma_wait_for(const u32 (&a)[N][4]) {
  wgmma_wait<0>();
  WEFT_UNROLL for (int i = 0; i < N;
                   i++) asm volatile("" ::"r"(a[i][0]), "r"(a[i][1]), "r"(a[i][2]), "r"(a[i][3]) : "memory");
}
/// Makes this thread's writes to shared memory visible to the matrix unit after the next barrier.
WEFT_INLINE void share_with_units() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// WEFT_LIST_N names N / 2 sums in the text of an instruction. WEFT_SUMS_N lists the sums as operands.
#define WEFT_TEXT_0 "%0,%1,%2,%3,%4,%5,%6,%7"
#define WEFT_TEXT_1 "%8,%9,%10,%11,%12,%13,%14,%15"
#define WEFT_TEXT_2 "%16,%17,%18,%19,%20,%21,%22,%23"
#define WEFT_TEXT_3 "%24,%25,%26,%27,%28,%29,%30,%31"
#define WEFT_TEXT_4 "%32,%33,%34,%35,%36,%37,%38,%39"
#define WEFT_TEXT_5 "%40,%41,%42,%43,%44,%45,%46,%47"
#define WEFT_TEXT_6 "%48,%49,%50,%51,%52,%53,%54,%55"
#define WEFT_TEXT_7 "%56,%57,%58,%59,%60,%61,%62,%63"
#define WEFT_TEXT_8 "%64,%65,%66,%67,%68,%69,%70,%71"
#define WEFT_TEXT_9 "%72,%73,%74,%75,%76,%77,%78,%79"
#define WEFT_TEXT_10 "%80,%81,%82,%83,%84,%85,%86,%87"
#define WEFT_TEXT_11 "%88,%89,%90,%91,%92,%93,%94,%95"
#define WEFT_TEXT_12 "%96,%97,%98,%99,%100,%101,%102,%103"
#define WEFT_TEXT_13 "%104,%105,%106,%107,%108,%109,%110,%111"
#define WEFT_TEXT_14 "%112,%113,%114,%115,%116,%117,%118,%119"
#define WEFT_TEXT_15 "%120,%121,%122,%123,%124,%125,%126,%127"
#define WEFT_LIST_16 WEFT_TEXT_0
#define WEFT_LIST_32 WEFT_LIST_16 "," WEFT_TEXT_1
#define WEFT_LIST_64 WEFT_LIST_32 "," WEFT_TEXT_2 "," WEFT_TEXT_3
#define WEFT_LIST_128 WEFT_LIST_64 "," WEFT_TEXT_4 "," WEFT_TEXT_5 "," WEFT_TEXT_6 "," WEFT_TEXT_7
#define WEFT_LIST_192 WEFT_LIST_128 "," WEFT_TEXT_8 "," WEFT_TEXT_9 "," WEFT_TEXT_10 "," WEFT_TEXT_11
#define WEFT_LIST_256                                                                                               \
  WEFT_LIST_128 "," WEFT_TEXT_8 "," WEFT_TEXT_9 "," WEFT_TEXT_10 "," WEFT_TEXT_11 "," WEFT_TEXT_12 "," WEFT_TEXT_13 \
                "," WEFT_TEXT_14 "," WEFT_TEXT_15
#define WEFT_EIGHT(r, i) \
  r(c.v[i]), r(c.v[i + 1]), r(c.v[i + 2]), r(c.v[i + 3]), r(c.v[i + 4]), r(c.v[i + 5]), r(c.v[i + 6]), r(c.v[i + 7])
#define WEFT_SUMS_16(r, i) WEFT_EIGHT(r, i)
#define WEFT_SUMS_32(r, i) WEFT_SUMS_16(r, i), WEFT_SUMS_16(r, i + 8)
#define WEFT_SUMS_64(r, i) WEFT_SUMS_32(r, i), WEFT_SUMS_32(r, i + 16)
#define WEFT_SUMS_128(r, i) WEFT_SUMS_64(r, i), WEFT_SUMS_64(r, i + 32)
#define WEFT_SUMS_192(r, i) WEFT_SUMS_128(r, i), WEFT_SUMS_64(r, i + 64)
#define WEFT_SUMS_256(r, i) WEFT_SUMS_128(r, i), WEFT_SUMS_128(r, i + 64)

#define WEFT_WGMMA_TEXT(N, types, list, operands)                                                                   \
  "{ .reg .pred go; setp.ne.b32 go, %[add], 0; wgmma.mma_async.sync.aligned.m64n" #N types " {" list "}, " operands \
  ", go"
/// Compute c += a b (c = a b if Fresh) for a 16-bit type; `a` is in shared memory or, for LANES, in four registers.
#define WEFT_WGMMA_SHARED(N, types)                                                           \
  asm volatile(WEFT_WGMMA_TEXT(N, types, WEFT_LIST_##N, "%[a], %[b]") ", 1, 1, 0, %[turn]; }" \
               : WEFT_SUMS_##N("+f", 0)                                                       \
               : [a] "l"(a), [b] "l"(b), [turn] "n"(int(Transposed)), [add] "n"(int(!Fresh))  \
               : "memory")
#define WEFT_WGMMA_LANES(N, types)                                                                                    \
  asm volatile(WEFT_WGMMA_TEXT(N, types, WEFT_LIST_##N, "{%[x], %[y], %[z], %[w]}, %[b]") ", 1, 1, %[turn]; }"        \
               : WEFT_SUMS_##N("+f", 0)                                                                               \
               : [x] "r"(a[0]), [y] "r"(a[1]), [z] "r"(a[2]), [w] "r"(a[3]), [b] "l"(b), [turn] "n"(int(Transposed)), \
                 [add] "n"(int(!Fresh))                                                                               \
               : "memory")
#define WEFT_WGMMA_BYTES(N, types)                                          \
  asm volatile(WEFT_WGMMA_TEXT(N, types, WEFT_LIST_##N, "%[a], %[b]") "; }" \
               : WEFT_SUMS_##N("+r", 0)                                     \
               : [a] "l"(a), [b] "l"(b), [add] "n"(int(!Fresh))             \
               : "memory")
/// Multiplies 8-bit floats; `out` is "+f", or "=f" for the first product of a sum.
#define WEFT_WGMMA_FLOAT8(N, types, out)                                          \
  asm volatile(WEFT_WGMMA_TEXT(N, types, WEFT_LIST_##N, "%[a], %[b]") ", 1, 1; }" \
               : WEFT_SUMS_##N(out, 0)                                            \
               : [a] "l"(a), [b] "l"(b), [add] "n"(int(!Fresh))                   \
               : "memory")
#define WEFT_WGMMA_E4M3(N, out) WEFT_WGMMA_FLOAT8(N, "k32.f32.e4m3.e4m3", out)
#define WEFT_WGMMA_E5M2(N, out) WEFT_WGMMA_FLOAT8(N, "k32.f32.e5m2.e5m2", out)
#define WEFT_WGMMA_WAIT(N, out) asm volatile("wgmma.wait_group.sync.aligned 0;" : WEFT_SUMS_##N(out, 0)::"memory")
#define WEFT_ANY_WIDTH(instruction, types)              \
  if constexpr (N == 16) instruction(16, types);        \
  else if constexpr (N == 32) instruction(32, types);   \
  else if constexpr (N == 64) instruction(64, types);   \
  else if constexpr (N == 128) instruction(128, types); \
  else if constexpr (N == 192) instruction(192, types); \
  else instruction(256, types)

/// 64 x N sums of products of T: f16, bf16, f8e4m3fn, f8e5m2 (in f32) or i8 (in i32). N is 16, 32, 64, 128, 192 or
/// 256. The unit keeps about 14 bits of the sums of 8-bit floats.
template <class Element, int N>
struct Wgmma {
  using T = Element;
  using Acc = typename SumOf<T>::type;
  static constexpr int k = 32 / sizeof(T), c_count = N / 2, row_slots = 2, row_lanes = 4;
  static WEFT_INLINE constexpr int slot(int i) { return i / 2 % 2; }
  struct Sums {
    Acc v[c_count];
  };
  /// Returns the row (of 64) and column (of N) of this thread's sum i.
  static WEFT_INLINE int row(int i) { return thread_id() % 128 / 32 * 16 + lane_id() / 4 + i / 2 % 2 * 8; }
  static WEFT_INLINE int col(int i) { return i / 4 * 8 + lane_id() % 4 * 2 + i % 2; }

  /// Computes one k step. `Transposed`: B is transposed in memory, so each row holds one k (16-bit types only).
  /// `Fresh`: sets c = a b instead of adding to c.
  template <bool Fresh = false, bool Transposed = false>
  static WEFT_INLINE void multiply(u64 a, u64 b, Sums& c) {
    if constexpr (is_same<T, f16>) {
      WEFT_ANY_WIDTH(WEFT_WGMMA_SHARED, "k16.f32.f16.f16");
    } else if constexpr (is_same<T, bf16>) {
      WEFT_ANY_WIDTH(WEFT_WGMMA_SHARED, "k16.f32.bf16.bf16");
    } else if constexpr (is_same<T, f8e4m3fn> && Fresh) {
      WEFT_ANY_WIDTH(WEFT_WGMMA_E4M3, "=f");
    } else if constexpr (is_same<T, f8e4m3fn>) {
      WEFT_ANY_WIDTH(WEFT_WGMMA_E4M3, "+f");
    } else if constexpr (is_same<T, f8e5m2> && Fresh) {
      WEFT_ANY_WIDTH(WEFT_WGMMA_E5M2, "=f");
    } else if constexpr (is_same<T, f8e5m2>) {
      WEFT_ANY_WIDTH(WEFT_WGMMA_E5M2, "+f");
    } else {
      WEFT_ANY_WIDTH(WEFT_WGMMA_BYTES, "k32.s32.s8.s8");
    }
  }
  /// Waits until all products are finished, and makes the compiler read the sums only after that.
  static WEFT_INLINE void wait_for(Sums& c) { WEFT_ANY_WIDTH(WEFT_WGMMA_WAIT, "+f"); }
  /// Computes one k step with the 64 x 16 piece of A in registers, as pairs of k as in mma.sync. The registers must not
  /// change before the product is done: see wgmma_wait_for.
  template <bool Fresh = false, bool Transposed = false>
  static WEFT_INLINE void multiply(const u32 (&a)[4], u64 b, Sums& c) {
    if constexpr (is_same<T, f16>) {
      WEFT_ANY_WIDTH(WEFT_WGMMA_LANES, "k16.f32.f16.f16");
    } else {
      WEFT_ANY_WIDTH(WEFT_WGMMA_LANES, "k16.f32.bf16.bf16");
    }
  }
};

/// Returns the number of this block in its cluster. The blocks of a cluster can read each other's shared memory.
WEFT_INLINE int cluster_rank() { return int(__nvvm_read_ptx_sreg_cluster_ctarank()); }
/// Waits for all threads of the cluster; their earlier writes are visible afterwards.
WEFT_INLINE void cluster_barrier() {
  asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
/// Returns the address, for load_of_peer, of this shared address in block `rank` of the cluster.
WEFT_INLINE u32 address_in_peer(u32 address, int rank) {
  u32 there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
  return there;
}
template <class T>
WEFT_INLINE Vec<T, 4> load_of_peer(u32 address) {
  u32 x, y, z, w;
  asm volatile("ld.shared::cluster.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(x), "=r"(y), "=r"(z), "=r"(w)
               : "r"(address)
               : "memory");
  return __builtin_bit_cast(Vec<T, 4>, Vec<u32, 4>{x, y, z, w});
}

}  // namespace weft::kernel
#endif
