// SPDX-License-Identifier: Apache-2.0
#pragma once
/// Short vectors: Vec<T, N> (N = 1 is T itself), loads and stores of the first lanes, conversions, reductions.

#include "device.h"
#ifdef WEFT_GPU
#include "gpu_tasks.h"
#endif

namespace weft::kernel {

/// Vector of a storage-only type: the bits of its lanes.
template <class T, int N>
struct Packed;

template <class T>
struct BitsOf : TypeIs<T> {};
template <>
struct BitsOf<bf16> : TypeIs<u16> {};
template <>
struct BitsOf<f8e4m3fn> : TypeIs<u8> {};
template <>
struct BitsOf<f8e4m3fnuz> : TypeIs<u8> {};
template <>
struct BitsOf<f8e5m2> : TypeIs<u8> {};
template <>
struct BitsOf<f8e5m2fnuz> : TypeIs<u8> {};
template <>
struct BitsOf<f8e8m0> : TypeIs<u8> {};
template <class T>
inline constexpr bool is_packed = !is_same<T, typename BitsOf<T>::type>;
template <class T>
inline constexpr bool is_float8 = is_packed<T> && sizeof(T) == 1;

template <class T, int N, bool Pack>
struct VecOf {
  typedef T type __attribute__((ext_vector_type(N)));
};
template <class T, int N>
struct VecOf<T, N, true> : TypeIs<Packed<T, N>> {};
template <class T, bool Pack>
struct VecOf<T, 1, Pack> : TypeIs<T> {};
template <class T>
struct VecOf<T, 1, true> : TypeIs<T> {};
template <class T, int N>
using Vec = typename VecOf<T, N, is_packed<T>>::type;

template <class T, int N>
struct Packed {
  Vec<typename BitsOf<T>::type, N> bits;
};

/// Element type and lane count of a value: Elem<Vec<f32, 8>> is f32, lanes_of<f32> is 1.
template <class V>
struct VecTraits {
  using elem = V;
  static constexpr int lanes = 1;
};
template <class T, int N>
struct VecTraits<T __attribute__((ext_vector_type(N)))> {
  using elem = T;
  static constexpr int lanes = N;
};
template <class T, int N>
struct VecTraits<Packed<T, N>> {
  using elem = T;
  static constexpr int lanes = N;
};
template <class V>
using Elem = typename VecTraits<V>::elem;
template <class V>
inline constexpr int lanes_of = VecTraits<V>::lanes;

/// The valid lanes: all of them, or the first n (0 <= n <= N).
struct Full {};
struct Part {
  int n;
};
WEFT_INLINE int valid_lanes(Full, int lanes) { return lanes; }
WEFT_INLINE int valid_lanes(Part part, int) { return part.n; }

/// Lanes of f32 in one vector register of this device (on GPUs: in 16 bytes, the widest access of a thread).
#if defined(__AVX512F__)
inline constexpr int native_lanes = 16;
#elif defined(WEFT_GPU)
inline constexpr int native_lanes = tasks::gpu_lanes;
#elif defined(__AVX__)
inline constexpr int native_lanes = 8;
#else
inline constexpr int native_lanes = 4;
#endif

template <int Bytes>
struct IntOfSize;
template <>
struct IntOfSize<1> : TypeIs<i8> {};
template <>
struct IntOfSize<2> : TypeIs<i16> {};
template <>
struct IntOfSize<4> : TypeIs<i32> {};
template <>
struct IntOfSize<8> : TypeIs<i64> {};
/// Integers as wide as the lanes of V.
template <class V>
using IntLike = Vec<typename IntOfSize<sizeof(Elem<V>)>::type, lanes_of<V>>;

template <class T, int N>
WEFT_INLINE Vec<T, N> splat(T x) {
  if constexpr (N == 1) return x;
  else if constexpr (is_packed<T>) return {splat<typename BitsOf<T>::type, N>(typename BitsOf<T>::type(x))};
  else return Vec<T, N>(x);
}
/// A list of lanes for a shuffle. A shuffle compiles faster than a loop over lanes.
template <int... I>
struct Lanes {};
template <class T, T... I>
using LaneSequence = Lanes<I...>;
template <int N>
using FirstLanes = __make_integer_seq<LaneSequence, int, N>;

template <class T, int... I>
WEFT_INLINE Vec<T, sizeof...(I)> numbers(Lanes<I...>) {
  return {T(I)...};
}
/// Returns 0, 1, 2, ... N - 1.
template <class T, int N>
WEFT_INLINE Vec<T, N> iota() {
  if constexpr (N == 1) return T(0);
  else return numbers<T>(FirstLanes<N>());
}

// ---- lanes ----
template <class V>
WEFT_INLINE Elem<V> lane(V v, int i) {
  if constexpr (lanes_of<V> == 1) return v;
  else if constexpr (is_packed<Elem<V>>) return Elem<V>(v.bits[i]);
  else return v[i];
}
template <class V>
WEFT_INLINE void set_lane(V& v, int i, Elem<V> x) {
  if constexpr (lanes_of<V> == 1) v = x;
  else if constexpr (is_packed<Elem<V>>) v.bits[i] = typename BitsOf<Elem<V>>::type(x);
  else v[i] = x;
}
/// Convert a packed value to its bits, and back.
template <class T, class V>
WEFT_INLINE auto bits_of(V v) {
  if constexpr (lanes_of<V> == 1) return typename BitsOf<T>::type(v);
  else return v.bits;
}
template <class T, class U>
WEFT_INLINE Vec<T, lanes_of<U>> from_bits(U bits) {
  if constexpr (lanes_of<U> == 1) return T(bits);
  else return {bits};
}

// Each half of a vector is taken by one shuffle, because kernels with loops over lanes take longer to compile.
template <int N, class V>
WEFT_INLINE Vec<Elem<V>, N> low_lanes(V v) {
  static_assert(2 * N == lanes_of<V>);
  if constexpr (is_packed<Elem<V>>) return from_bits<Elem<V>>(v.bits.lo);
  else return v.lo;
}
template <int N, class V>
WEFT_INLINE Vec<Elem<V>, N> high_lanes(V v) {
  static_assert(2 * N == lanes_of<V>);
  if constexpr (is_packed<Elem<V>>) return from_bits<Elem<V>>(v.bits.hi);
  else return v.hi;
}
template <class V>
WEFT_INLINE Vec<Elem<V>, 2 * lanes_of<V>> join(V low, V high) {
  Vec<Elem<V>, 2 * lanes_of<V>> r;
  if constexpr (is_packed<Elem<V>>) r.bits.lo = bits_of<Elem<V>>(low), r.bits.hi = bits_of<Elem<V>>(high);
  else r.lo = low, r.hi = high;
  return r;
}

template <class P>
struct PointeeOf;
template <class T>
struct PointeeOf<WEFT_GLOBAL T*> : TypeIs<remove_const<T>> {};
#ifdef WEFT_CHECKED
template <class T>
struct PointeeOf<CheckedPointer<T>> : TypeIs<remove_const<T>> {};
#endif
template <class P>
struct PointeeOf<P&> : PointeeOf<P> {};
template <class P>
struct PointeeOf<const P> : PointeeOf<P> {};
template <class P>
using Pointee = typename PointeeOf<P>::type;

// ---- load and store ----
/// A vector in memory, aligned only as its elements are.
template <class T, int N>
struct __attribute__((packed, aligned(sizeof(T)))) Loose {
  Vec<T, N> v;
};

#ifdef WEFT_CPU
#define WEFT_VEC_OF(T, N) T __attribute__((__vector_size__(sizeof(T) * N)))
/// Returns a mask of N lanes: all bits are set in the first n lanes and clear in the others.
template <class T, int N>
WEFT_INLINE auto lane_mask(int n) {
  return iota<T, N>() < Vec<T, N>(T(n));
}
template <class T, int N>
inline constexpr bool has_masked =
#if defined(__AVX512VL__) && defined(__AVX512BW__)
    sizeof(T) * N == 16 || sizeof(T) * N == 32 || sizeof(T) * N == 64;
#elif defined(__AVX2__)
    sizeof(T) >= 4 && (sizeof(T) * N == 16 || sizeof(T) * N == 32);
#else
    false;
#endif

#if defined(__AVX512VL__) && defined(__AVX512BW__)
#define WEFT_MASKED(bytes, type, N, suffix, target)                                                          \
  if constexpr (sizeof(T) == sizeof(type) && sizeof(V) == bytes) {                                           \
    using R = WEFT_VEC_OF(type, N);                                                                          \
    if constexpr (Store) __builtin_ia32_storedqu##suffix##_mask((target*)p, __builtin_bit_cast(R, v), mask); \
    else v = __builtin_bit_cast(V, __builtin_ia32_loaddqu##suffix##_mask((const target*)p, R{}, mask));      \
  }
template <bool Store, class T, class V>
WEFT_INLINE void masked_move(void* p, V& v, int n) {
  const u64 mask = n >= 64 ? ~0ull : (1ull << n) - 1;
  using wide = long long;
  WEFT_MASKED(16, char, 16, qi128, R)
  WEFT_MASKED(32, char, 32, qi256, R)
  WEFT_MASKED(64, char, 64, qi512, R)
  WEFT_MASKED(16, short, 8, hi128, R)
  WEFT_MASKED(32, short, 16, hi256, R)
  WEFT_MASKED(64, short, 32, hi512, R)
  WEFT_MASKED(16, int, 4, si128, R)
  WEFT_MASKED(32, int, 8, si256, R)
  WEFT_MASKED(64, int, 16, si512, int)
  WEFT_MASKED(16, wide, 2, di128, R)
  WEFT_MASKED(32, wide, 4, di256, R)
  WEFT_MASKED(64, wide, 8, di512, wide)
}
#elif defined(__AVX2__)
template <bool Store, class T, class V>
WEFT_INLINE void masked_move(void* p, V& v, int n) {
  constexpr int N = sizeof(V) / 4;
  using R = WEFT_VEC_OF(int, N);
  const R mask = __builtin_bit_cast(R, lane_mask<int, N>(n * int(sizeof(T) / 4)));
  if constexpr (N == 4) v = __builtin_bit_cast(V, __builtin_ia32_maskloadd((const R*)p, mask));
  else v = __builtin_bit_cast(V, __builtin_ia32_maskloadd256((const R*)p, mask));
}
#else
template <bool Store, class T, class V>
WEFT_INLINE void masked_move(void*, V&, int) {}
#endif
inline constexpr int widest_register = sizeof(f32) * native_lanes;
/// Lanes of T in a whole register if the device has masked loads of T, else native_lanes.
template <class T>
inline constexpr int whole_lanes =
    has_masked<T, widest_register / sizeof(T)> ? widest_register / sizeof(T) : native_lanes;
#else
template <class T>
inline constexpr int whole_lanes = native_lanes;
#endif  // WEFT_CPU

#ifdef WEFT_NVIDIA
/// NVIDIA GPUs require aligned accesses, so load and store access up to 16 bytes at once at an aligned address, and
/// single elements elsewhere. (LLVM 19 emits wide accesses for 16 x i8 even if the vector type has a lower alignment.)
template <class T, int N>
inline constexpr bool fits_access = sizeof(T) * N <= 16;
template <int Bytes>
WEFT_INLINE bool is_aligned(const WEFT_GLOBAL void* p) {
  return (u64(p) & (Bytes - 1)) == 0;
}
#endif

/// Loads N lanes from p. Lanes past a Part are zero and are not read.
template <int N, class T>
WEFT_INLINE Vec<remove_const<T>, N> load(WEFT_GLOBAL T* p, Full) {
  using E = remove_const<T>;
  if constexpr (N == 1) return *p;
  else if constexpr (is_packed<E>) return from_bits<E>(load<N>((const WEFT_GLOBAL typename BitsOf<E>::type*)p, Full{}));
  else {
#ifdef WEFT_NVIDIA
    if constexpr (!fits_access<E, N>) return join(load<N / 2>(p, Full{}), load<N / 2>(p + N / 2, Full{}));
    else {
      if (is_aligned<sizeof(E) * N>(p)) return *(const WEFT_GLOBAL Vec<E, N>*)p;
      Vec<E, N> v;
      WEFT_UNROLL for (int i = 0; i < N; i++) v[i] = p[i];
      return v;
    }
#else
    return ((const WEFT_GLOBAL Loose<E, N>*)p)->v;
#endif
  }
}
template <int N, class T>
WEFT_INLINE Vec<remove_const<T>, N> load(WEFT_GLOBAL T* p, Part part) {
  using E = remove_const<T>;
#ifdef WEFT_CPU
  if constexpr (has_masked<E, N>) {
    Vec<E, N> v{};
    masked_move<false, E>((void*)p, v, part.n);
    return v;
  } else if constexpr (N > 1 && int(sizeof(E)) * N > widest_register) {
    const int low = part.n < N / 2 ? part.n : N / 2;
    return join(load<N / 2>(p, Part{low}), load<N / 2>(p + low, Part{part.n - low}));
  } else
#endif
  {
    Vec<E, N> v{};
    WEFT_UNROLL for (int i = 0; i < N; i++) if (i < part.n) set_lane(v, i, p[i]);
    return v;
  }
}

/// Loads N lanes. With `Full`, p must be aligned to the size of the vector, or to 16 bytes if the vector is larger.
/// (Not an invariant load, because LLVM could move an invariant load to before wait_for_inputs() of device.h.)
template <int N, class T>
WEFT_INLINE Vec<remove_const<T>, N> load_whole(WEFT_GLOBAL T* p, Full) {
#ifdef WEFT_NVIDIA
  using E = remove_const<T>;
  if constexpr (N > 1 && is_packed<E>) {
    return from_bits<E>(load_whole<N>((const WEFT_GLOBAL typename BitsOf<E>::type*)p, Full{}));
  } else if constexpr (sizeof(E) * N > 16) {
    return join(load_whole<N / 2>(p, Full{}), load_whole<N / 2>(p + N / 2, Full{}));
  } else {
    return *(const WEFT_GLOBAL Vec<E, N>*)p;
  }
#else
  return load<N>(p, Full{});
#endif
}
template <int N, class T>
WEFT_INLINE Vec<remove_const<T>, N> load_whole(WEFT_GLOBAL T* p, Part part) {
  return load<N>(p, part);
}

/// Stores the valid lanes of v at p; memory past these lanes is not touched.
template <class T, class V>
WEFT_INLINE void store(WEFT_GLOBAL T* p, V v, Full) {
  constexpr int N = lanes_of<V>;
  static_assert(is_same<T, Elem<V>>, "convert before storing");
  if constexpr (N == 1) *p = v;
  else if constexpr (is_packed<T>) store((WEFT_GLOBAL typename BitsOf<T>::type*)p, bits_of<T>(v), Full{});
  else {
#ifdef WEFT_NVIDIA
    if constexpr (!fits_access<T, N>) {
      store(p, low_lanes<N / 2>(v), Full{});
      store(p + N / 2, high_lanes<N / 2>(v), Full{});
    } else {
      if (is_aligned<sizeof(T) * N>(p)) return void(*(WEFT_GLOBAL V*)p = v);
      WEFT_UNROLL for (int i = 0; i < N; i++) p[i] = v[i];
    }
#else
    ((WEFT_GLOBAL Loose<T, N>*)p)->v = v;
#endif
  }
}
template <class T, class V>
WEFT_INLINE void store(WEFT_GLOBAL T* p, V v, Part part) {
  constexpr int N = lanes_of<V>;
  static_assert(is_same<T, Elem<V>>, "convert before storing");
#ifdef WEFT_CPU
  // AVX2's masked stores take 12 cycles and more on AMD processors. Storing the two halves separately, with
  // branches, is faster: the branches are well predicted, because they go the same way in every row.
  if constexpr (native_lanes == 16 && has_masked<T, N>) return masked_move<true, T>((void*)p, v, part.n);
  else if constexpr (N > 1) {
    if (part.n >= N) return store(p, v, Full{});
    const int low = part.n < N / 2 ? 0 : N / 2;
    if (low) store(p, low_lanes<N / 2>(v), Full{});
    return store(p + low, low ? high_lanes<N / 2>(v) : low_lanes<N / 2>(v), Part{part.n - low});
  } else
#endif
  {
    WEFT_UNROLL for (int i = 0; i < N; i++) if (i < part.n) p[i] = lane(v, i);
  }
}

/// Stores v. With `Full`, p must be aligned to the size of the vector, or to 16 bytes if the vector is larger.
template <class T, class V>
WEFT_INLINE void store_whole(WEFT_GLOBAL T* p, V v, Full) {
#ifdef WEFT_NVIDIA
  constexpr int N = lanes_of<V>;
  static_assert(is_same<T, Elem<V>>, "convert before storing");
  if constexpr (N > 1 && is_packed<T>) {
    store_whole((WEFT_GLOBAL typename BitsOf<T>::type*)p, bits_of<T>(v), Full{});
  } else if constexpr (sizeof(T) * N > 16) {
    store_whole(p, low_lanes<N / 2>(v), Full{});
    store_whole(p + N / 2, high_lanes<N / 2>(v), Full{});
  } else {
    *(WEFT_GLOBAL V*)p = v;
  }
#else
  store(p, v, Full{});
#endif
}
template <class T, class V>
WEFT_INLINE void store_whole(WEFT_GLOBAL T* p, V v, Part part) {
  store(p, v, part);
}

#ifdef WEFT_CHECKED
template <int N, class T, class L>
WEFT_INLINE Vec<remove_const<T>, N> load(CheckedPointer<T> p, L lanes) {
  if (!p.readable(0, valid_lanes(lanes, N))) return {};
  return load<N>(p.at, lanes);
}
template <int N, class T, class L>
WEFT_INLINE auto load_whole(CheckedPointer<T> p, L lanes) {
  return load<N>(p, lanes);
}
template <class T, class V, class L>
WEFT_INLINE void store(CheckedPointer<T> p, V v, L lanes) {
  if (p.writable(0, valid_lanes(lanes, lanes_of<V>))) store(p.at, v, lanes);
}
template <class T, class V, class L>
WEFT_INLINE void store_whole(CheckedPointer<T> p, V v, L lanes) {
  store(p, v, lanes);
}
#endif

// ---- masks ---- A comparison of vectors gives an integer vector of 0 and -1; a comparison of scalars gives a bool.
/// Returns mask ? a : b, lane by lane; the mask's elements may have any width.
template <class M, class V>
WEFT_INLINE V select(M mask, V a, V b) {
  if constexpr (lanes_of<V> == 1) return mask ? a : b;
  else if constexpr (sizeof(Elem<M>) == sizeof(Elem<V>)) return (mask != 0) ? a : b;
  else return __builtin_convertvector(mask != 0, IntLike<V>) ? a : b;
}
/// Returns a mask as stored booleans, 0 and 1.
template <class M>
WEFT_INLINE Vec<u8, lanes_of<M>> as_bool(M mask) {
  if constexpr (lanes_of<M> == 1) return mask ? 1 : 0;
  else return __builtin_convertvector(mask != 0, Vec<u8, lanes_of<M>>) & Vec<u8, lanes_of<M>>(1);
}
template <class M>
WEFT_INLINE bool any(M mask) {
  if constexpr (lanes_of<M> == 1) return mask;
  else return __builtin_reduce_or(mask) != 0;
}

// ---- conversion ----
template <class To, class V>
WEFT_INLINE Vec<To, lanes_of<V>> bits_to(V v) {
  return __builtin_bit_cast(Vec<To, lanes_of<V>>, v);
}
/// Converts between types that have arithmetic (integers, f16, f32, f64), as C++ converts numbers.
template <class To, class V>
WEFT_INLINE Vec<To, lanes_of<V>> convert_plain(V v) {
  if constexpr (lanes_of<V> == 1) return To(v);
  else return __builtin_convertvector(v, Vec<To, lanes_of<V>>);
}

/// Convert bf16 to f32 and back: round to nearest even; NaN stays a (quiet) NaN.
template <class V>
WEFT_INLINE Vec<f32, lanes_of<V>> bf16_to_f32(V bits) {
  return bits_to<f32>(convert_plain<u32>(bits) << 16);
}
template <class V>
WEFT_INLINE Vec<u16, lanes_of<V>> f32_to_bf16(V x) {
  constexpr int N = lanes_of<V>;
#if defined(__AVX512BF16__) && defined(__AVX512DQ__)
  // These instructions treat denormals as zero, so vectors with a denormal are converted below.
  const auto denormals = [](Vec<f32, 16> v) WEFT_LAMBDA { return __builtin_ia32_fpclassps512_mask(v, 0x20, 0xffff); };
  if constexpr (N == 32) {
    if ((denormals(x.lo) | denormals(x.hi)) == 0) [[likely]]
      return __builtin_bit_cast(Vec<u16, N>, __builtin_ia32_cvtne2ps2bf16_512(x.hi, x.lo));
  } else if constexpr (N == 16) {
    using Result = __bf16 __attribute__((__vector_size__(32)));
    if (denormals(x) == 0) [[likely]]
      return __builtin_bit_cast(Vec<u16, N>, __builtin_ia32_cvtneps2bf16_512_mask(x, Result{}, 0xffff));
    asm("" : "+v"(x));  // without this, LLVM would compute x as integers, where a maximum takes two instructions
  }
  if constexpr (N >= 32) return join(f32_to_bf16(low_lanes<N / 2>(x)), f32_to_bf16(high_lanes<N / 2>(x)));
#endif
  using U = Vec<u32, N>;
  const U bits = bits_to<u32>(x);
  const U rounded = (bits + U(0x7fff) + ((bits >> 16) & U(1))) >> 16;
  return convert_plain<u16>(select(x != x, (bits >> 16) | U(0x40), rounded));
}

/// The layout of an 8-bit float. `Fnuz`: no infinity, no minus zero, NaN is 0x80. f8e4m3fn: NaN is 0x7f or 0xff.
template <int Mantissa, int Bias, bool Fnuz, bool HasInf>
struct Float8 {
  static constexpr u32 max_bits = Fnuz ? 0x7f : HasInf ? 0x7b : 0x7e;  // the largest finite value
  static constexpr u32 nan_bits = Fnuz ? 0x80 : HasInf ? 0x7e : 0x7f;
  static constexpr f32 two_to(int n) {
    f32 r = 1;
    for (int i = 0; i < n; i++) r *= 2;
    for (int i = 0; i > n; i--) r *= 0.5f;
    return r;
  }
  /// Shifts the bits into an f32 and multiplies by a power of two, which corrects the exponent, also for denormals.
  template <class U>
  static WEFT_INLINE Vec<f32, lanes_of<U>> decode(U bits) {
    using F = Vec<f32, lanes_of<U>>;
    const U magnitude = bits & U(0x7f), sign = (bits & U(0x80)) << 24;
    F x = bits_to<f32>(magnitude << (23 - Mantissa)) * F(two_to(127 - Bias));
    if constexpr (HasInf) x = select(magnitude > U(0x7b), bits_to<f32>(U(0x7f800000) | ((magnitude & U(3)) << 21)), x);
    x = bits_to<f32>(bits_to<u32>(x) | sign);
    const auto nan = Fnuz ? bits == U(0x80) : magnitude == U(0x7f);
    return select(nan, F(__builtin_nanf("")), x);
  }
  /// Rounds to nearest even. NaN stays NaN. A value that is too large becomes the largest finite value with `saturate`
  /// (ONNX's default); otherwise infinity, or NaN if the type has no infinity.
  template <bool saturate = true, class F>
  static WEFT_INLINE Vec<u32, lanes_of<F>> encode(F x) {
    using U = Vec<u32, lanes_of<F>>;
    const U bits = bits_to<u32>(x), sign = (bits >> 24) & U(0x80), low = U(bits & U(0x7fffffff));
    const F magnitude = bits_to<f32>(low);
    constexpr u32 drop = 23 - Mantissa;
    // For denormals of the small format: adding a power of two aligns the mantissa to the low bits and rounds it.
    constexpr f32 smallest_normal = two_to(1 - Bias);
    constexpr f32 lift = smallest_normal * two_to(int(drop));
    const U tiny = bits_to<u32>(magnitude + F(lift)) - bits_to<u32>(F(lift));
    const U rebias = U(u32(127 - Bias) << 23);
    const U normal = (low - rebias + U((1u << (drop - 1)) - 1) + ((low >> drop) & U(1))) >> drop;
    U r = select(magnitude < F(smallest_normal), tiny, normal);
    constexpr u32 over = saturate ? max_bits : HasInf ? 0x7c : nan_bits;
    const auto is_over = (magnitude >= F(480.0f * 256.0f)) | (r > U(max_bits));
    r = select(is_over, U(over), r);
    r = Fnuz ? select(r == U(0), r, r | sign) : r | sign;
    if constexpr (over == nan_bits) r = select(is_over, U(nan_bits), r);
    return select(x != x, U(nan_bits), r);
  }
};
/// f8e8m0: powers of two from 2^-127 on, no sign, no zero; 255 is NaN.
struct PowerOfTwo {
  template <class U>
  static WEFT_INLINE Vec<f32, lanes_of<U>> decode(U bits) {
    const U power = select(bits == U(0), U(0x00400000), bits << 23);
    return bits_to<f32>(select(bits == U(255), U(0x7fc00000), power));
  }
  /// Returns the bits of the least power of two >= x: NaN for x < 0, 2^-127 for 0, NaN or 2^127 (saturate) above 2^127.
  template <bool saturate = true, class F>
  static WEFT_INLINE Vec<u32, lanes_of<F>> encode(F x) {
    using U = Vec<u32, lanes_of<F>>;
    const U bits = bits_to<u32>(x), exponent = (bits >> 23) & U(255), mantissa = bits & U(0x7fffff);
    const U part = select(mantissa > select(exponent == U(0), U(0x400000), U(0)), U(1), U(0));
    const U up = exponent + part;
    const U r = select(up > U(254), U(saturate ? 254 : 255), up);
    return select((x != x) | (x < F(0)), U(255), select(x == F(0), U(0), r));
  }
};
template <class T>
struct Float8Of;
template <>
struct Float8Of<f8e4m3fn> : TypeIs<Float8<3, 7, false, false>> {};
template <>
struct Float8Of<f8e4m3fnuz> : TypeIs<Float8<3, 8, true, false>> {};
template <>
struct Float8Of<f8e5m2> : TypeIs<Float8<2, 15, false, true>> {};
template <>
struct Float8Of<f8e5m2fnuz> : TypeIs<Float8<2, 16, true, false>> {};
template <>
struct Float8Of<f8e8m0> : TypeIs<PowerOfTwo> {};

/// Converts f64 to f32, rounded to odd: an inexact result gets an odd last bit. Rounding it again to a type of at most
/// 22 significant bits gives the same as rounding once (Boldo and Melquiond, "When double rounding is odd", 2005).
template <class V>
WEFT_INLINE Vec<f32, lanes_of<V>> rounded_to_odd(V x) {
  using U = Vec<u32, lanes_of<V>>;
  const auto near = convert_plain<f32>(x);
  const V back = convert_plain<f64>(near), size = select(x < V(0), -x, x), found = select(back < V(0), -back, back);
  U bits = bits_to<u32>(near);
  bits = select(found > size, bits - U(1), bits);
  return bits_to<f32>(select((found < size) | (found > size), bits | U(1), bits));
}

/// Converts any element type to any other, lane by lane; f64 is rounded only once. A value too large for an 8-bit float
/// becomes infinity or NaN, so that overflow stays visible.
template <class To, class V>
WEFT_INLINE Vec<To, lanes_of<V>> convert(V v) {
  using From = Elem<V>;
  if constexpr (is_same<To, From>) return v;
  else if constexpr (is_same<From, f64> && (is_same<To, f16> || is_packed<To>)) return convert<To>(rounded_to_odd(v));
  else if constexpr (is_same<From, bf16>) return convert<To>(bf16_to_f32(bits_of<bf16>(v)));
  else if constexpr (is_packed<From>) {
    return convert<To>(Float8Of<From>::type::decode(convert_plain<u32>(bits_of<From>(v))));
  } else if constexpr (is_same<To, bf16>) return from_bits<bf16>(f32_to_bf16(convert_plain<f32>(v)));
  else if constexpr (is_packed<To>) {
    return from_bits<To>(convert_plain<u8>(Float8Of<To>::type::template encode<false>(convert_plain<f32>(v))));
  } else return convert_plain<To>(v);
}

// ---- reductions over the lanes, in a fixed order: halves are combined until one lane is left ----
template <class V, class Op>
WEFT_INLINE Elem<V> reduce_lanes(V v, Op op) {
  if constexpr (lanes_of<V> == 1) return v;
  else return reduce_lanes(op(low_lanes<lanes_of<V> / 2>(v), high_lanes<lanes_of<V> / 2>(v)), op);
}
template <class V>
WEFT_INLINE Elem<V> reduce_add(V v) {
  return reduce_lanes(v, [](auto a, auto b) WEFT_LAMBDA { return a + b; });
}
/// Return the largest, or smallest, lane; NaN if any lane is NaN.
template <class V>
WEFT_INLINE Elem<V> reduce_max(V v) {
  return reduce_lanes(v, [](auto a, auto b) WEFT_LAMBDA { return ((a > b) | (a != a)) ? a : b; });
}
template <class V>
WEFT_INLINE Elem<V> reduce_min(V v) {
  return reduce_lanes(v, [](auto a, auto b) WEFT_LAMBDA { return ((a < b) | (a != a)) ? a : b; });
}

}  // namespace weft::kernel
