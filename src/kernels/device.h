// SPDX-License-Identifier: Apache-2.0
#pragma once
/// Everything that kernels know about their device: kernel entry, buffers, sizes and task ranges; on GPUs also thread
/// ids, barriers, shuffles and shared memory. Exactly one of WEFT_CPU, WEFT_AMD and WEFT_NVIDIA is set. Standard
/// headers are not used.

#include "launch.h"

#ifdef __clang__
#pragma clang diagnostic ignored "-Wpsabi"  // functions that pass vectors wider than a register are inlined
#else
#error "the kernel library needs clang's vector extensions"
#endif

#if defined(__AMDGCN__)
#define WEFT_AMD 1
#elif defined(__NVPTX__)
#define WEFT_NVIDIA 1
#else
#define WEFT_CPU 1
#endif
#if defined(WEFT_AMD) || defined(WEFT_NVIDIA)
#define WEFT_GPU 1
#endif

/// Declares that the functions of a class are in an object that kernels share; `header` defines the class.
#define WEFT_SHARED_PART(header, ...) extern template struct weft::kernel::__VA_ARGS__;

#define WEFT_INLINE __attribute__((always_inline)) inline
#define WEFT_LAMBDA __attribute__((always_inline))
#define WEFT_COLD __attribute__((noinline, cold))
#define WEFT_UNROLL _Pragma("clang loop unroll(full)")
#define WEFT_FEW _Pragma("clang loop unroll_count(2)")
#define WEFT_NO_UNROLL _Pragma("clang loop unroll(disable)")

#ifdef WEFT_GPU
#define WEFT_GLOBAL __attribute__((address_space(1)))
#define WEFT_SHARED_SPACE __attribute__((address_space(3)))
#define WEFT_SHARED static __attribute__((address_space(3), loader_uninitialized))
#else
#define WEFT_GLOBAL
#endif

namespace weft::kernel {

using f16 = _Float16;
using f32 = float;
using f64 = double;
// Floats of 16 and 8 bits that have no arithmetic: convert<f32> converts them first.
enum class __attribute__((may_alias)) bf16 : u16 {};
enum class __attribute__((may_alias)) f8e4m3fn : u8 {};
enum class __attribute__((may_alias)) f8e4m3fnuz : u8 {};
enum class __attribute__((may_alias)) f8e5m2 : u8 {};
enum class __attribute__((may_alias)) f8e5m2fnuz : u8 {};
enum class __attribute__((may_alias)) f8e8m0 : u8 {};

template <class A, class B>
inline constexpr bool is_same = __is_same(A, B);
template <class T>
using remove_const = __remove_const(T);
/// The base of a struct that maps a type or a number to the type T.
template <class T>
struct TypeIs {
  using type = T;
};

/// Return the smaller and the larger of two integers, and the quotient rounded up (b > 0, a >= 0).
WEFT_INLINE constexpr i64 least(i64 a, i64 b) { return a < b ? a : b; }
WEFT_INLINE constexpr i64 most(i64 a, i64 b) { return a > b ? a : b; }
WEFT_INLINE constexpr i64 ceil_div(i64 a, i64 b) { return (a + b - 1) / b; }

/// a / b and the remainder, for a >= 0 and b > 0. Divides in 32 bits if possible: 64-bit division is slow on GPUs. There
/// the rare large numbers are divided bit by bit, because the kernel is large with the compiler's division in 64 bits,
/// and with its call ptxas keeps so few registers that it spills.
struct Division {
  i64 quotient, rest;
};
WEFT_INLINE Division divide_bitwise(u64 a, u64 b) {
  u64 quotient = 0;
  WEFT_NO_UNROLL for (int i = __builtin_clzll(b); i >= 0; --i) {
    const bool fits = a >> i >= b;
    a -= fits ? b << i : 0, quotient = quotient << 1 | fits;
  }
  return {i64(quotient), i64(a)};
}
WEFT_INLINE Division divide_index(i64 a, i64 b) {
  if (u64(a | b) >> 32 == 0) return {i64(u32(a) / u32(b)), i64(u32(a) % u32(b))};
#ifdef WEFT_GPU
  return divide_bitwise(u64(a), u64(b));
#else
  return {a / b, a % b};
#endif
}

/// Records a fault if it is the first of a launch.
WEFT_INLINE void note_fault(WEFT_GLOBAL KernelFault* fault, FaultKind kind, i64 offset, i64 size = 0, i32 buffer = 0,
                            i64 bytes = 0) {
  i32 none = 0;
  if (!fault) return;
  if (!__atomic_compare_exchange_n((WEFT_GLOBAL i32*)&fault->kind, &none, i32(kind), false, __ATOMIC_RELAXED,
                                   __ATOMIC_RELAXED))
    return;
  fault->buffer = buffer, fault->offset = offset, fault->size = size, fault->bytes = bytes;
}

#ifdef WEFT_CHECKED

/// Checked kernels only: the task that wrote each byte of a buffer (launch.h). On a GPU a block is a task.
struct Writers {
  WEFT_GLOBAL u32* stamps = nullptr;
  u32 earlier = 0, stamp = 0;

  WEFT_INLINE bool is_others(u32 s) const { return s > earlier && s != stamp && s != unknown_stamp; }
  /// Returns the fault of reading `size` bytes at `offset`, if any. The loop counts from 0, because ptxas (12.8, 13.0)
  /// miscompiles a loop that starts at `offset`.
  WEFT_INLINE FaultKind reads(i64 offset, i64 size) const {
    for (i64 i = 0; stamps && i < size; i++) {
      const u32 writer = __atomic_load_n(&stamps[offset + i], __ATOMIC_RELAXED);
      if (writer == 0) return FaultKind::unwritten;
      if (is_others(writer)) return FaultKind::race;
    }
    return FaultKind::none;
  }
  /// Records this task as the writer of `size` bytes at `offset`. Returns the fault of writing them, if any.
  WEFT_INLINE FaultKind writes(i64 offset, i64 size) const {
    FaultKind fault = FaultKind::none;
    for (i64 i = 0; stamps && i < size; i++) {
      if (is_others(put(offset + i))) fault = FaultKind::race;
    }
    return fault;
  }
#ifdef WEFT_CPU
  /// Records this task as the writer of a byte; returns the previous writer.
  WEFT_INLINE u32 put(i64 at) const {
    const u32 before = stamps[at];
    return stamps[at] = stamp, before;
  }
  /// Records that unchecked code may write any of the buffer's `bytes` bytes.
  WEFT_INLINE void forget(i64 bytes) const {
    if (!stamps || bytes == 0 || stamps[0] == unknown_stamp) return;
    for (i64 i = 0; i < bytes; i++) stamps[i] = unknown_stamp;
  }
#else
  WEFT_INLINE u32 put(i64 at) const { return __atomic_exchange_n(&stamps[at], stamp, __ATOMIC_RELAXED); }
  WEFT_INLINE void forget(i64) const {}  // the host does this for the results of kernels with unchecked code
#endif
};

/// A pointer with the bounds of its buffer. `valid(first, count)` returns true if the elements are inside the buffer,
/// and records a fault if not; `readable` and `writable` also record the faults that `Writers` finds. load and store in
/// vec.h call them and drop accesses outside the buffer.
template <class T>
struct CheckedPointer {
  WEFT_GLOBAL T* at;
  WEFT_GLOBAL T* base;
  i64 bytes;
  i32 buffer;
  WEFT_GLOBAL KernelFault* fault;
  Writers writers;

  WEFT_INLINE bool valid(i64 first, i64 count) const {
    i64 offset = (at - base + first) * i64(sizeof(T)), size = count * i64(sizeof(T));
    if (count == 0 || (offset >= 0 && offset + size <= bytes)) return true;
    note_fault(fault, FaultKind::out_of_bounds, offset, size, buffer, bytes);
    return false;
  }
  WEFT_INLINE bool readable(i64 first, i64 count) const {
    if (!valid(first, count)) return false;
    note(first, count, writers.reads((at - base + first) * i64(sizeof(T)), count * i64(sizeof(T))));
    return true;
  }
  WEFT_INLINE bool writable(i64 first, i64 count) const {
    if (!valid(first, count)) return false;
    note(first, count, writers.writes((at - base + first) * i64(sizeof(T)), count * i64(sizeof(T))));
    return true;
  }
  WEFT_INLINE void note(i64 first, i64 count, FaultKind kind) const {
    if (kind == FaultKind::none) return;
    note_fault(fault, kind, (at - base + first) * i64(sizeof(T)), count * i64(sizeof(T)), buffer, bytes);
  }
  WEFT_INLINE CheckedPointer moved(WEFT_GLOBAL T* to) const {
    CheckedPointer p = *this;
    return p.at = to, p;
  }
  WEFT_INLINE CheckedPointer operator+(i64 n) const { return moved(at + n); }
  WEFT_INLINE CheckedPointer operator-(i64 n) const { return moved(at - n); }
  WEFT_INLINE CheckedPointer& operator+=(i64 n) { return at += n, *this; }
  /// A mutable reference counts as a write.
  WEFT_INLINE WEFT_GLOBAL T& operator[](i64 n) const {
    const bool ok = is_same<T, remove_const<T>> ? writable(n, 1) : readable(n, 1);
    return ok ? at[n] : *base;
  }
};
template <class T>
using Global = CheckedPointer<T>;
template <class T>
WEFT_INLINE WEFT_GLOBAL T* raw(CheckedPointer<T> p) {
  if constexpr (is_same<T, remove_const<T>>) p.writers.forget(p.bytes);
  return p.at;
}
#else
/// A pointer to elements of a kernel's buffer.
template <class T>
using Global = WEFT_GLOBAL T*;
#endif
template <class T>
WEFT_INLINE T* raw(T* p) {
  return p;
}

#ifdef WEFT_CPU
/// One call of a kernel on the CPU: tasks [begin, end). `Buffers` and `Threads` matter to GPUs only.
template <int Buffers = 16, int Threads = 256>
struct Launch {
  const LaunchArgs* args;
  i64 begin, end;
};
inline constexpr int wave_size = 1;

/// Runs body(task) for this call's share of the tasks [0, total).
template <class L, class Body>
WEFT_INLINE void for_tasks(const L& launch, i64 total, const Body& body) {
  const i64 end = least(launch.end, total);
  WEFT_NO_UNROLL for (i64 task = launch.begin; task < end; task++) body(task);
}
/// Runs body(item) for this call's share of the items [0, total).
template <class L, class Body>
WEFT_INLINE void for_items(const L& launch, i64 total, const Body& body) {
  for_tasks(launch, total, body);
}
template <class L>
WEFT_INLINE i64 size_at(const L& launch, int i) {
  return launch.args->sizes[i];
}
template <class L>
WEFT_INLINE void* buffer_at(const L& launch, int i) {
  return launch.args->buffers[i];
}
template <class L>
WEFT_INLINE const LaunchArgs& checks(const L& launch) {
  return *launch.args;
}

#define WEFT_KERNEL(name, ...)                                                                               \
  static WEFT_INLINE void name##_body(const weft::kernel::Launch<__VA_ARGS__>& weft_launch);                 \
  extern "C" __attribute__((visibility("default"))) void name(const weft::LaunchArgs* args, weft::i64 begin, \
                                                              weft::i64 end) {                               \
    name##_body({args, begin, end});                                                                         \
  }                                                                                                          \
  static WEFT_INLINE void name##_body([[maybe_unused]] const weft::kernel::Launch<__VA_ARGS__>& weft_launch)

#else  // GPU

/// One call of a kernel on a GPU; the block has `Threads` threads in one dimension.
template <int Buffers = 16, int Threads = 256>
struct Launch {
  DeviceArgs<Buffers> args;
  static constexpr int threads = Threads;
  /// Return the index of this block, the number of blocks, and the index of this thread in the block.
  static WEFT_INLINE i64 block();
  static WEFT_INLINE i64 blocks();
  static WEFT_INLINE int thread();
};

inline constexpr int wave_size = WEFT_WAVE;
#ifdef WEFT_AMD
#define WEFT_ENTRY __attribute__((amdgpu_kernel, visibility("protected")))
#define WEFT_CONSTANT __attribute__((address_space(4)))
static_assert(__AMDGCN_WAVEFRONT_SIZE__ == WEFT_WAVE);
WEFT_INLINE int thread_id() { return int(__builtin_amdgcn_workitem_id_x()); }
WEFT_INLINE i64 block_id() { return __builtin_amdgcn_workgroup_id_x(); }
WEFT_INLINE i64 block_count(int threads) { return __builtin_amdgcn_grid_size_x() / u32(threads); }
/// Waits for every thread of the block, and makes earlier writes to shared and global memory visible.
WEFT_INLINE void barrier() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
/// Returns the value of `v` in the lane whose number is this lane's number XOR `mask`.
WEFT_INLINE u32 shuffle_xor(u32 v, int mask) {
  const int lane = thread_id() & (wave_size - 1);
  return u32(__builtin_amdgcn_ds_bpermute((lane ^ mask) << 2, int(v)));
}
#else
#define WEFT_ENTRY __attribute__((nvptx_kernel))
/// Shared memory, as much as the launch requests.
extern "C" __attribute__((address_space(3), aligned(1024))) char weft_dynamic_shared[];
#define WEFT_CONSTANT __attribute__((address_space(1)))
WEFT_INLINE int thread_id() { return int(__nvvm_read_ptx_sreg_tid_x()); }
WEFT_INLINE i64 block_id() { return __nvvm_read_ptx_sreg_ctaid_x(); }
WEFT_INLINE i64 block_count(int) { return __nvvm_read_ptx_sreg_nctaid_x(); }
WEFT_INLINE void barrier() { __nvvm_bar_sync(0); }
WEFT_INLINE u32 shuffle_xor(u32 v, int mask) { return u32(__nvvm_shfl_sync_bfly_i32(-1u, int(v), mask, 31)); }
#endif

template <int Buffers, int Threads>
WEFT_INLINE i64 Launch<Buffers, Threads>::block() {
  return block_id();
}
template <int Buffers, int Threads>
WEFT_INLINE i64 Launch<Buffers, Threads>::blocks() {
  return block_count(Threads);
}
template <int Buffers, int Threads>
WEFT_INLINE int Launch<Buffers, Threads>::thread() {
  return thread_id();
}
/// One of several kernels that share a launch. Its buffers and sizes begin at `first_buffer` and `first_size`. These
/// threads run block `at` of its `count` blocks. A thread block may run several such blocks of `Threads` threads.
template <class Whole, int Threads>
struct LaunchPart {
  const Whole& whole;
  int first_buffer, first_size;
  i64 at, count;
  static constexpr int threads = Threads;
  WEFT_INLINE i64 block() const { return at; }
  WEFT_INLINE i64 blocks() const { return count; }
  WEFT_INLINE int thread() const { return Threads == Whole::threads ? thread_id() : thread_id() % Threads; }
};
template <int Threads, class L>
WEFT_INLINE LaunchPart<L, Threads> launch_part(const L& whole, int first_buffer, int first_size, i64 at, i64 count) {
  return {whole, first_buffer, first_size, at, count};
}

/// Part `part` of a launch that runs the same kernel `Parts` times; this block is number `at` of the part. The buffers
/// and sizes of a part follow those of the part before it. The launch's first sizes are the block counts of the parts.
template <class Whole, int Parts, int Buffers, int Sizes>
struct LaunchChoice {
  const Whole& whole;
  int part;
  i64 at;
  static constexpr int threads = Whole::threads;
  WEFT_INLINE i64 block() const { return at; }
  WEFT_INLINE i64 blocks() const { return size_at(whole, part); }
  WEFT_INLINE int thread() const { return thread_id(); }
};
/// Runs body(LaunchChoice) for the part that this block belongs to.
template <int Parts, int Buffers, int Sizes, class L, class Body>
WEFT_INLINE void choose_part(const L& launch, const Body& body) {
  i64 block = launch.block();
  int part = 0;
  WEFT_UNROLL for (int i = 0; i + 1 < Parts; i++) {
    if (part == i && block >= size_at(launch, i)) block -= size_at(launch, i), part = i + 1;
  }
  if (block < size_at(launch, part)) body(LaunchChoice<L, Parts, Buffers, Sizes>{launch, part, block});
}

template <class T>
WEFT_INLINE T shuffle_xor(T v, int mask) {
  if constexpr (sizeof(T) == 8) {
    const u64 bits = __builtin_bit_cast(u64, v);
    const u64 low = shuffle_xor(u32(bits), mask), high = shuffle_xor(u32(bits >> 32), mask);
    return __builtin_bit_cast(T, high << 32 | low);
  } else {
    u32 bits = 0;
    __builtin_memcpy(&bits, &v, sizeof v);
    bits = shuffle_xor(bits, mask);
    __builtin_memcpy(&v, &bits, sizeof v);
    return v;
  }
}

/// Runs body(task) for this block's share of the tasks [0, total); all threads of the block run every task together.
template <class L, class Body>
WEFT_INLINE void for_tasks(const L& launch, i64 total, const Body& body) {
  WEFT_NO_UNROLL for (i64 task = launch.block(); task < total; task += launch.blocks()) body(task);
}
/// Runs body(item) for this block's share of the items [0, total), each item on one thread.
template <class L, class Body>
WEFT_INLINE void for_items(const L& launch, i64 total, const Body& body) {
  for_tasks(launch, ceil_div(total, launch.threads), [&](i64 task) WEFT_LAMBDA {
    const i64 item = task * launch.threads + launch.thread();
    if (item < total) body(item);
  });
}
template <class L>
WEFT_INLINE i64 size_at(const L& launch, int i) {
  return ((const WEFT_CONSTANT i64*)launch.args.sizes)[i];
}
template <class L>
WEFT_INLINE void* buffer_at(const L& launch, int i) {
  return launch.args.buffers[i];
}
template <class L>
WEFT_INLINE const auto& checks(const L& launch) {
  return launch.args;
}
template <class Whole, int Threads>
WEFT_INLINE i64 size_at(const LaunchPart<Whole, Threads>& part, int i) {
  return size_at(part.whole, part.first_size + i);
}
template <class Whole, int Threads>
WEFT_INLINE void* buffer_at(const LaunchPart<Whole, Threads>& part, int i) {
  return buffer_at(part.whole, part.first_buffer + i);
}
template <class Whole, int Threads>
WEFT_INLINE const auto& checks(const LaunchPart<Whole, Threads>& part) {
  return part.whole.args;
}

template <class Whole, int Parts, int Buffers, int Sizes>
WEFT_INLINE i64 size_at(const LaunchChoice<Whole, Parts, Buffers, Sizes>& choice, int i) {
  return size_at(choice.whole, Parts + choice.part * Sizes + i);
}
template <class Whole, int Parts, int Buffers, int Sizes>
WEFT_INLINE void* buffer_at(const LaunchChoice<Whole, Parts, Buffers, Sizes>& choice, int i) {
  void* chosen = buffer_at(choice.whole, i);
  WEFT_UNROLL for (int part = 1; part < Parts; part++) {
    if (choice.part == part) chosen = buffer_at(choice.whole, part * Buffers + i);
  }
  return chosen;
}
template <class Whole, int Parts, int Buffers, int Sizes>
WEFT_INLINE const auto& checks(const LaunchChoice<Whole, Parts, Buffers, Sizes>& choice) {
  return choice.whole.args;
}

/// Allows the next launch to begin, if kernels are compiled for early launches; otherwise does nothing.
WEFT_INLINE void let_next_begin() {
#ifdef WEFT_EARLY_LAUNCH
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
/// Waits until the kernel may read results of the previous launch and overwrite its memory. The kernel may read
/// constants, packed weights and sizes before this call.
WEFT_INLINE void wait_for_inputs() {
#ifdef WEFT_EARLY_LAUNCH
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// Prefetches `count` elements into the L2 cache (NVIDIA only). For constants that a kernel reads late, such as a bias;
/// called before wait_for_inputs().
template <class L, class T>
WEFT_INLINE void fetch_ahead(const L& launch, const WEFT_GLOBAL T* from, i64 count) {
#ifdef WEFT_NVIDIA
  constexpr int line = 128 / sizeof(T);
  if (launch.block() != 0) return;
  for (i64 at = thread_id() * line; at < count; at += L::threads * line) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(from + at));
  }
#endif
}

#define WEFT_KERNEL_ENTRY(name, wait, ...)                                                   \
  static WEFT_INLINE void name##_body(const weft::kernel::Launch<__VA_ARGS__>& weft_launch); \
  extern "C" WEFT_ENTRY void name(weft::kernel::Launch<__VA_ARGS__> launch) {                \
    weft::kernel::let_next_begin();                                                          \
    if constexpr (wait) weft::kernel::wait_for_inputs();                                     \
    name##_body(launch);                                                                     \
    if constexpr (!wait) weft::kernel::wait_for_inputs();                                    \
  }                                                                                          \
  static WEFT_INLINE void name##_body([[maybe_unused]] const weft::kernel::Launch<__VA_ARGS__>& weft_launch)
#define WEFT_KERNEL(name, ...) WEFT_KERNEL_ENTRY(name, true, __VA_ARGS__)
/// Defines an entry. Its body must call wait_for_inputs() before it reads or writes data of other kernels.
#define WEFT_KERNEL_AHEAD(name, ...) WEFT_KERNEL_ENTRY(name, false, __VA_ARGS__)
/// Defines the body of a kernel that shares its launch with other kernels: name(LaunchPart).
#define WEFT_KERNEL_PART(name) \
  template <class Part>        \
  static WEFT_INLINE void name([[maybe_unused]] const Part& weft_launch)
#endif

/// Returns the kernel's buffer `i` as elements of type T.
template <class T, class L>
WEFT_INLINE Global<T> buffer(const L& launch, int i) {
  auto at = (WEFT_GLOBAL T*)buffer_at(launch, i);
#ifdef WEFT_CHECKED
  const auto& args = checks(launch);
  Writers writers;
#ifdef WEFT_CPU
  const i64 bytes = args.buffer_bytes[i];
  if (args.stamps) writers = {args.stamps[i], args.earlier, args.stamp};
#else
  auto watched = (const WEFT_GLOBAL i64*)args.watched;
  const i64 bytes = watched[1 + 2 * i];
  writers = {(WEFT_GLOBAL u32*)watched[2 + 2 * i], u32(watched[0]), u32(watched[0] + 1 + block_id())};
#endif
  return {at, at, bytes, i, (WEFT_GLOBAL KernelFault*)args.fault, writers};
#else
  return at;
#endif
}

}  // namespace weft::kernel

/// WEFT_KERNEL(name, buffers, threads) { ... } defines the entry `name`. In the body, WEFT_LAUNCH is the first argument
/// of the kernel templates, WEFT_BUFFER(T, i) a typed buffer and WEFT_SIZE(i) a run-time size.
#define WEFT_LAUNCH weft_launch
#define WEFT_BUFFER(T, i) (weft::kernel::buffer<T>(weft_launch, i))
#define WEFT_SIZE(i) (weft::kernel::size_at(weft_launch, i))
