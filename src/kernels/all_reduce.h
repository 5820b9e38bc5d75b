// SPDX-License-Identifier: Apache-2.0
#pragma once
/// Sums a small tensor over all ranks of a split program, or gathers the parts of all ranks, in one launch on each
/// rank. Every rank stores its values into the inbox of every other rank (one-shot). A message number accompanies every
/// four bytes, so a receiver needs no other signal (the LL protocol of NCCL). Each rank adds in f32, in the order of
/// the ranks, so all ranks get the same bits. `store(first, sum, lanes)` receives the sums in f32.
///
///     all_reduce<f16, 4>(WEFT_LAUNCH, from, mailbox, elements, store);  // ceil(elements * sizeof(T) / 8 / 256) blocks
#include "mailbox.h"
#include "vec.h"

#ifdef WEFT_NVIDIA
namespace weft::kernel {

WEFT_INLINE void send(MailboxLine* to, u64 data, u32 message) {
  asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %2};" ::"l"(to), "r"(u32(data)), "r"(message),
               "r"(u32(data >> 32))
               : "memory");
}
WEFT_INLINE MailboxLine peek(const MailboxLine* at) {
  MailboxLine line;
  asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(line.low), "=r"(line.low_message), "=r"(line.high), "=r"(line.high_message)
               : "l"(at)
               : "memory");
  return line;
}
/// Waits until a line of the given message has arrived. If a rank has failed, returns undefined data.
WEFT_INLINE u64 receive(const MailboxLine* at, u32 message, const volatile u32* is_aborted) {
  constexpr u32 patience = 1 << 12;
  for (u32 tried = 1;; tried++) {
    const MailboxLine line = peek(at);
    const bool is_here = line.low_message == message && line.high_message == message;
    if (is_here || (tried % patience == 0 && *is_aborted)) return u64(line.high) << 32 | line.low;
  }
}

/// Sends this thread's elements (eight bytes) to all other ranks, then calls body(first, lanes, part). `first`: the
/// index of the thread's first element; `lanes`: how many it has; part(r) waits for rank r's elements and returns them.
template <class T, int Ranks, class L, class From, class Body>
WEFT_INLINE void exchange(const L& launch, From from, const WEFT_GLOBAL u8* memory, i64 elements, const Body& body) {
  constexpr int N = 8 / sizeof(T);
  auto* mailbox = (Mailbox*)memory;
  const i64 rank = mailbox->rank, block = launch.block(), line = block * mailbox_threads + thread_id();
  const u32 message = mailbox->messages[block] + 1;
  barrier();
  if (thread_id() == 0) mailbox->messages[block] = message;
  const i64 first = line * N;
  if (first >= elements) return;
  const bool is_whole = first + N <= elements;
  const Part rest{int(elements - first)};
  const Vec<T, N> mine = is_whole ? load<N>(from + first, Full{}) : load<N>(from + first, rest);
  const u64 data = __builtin_bit_cast(u64, mine);
  auto box = [&](i64 of, i64 sender) WEFT_LAMBDA {
    return mailbox->inboxes[of] + (i64(message & 1) * Ranks + sender) * mailbox_lines + line;
  };
  WEFT_UNROLL for (int step = 1; step < Ranks; step++) send(box((rank + step) % Ranks, rank), data, message);
  auto part = [&](int r) WEFT_LAMBDA {
    const u64 got = r == rank ? data : receive(box(rank, r), message, mailbox->is_aborted);
    return __builtin_bit_cast(Vec<T, N>, got);
  };
  if (is_whole) body(first, Full{}, part);
  else body(first, rest, part);
}

template <class T, int Ranks, class L, class From, class Store>
WEFT_INLINE void all_reduce(const L& launch, From from, const WEFT_GLOBAL u8* memory, i64 elements,
                            const Store& store) {
  exchange<T, Ranks>(launch, from, memory, elements, [&](i64 first, auto lanes, const auto& part) WEFT_LAMBDA {
    auto sum = convert<f32>(part(0));
    WEFT_UNROLL for (int r = 1; r < Ranks; r++) sum += convert<f32>(part(r));
    store(first, sum, lanes);
  });
}

/// Gathers the elements of all ranks: to + r * elements receives those of rank r.
template <class T, int Ranks, class L, class From, class To>
WEFT_INLINE void all_gather(const L& launch, From from, const WEFT_GLOBAL u8* memory, i64 elements, To to) {
  exchange<T, Ranks>(launch, from, memory, elements, [&](i64 first, auto lanes, const auto& part) WEFT_LAMBDA {
    WEFT_UNROLL for (int r = 0; r < Ranks; r++) store(to + r * elements + first, part(r), lanes);
  });
}

}  // namespace weft::kernel
#endif
