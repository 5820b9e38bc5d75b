// SPDX-License-Identifier: Apache-2.0
// Loads, stores and atomics of global, private and local memory, through flat, buffer, scalar and DS instructions.
#include "memory.h"

#include <algorithm>
#include <atomic>
#include <map>

#include "operands.h"
#include "options.h"
#include "semantics.h"

namespace weft::amdemu {

void refuse_access(const Wave& w, const Instruction& i, u32 lane, u64 address, u32 bytes, const char* why) {
  throw Fault(text(why, ": kernel ", w.kernel->name, ", group ", w.group->id[0], " ", w.group->id[1], " ",
                   w.group->id[2], ", wave ", w.id, ", lane ", lane, ", at +", Hex{i.pc - w.kernel->entry}, ", ", bytes,
                   " bytes at ", Hex{address}, ": ", i.text));
}

u8* global_pointer(Wave& w, const Instruction& i, u32 lane, u64 address, u32 bytes) {
  const u64 version = map_version();
  if (w.region_version == version && w.region.holds(address, bytes)) return host_pointer(address);
  w.region_version = version;
  w.region = find_region(address, bytes);
  if (w.region.end == 0) refuse_access(w, i, lane, address, bytes, "illegal address of global memory");
  return host_pointer(address);
}

namespace {

/// True if this access to a byte races with another wave's access since the last barrier. Two reads, two atomics, and
/// an atomic after a read do not race.
bool is_race(const ByteHistory& h, u32 epoch, u32 wave, Touch touch) {
  const bool others_wrote = h.written == epoch && h.writer != wave && !(touch == Touch::atomic && h.atomic);
  const bool others_read = h.read == epoch && (h.readers & ~(1u << wave)) != 0;
  return others_wrote || (others_read && touch == Touch::write);
}

void remember(ByteHistory& h, u32 epoch, u32 wave, Touch touch) {
  if (touch != Touch::read) {
    h.written = epoch, h.writer = static_cast<u8>(wave), h.atomic = touch == Touch::atomic;
    return;
  }
  if (h.read != epoch) h.readers = 0;
  h.read = epoch;
  h.readers |= 1u << wave;
}

}  // namespace

u8* local_pointer(Wave& w, const Instruction& i, u32 lane, u32 address, u32 bytes, Touch touch) {
  WorkGroup& group = *w.group;
  if (u64{address} + bytes > group.lds.size()) refuse_access(w, i, lane, address, bytes, "outside local memory");
  for (u32 at = address; !group.history.empty() && at < address + bytes; ++at) {
    ByteHistory& history = group.history[at];
    if (is_race(history, group.epoch, w.id, touch)) refuse_access(w, i, lane, address, bytes, "a race in local memory");
    remember(history, group.epoch, w.id, touch);
  }
  return group.lds.data() + address;
}

u8* private_pointer(Wave& w, const Instruction& i, u32 lane, u64 address, u32 bytes) {
  if (address + bytes > w.scratch_bytes) refuse_access(w, i, lane, address, bytes, "outside private memory");
  return w.scratch.data() + u64{lane} * w.scratch_bytes + address;
}

u8* flat_pointer(Wave& w, const Instruction& i, u32 lane, u64 address, u32 bytes, Touch touch) {
  const u64 aperture = address & ~u64{0xffffffff};
  if (aperture == lds_aperture) return local_pointer(w, i, lane, static_cast<u32>(address), bytes, touch);
  if (aperture == private_aperture) return private_pointer(w, i, lane, static_cast<u32>(address), bytes);
  return global_pointer(w, i, lane, address, bytes);
}

namespace {

Touch touch_of(const MemoryShape& m) {
  return m.kind == MemoryKind::atomic ? Touch::atomic : m.store ? Touch::write : Touch::read;
}

// --- counts of cache lines and bank conflicts ------------------------------------------------------------------------

void count_lines(Wave& w, const u64* addresses, u32 bytes) {
  u64 lines[max_lanes];
  u32 count = 0;
  bool sorted = true;
  for_active(w, [&](u32 l) {
    w.counters.bytes += bytes;
    const u64 line = addresses[l] / 64;
    if (count > 0 && lines[count - 1] == line) return;
    sorted &= count == 0 || lines[count - 1] < line;
    lines[count++] = line;
  });
  if (!sorted) {
    std::sort(lines, lines + count);
    count = static_cast<u32>(std::unique(lines, lines + count) - lines);
  }
  w.counters.lines += count;
}

/// Counts the bank conflicts of 32 lanes at a time, with 32 banks of one word. Repeated accesses to a word count once.
void count_conflicts(Wave& w, const u32* addresses, u32 bytes) {
  const u64 active = w.exec_mask();
  for (u32 first = 0; first < w.lanes; first += 32) {
    u32 load[32] = {}, last[32] = {}, most = 0;
    for (u32 l = first; l < first + 32; ++l) {
      if (!is_on(active, l)) continue;
      const u32 word = addresses[l] / 4, bank = word % 32;
      if (load[bank] && last[bank] == word) continue;
      last[bank] = word;
      most = std::max(most, ++load[bank]);
    }
    const u32 least = std::max(1u, bytes / 4);
    if (most > least) w.counters.bank_conflicts += most - least;
  }
}

// --- moving data -----------------------------------------------------------------------------------------------------

void load_part(const MemoryShape& m, u32& word, const u8* from) {
  u32 bits = 0;
  std::memcpy(&bits, from, m.bytes);
  if (m.sign_extend) bits = static_cast<u32>(m.bytes == 1 ? i32{static_cast<i8>(bits)} : i32{static_cast<i16>(bits)});
  if (m.high_half) word = (word & 0xffff) | bits << 16;
  else if (m.half) word = (word & 0xffff0000) | (bits & 0xffff);
  else word = bits;
}

/// Moves aligned 8 bytes at once, as the chips do: another block sees all of them or none.
void move_pair(const MemoryShape& m, u32& low, u32& high, u8* at) {
  const std::atomic_ref<u64> memory(*reinterpret_cast<u64*>(at));
  if (m.store) return memory.store(u64{high} << 32 | low, std::memory_order_relaxed);
  const u64 bits = memory.load(std::memory_order_relaxed);
  low = static_cast<u32>(bits), high = static_cast<u32>(bits >> 32);
}

void move_lane(Wave& w, const MemoryShape& m, const Operand& data, u32 lane, u8* at) {
  if (m.bytes == 8 && address_of(at) % 8 == 0) return move_pair(m, w.row(data, 0)[lane], w.row(data, 1)[lane], at);
  if (m.bytes >= 4) {
    for (int word = 0; word < m.bytes / 4; ++word) {
      u32& bits = w.row(data, word)[lane];
      if (m.store) std::memcpy(at + 4 * word, &bits, 4);
      else std::memcpy(&bits, at + 4 * word, 4);
    }
    return;
  }
  u32& word = w.row(data)[lane];
  if (!m.store) return load_part(m, word, at);
  const u32 bits = word >> (m.high_half ? 16 : 0);
  std::memcpy(at, &bits, m.bytes);
}

/// Sets a lane's registers to zero, the result of a load outside a buffer.
void clear_lane(Wave& w, const MemoryShape& m, const Operand& data, u32 lane) {
  constexpr u8 zeros[16] = {};
  if (m.bytes < 4) return load_part(m, w.row(data)[lane], zeros);
  for (int word = 0; word < m.bytes / 4; ++word) w.row(data, word)[lane] = 0;
}

/// Moves the data of each active lane. `pointer(lane)` returns null for an address outside a buffer.
template <class Pointer>
void move_lanes(Wave& w, const MemoryShape& m, const Operand& data, Pointer pointer) {
  for_active(w, [&](u32 l) {
    u8* at = pointer(l);
    if (at) move_lane(w, m, data, l, at);
    else if (!m.store) clear_lane(w, m, data, l);
  });
}

/// Moves the data of all lanes as one block; returns false unless all lanes are active, have at least 4 bytes each, and
/// have adjacent addresses in the region of the last access.
bool move_block(Wave& w, const MemoryShape& m, const Operand& data, const u64* addresses) {
  if (m.bytes < 4 || w.exec_mask() != w.all_lanes()) return false;
  for (u32 l = 1; l < w.lanes; ++l) {
    if (addresses[l] != addresses[0] + u64{m.bytes} * l) return false;
  }
  const u64 total = u64{m.bytes} * w.lanes;
  if (w.region_version != map_version() || !w.region.holds(addresses[0], total)) return false;
  u8* memory = host_pointer(addresses[0]);
  for (u32 word = 0; word < m.bytes / 4u; ++word) {
    u32* row = w.row(data, static_cast<int>(word));
    for (u32 l = 0; l < w.lanes; ++l) {
      u8* at = memory + m.bytes * l + 4 * word;
      if (m.store) std::memcpy(at, row + l, 4);
      else std::memcpy(row + l, at, 4);
    }
  }
  w.counters.bytes += total;
  w.counters.lines += (addresses[0] + total - 1) / 64 - addresses[0] / 64 + 1;
  return true;
}

// --- atomics ---------------------------------------------------------------------------------------------------------

u32 sum_of_pairs(u32 a, u32 b, bool bf16) {
  auto half = [&](u32 x, u32 y) -> u32 {
    return bf16 ? to_bf16(bf16_to_f32(x & 0xffff) + bf16_to_f32(y & 0xffff))
                : bits_of(static_cast<f16>(static_cast<f32>(as_f16(x)) + static_cast<f32>(as_f16(y))));
  };
  return half(a, b) | half(a >> 16, b >> 16) << 16;
}

template <class T>
T combined(AtomicKind kind, T old, T value, T wanted) {
  using Signed = std::make_signed_t<T>;
  using Real = std::conditional_t<sizeof(T) == 4, f32, f64>;
  const auto old_real = std::bit_cast<Real>(old), real = std::bit_cast<Real>(value);
  const auto old_signed = static_cast<Signed>(old), with_sign = static_cast<Signed>(value);
  switch (kind) {
    case AtomicKind::add: return old + value;
    case AtomicKind::sub: return old - value;
    case AtomicKind::swap: return value;
    case AtomicKind::compare_swap: return old == wanted ? value : old;
    case AtomicKind::bit_and: return old & value;
    case AtomicKind::bit_or: return old | value;
    case AtomicKind::bit_xor: return old ^ value;
    case AtomicKind::min_u: return std::min(old, value);
    case AtomicKind::max_u: return std::max(old, value);
    case AtomicKind::min_i: return static_cast<T>(std::min(old_signed, with_sign));
    case AtomicKind::max_i: return static_cast<T>(std::max(old_signed, with_sign));
    case AtomicKind::inc: return old >= value ? 0 : old + 1;
    case AtomicKind::dec: return old == 0 || old > value ? value : old - 1;
    case AtomicKind::add_f: return std::bit_cast<T>(old_real + real);
    case AtomicKind::min_f: return std::bit_cast<T>(minimum_number(old_real, real));
    case AtomicKind::max_f: return std::bit_cast<T>(maximum_number(old_real, real));
    case AtomicKind::add_f16_pair: return sum_of_pairs(static_cast<u32>(old), static_cast<u32>(value), false);
    case AtomicKind::add_bf16_pair: return sum_of_pairs(static_cast<u32>(old), static_cast<u32>(value), true);
  }
  return old;
}

template <class T>
T exchange(u8* at, AtomicKind kind, T value, T wanted) {
  std::atomic_ref<T> memory(*reinterpret_cast<T*>(at));
  T old = memory.load();
  while (!memory.compare_exchange_weak(old, combined(kind, old, value, wanted))) {
  }
  return old;
}

u64 read_lane(const Wave& w, const Operand& o, int word, u32 lane, bool wide) {
  const u64 low = w.row(o, word)[lane];
  return wide ? low | static_cast<u64>(w.row(o, word + 1)[lane]) << 32 : low;
}

/// The register operands of an atomic.
struct AtomicOperands {
  const Operand* result = nullptr;  ///< destination of the old value; null: not returned
  const Operand* value = nullptr;
  const Operand* wanted = nullptr;  ///< compare operand; null: in the registers after the value's
};

template <class Pointer>
void atomic_lanes(Wave& w, const Instruction& i, const AtomicOperands& o, Pointer pointer) {
  const MemoryShape& m = i.memory;
  const bool wide = m.bytes == 8, compares = m.atomic == AtomicKind::compare_swap;
  for_active(w, [&](u32 l) {
    u8* at = pointer(l);
    if (!at) return;
    if (address_of(at) % m.bytes != 0) refuse_access(w, i, l, address_of(at), m.bytes, "an atomic that is not aligned");
    const u64 value = read_lane(w, *o.value, 0, l, wide);
    u64 wanted = 0;
    if (compares)
      wanted = o.wanted ? read_lane(w, *o.wanted, 0, l, wide) : read_lane(w, *o.value, wide ? 2 : 1, l, wide);
    const u64 old = wide ? exchange<u64>(at, m.atomic, value, wanted)
                         : exchange<u32>(at, m.atomic, static_cast<u32>(value), static_cast<u32>(wanted));
    if (!o.result) return;
    w.row(*o.result)[l] = static_cast<u32>(old);
    if (wide) w.row(*o.result, 1)[l] = static_cast<u32>(old >> 32);
  });
}

// --- global, flat and scratch instructions ---------------------------------------------------------------------------

/// Computes the addresses of lanes from a vector operand and, after it, an optional scalar operand.
void lane_addresses(const Wave& w, const Instruction& i, int vector, int scalar, u64* addresses) {
  const Operand& v = i[vector];
  const Operand* s = scalar < i.count && i[scalar].is_scalar() ? &i[scalar] : nullptr;
  const auto offset = static_cast<u64>(static_cast<i64>(i.modifiers.offset));
  if (i.memory.space == Space::scratch) {
    const u32 base = static_cast<u32>(offset) + (s ? static_cast<u32>(read_scalar(w, *s)) : 0) +
                     (v.is_scalar() ? static_cast<u32>(read_scalar(w, v)) : 0);
    for_lanes(w, [&](u32 l) { addresses[l] = base + (v.is_register() ? w.row(v)[l] : 0); });
  } else if (s) {
    const u64 base = read_scalar(w, *s) + offset;
    for_lanes(w, [&](u32 l) { addresses[l] = base + w.row(v)[l]; });
  } else {
    for_lanes(w, [&](u32 l) { addresses[l] = (w.row(v)[l] | static_cast<u64>(w.row(v, 1)[l]) << 32) + offset; });
  }
}

u8* pointer_in(Wave& w, const Instruction& i, u32 lane, u64 address) {
  const u32 bytes = i.memory.bytes;
  switch (i.memory.space) {
    case Space::scratch: return private_pointer(w, i, lane, address, bytes);
    case Space::global: return global_pointer(w, i, lane, address, bytes);
    case Space::flat: break;
  }
  return flat_pointer(w, i, lane, address, bytes, touch_of(i.memory));
}

void flat_move(Wave& w, const Instruction& i) {
  u64 addresses[max_lanes];
  const MemoryShape& m = i.memory;
  lane_addresses(w, i, m.store ? 0 : 1, 2, addresses);
  const Operand& data = i[m.store ? 1 : 0];
  if (m.space == Space::global && move_block(w, m, data, addresses)) return;
  move_lanes(w, m, data, [&](u32 l) { return pointer_in(w, i, l, addresses[l]); });
  if (m.space != Space::scratch) count_lines(w, addresses, m.bytes);
}

void flat_atomic(Wave& w, const Instruction& i) {
  u64 addresses[max_lanes];
  const int vector = i.memory.returns ? 1 : 0;
  lane_addresses(w, i, vector, vector + 2, addresses);
  atomic_lanes(w, i, {.result = i.memory.returns ? &i[0] : nullptr, .value = &i[vector + 1]},
               [&](u32 l) { return pointer_in(w, i, l, addresses[l]); });
  count_lines(w, addresses, i.memory.bytes);
}

/// Returns the target of a load to LDS: words are stored in the order of lanes, from M0 plus the offset on.
u8* direct_target(Wave& w, const Instruction& i, u32 lane) {
  const u32 base = (w.s[m0] & 0x3ffff) + static_cast<u32>(i.modifiers.offset);
  return local_pointer(w, i, lane, base + 4 * lane, 4, Touch::write);
}

void direct_lane(u8* to, const u8* from, u32 bytes) {
  u32 word = 0;
  if (from) std::memcpy(&word, from, bytes);
  std::memcpy(to, &word, 4);
}

void flat_to_lds(Wave& w, const Instruction& i) {
  u64 addresses[max_lanes];
  lane_addresses(w, i, 0, 1, addresses);
  for_active(w, [&](u32 l) { direct_lane(direct_target(w, i, l), pointer_in(w, i, l, addresses[l]), i.memory.bytes); });
  count_lines(w, addresses, i.memory.bytes);
}

// --- buffer instructions ---------------------------------------------------------------------------------------------

/// A buffer's descriptor: four scalar registers.
struct Buffer {
  u64 base;
  u32 stride, records;
  Buffer(const Wave& w, u32 index)
      : base(w.read_pair(index) & 0xffffffffffff), stride(w.s[index + 1] >> 16 & 0x3fff), records(w.s[index + 2]) {}
  bool is_private() const { return base >> 32 == private_buffer; }
};

void buffer_access(Wave& w, const Instruction& i) {  // operands: data, address or "off", descriptor, scalar offset
  const Modifiers& mods = i.modifiers;
  const MemoryShape& m = i.memory;
  const int first = m.kind == MemoryKind::to_lds ? 0 : 1;
  const Operand& vector = i[first];
  const Buffer buffer(w, i[first + 1].index);
  const auto scalar = static_cast<u32>(read_scalar(w, i[first + 2]));
  u64 offsets[max_lanes], addresses[max_lanes];
  for_lanes(w, [&](u32 l) {
    const u64 index = mods.by_index ? w.row(vector)[l] : 0;
    const u64 offset = static_cast<u32>(mods.offset) + (mods.by_offset ? w.row(vector, mods.by_index)[l] : 0);
    offsets[l] = buffer.stride * index + offset;
    if (mods.by_index && buffer.stride && index >= buffer.records) offsets[l] = ~u64{0} / 2;
    addresses[l] = buffer.base + offsets[l] + scalar;
  });
  auto pointer = [&](u32 l) -> u8* {
    if (buffer.is_private())
      return private_pointer(w, i, l, static_cast<u32>(buffer.base) + offsets[l] + scalar / w.lanes, m.bytes);
    const bool inside =
        mods.by_index && buffer.stride ? offsets[l] < ~u64{0} / 2 : offsets[l] + m.bytes <= buffer.records;
    return inside ? global_pointer(w, i, l, addresses[l], m.bytes) : nullptr;
  };
  if (m.kind == MemoryKind::to_lds)
    for_active(w, [&](u32 l) { direct_lane(direct_target(w, i, l), pointer(l), m.bytes); });
  else if (m.kind == MemoryKind::atomic)
    atomic_lanes(w, i, {.result = m.returns ? &i[0] : nullptr, .value = &i[0]}, pointer);
  else move_lanes(w, m, i[0], pointer);
  if (!buffer.is_private()) count_lines(w, addresses, m.bytes);
}

// --- local memory ----------------------------------------------------------------------------------------------------

void local_addresses(const Wave& w, const Operand& o, i32 offset, u32* addresses) {
  const u32* row = w.row(o);
  for_lanes(w, [&](u32 l) { addresses[l] = row[l] + static_cast<u32>(offset); });
}

void local_move_at(Wave& w, const Instruction& i, const Operand& data, const u32* addresses) {
  const MemoryShape& m = i.memory;
  move_lanes(w, m, data, [&](u32 l) { return local_pointer(w, i, l, addresses[l], m.bytes, touch_of(m)); });
  count_conflicts(w, addresses, m.bytes);
}

void local_move(Wave& w, const Instruction& i) {
  u32 addresses[max_lanes];
  local_addresses(w, i[i.memory.store ? 0 : 1], i.modifiers.offset, addresses);
  local_move_at(w, i, i[i.memory.store ? 1 : 0], addresses);
}

void local_pair(Wave& w, const Instruction& i) {
  const MemoryShape& m = i.memory;
  u32 addresses[2][max_lanes];  // compute both: a load may overwrite the address register
  const i32 offsets[2] = {i.modifiers.offset0, i.modifiers.offset1};
  for (int k = 0; k < 2; ++k) local_addresses(w, i[m.store ? 0 : 1], offsets[k] * m.bytes * m.stride, addresses[k]);
  for (int k = 0; k < 2; ++k) {
    Operand data = i[m.store ? 1 + k : 0];
    if (!m.store) data.index = static_cast<u16>(data.index + k * m.bytes / 4);
    local_move_at(w, i, data, addresses[k]);
  }
}

void local_atomic(Wave& w, const Instruction& i) {
  const int address = i.memory.returns ? 1 : 0;
  const bool compares = i.memory.atomic == AtomicKind::compare_swap, compared_first = compares && w.generation < 11;
  u32 addresses[max_lanes];
  local_addresses(w, i[address], i.modifiers.offset, addresses);
  const AtomicOperands operands{.result = i.memory.returns ? &i[0] : nullptr,
                                .value = &i[address + (compared_first ? 2 : 1)],
                                .wanted = compares ? &i[address + (compared_first ? 1 : 2)] : nullptr};
  atomic_lanes(w, i, operands,
               [&](u32 l) { return local_pointer(w, i, l, addresses[l], i.memory.bytes, Touch::atomic); });
}

void bpermute(Wave& w, const Instruction& i) {
  u32 d[max_lanes];
  const u32 *at = w.row(i[1]), *from = w.row(i[2]);
  const u64 active = w.exec_mask();
  const bool reads_inactive = i.is("ds_bpermute_fi");
  for_lanes(w, [&](u32 l) {
    const u32 lane = (at[l] + static_cast<u32>(i.modifiers.offset)) / 4 % w.lanes;
    d[l] = is_on(active, lane) || reads_inactive ? from[lane] : 0;
  });
  write_row(w, i[0], 0, d);
}

void permute(Wave& w, const Instruction& i) {
  u32 d[max_lanes] = {};
  const u32 *at = w.row(i[1]), *from = w.row(i[2]);
  for_active(w, [&](u32 l) { d[(at[l] + static_cast<u32>(i.modifiers.offset)) / 4 % w.lanes] = from[l]; });
  write_row(w, i[0], 0, d);
}

/// Returns the lane that ds_swizzle reads. A pattern permutes the lanes in groups of four, masks bits of the lane number
/// or, on gfx9 and later, rotates lanes.
u32 swizzled_lane(u32 lane, u32 pattern) {
  if ((pattern & 0xe000) == 0xc000) {
    const u32 by = pattern >> 5 & 31;
    return (lane & ~31u) | ((pattern >> 10 & 1 ? lane + 32 - by : lane + by) & 31);
  }
  if (pattern & 0x8000) return (lane & ~3u) | (pattern >> 2 * (lane & 3) & 3);
  return (lane & ~31u) | (((lane & pattern & 31) | (pattern >> 5 & 31)) ^ (pattern >> 10 & 31));
}

void swizzle(Wave& w, const Instruction& i) {
  u32 d[max_lanes];
  const u32* from = w.row(i[1]);
  const u64 active = w.exec_mask();
  for_lanes(w, [&](u32 l) {
    const u32 lane = swizzled_lane(l, static_cast<u32>(i.modifiers.offset));
    d[l] = is_on(active, lane) ? from[lane] : 0;
  });
  write_row(w, i[0], 0, d);
}

// --- scalar loads ----------------------------------------------------------------------------------------------------

void scalar_load(Wave& w, const Instruction& i) {  // operands: destination, base, offset
  const MemoryShape& m = i.memory;
  const bool buffer = i.is("s_buffer_");
  u64 base = w.read_pair(i[1].index), offset = static_cast<u64>(static_cast<i64>(i.modifiers.offset));
  if (i.count > 2 && i[2].kind == OperandKind::constant)
    offset += static_cast<u64>(static_cast<i64>(static_cast<i32>(i[2].bits)));
  else if (i.count > 2 && i[2].is_scalar()) offset += static_cast<u32>(read_scalar(w, i[2]));
  if (buffer) base &= 0xffffffffffff;
  const u32 records = buffer ? w.s[i[1].index + 2] : 0, words = i[0].words;
  const u64 address = m.bytes < 4 ? base + offset : (base + offset) & ~u64{3};
  u32 loaded[16] = {};
  for (u32 k = 0; k < words; ++k) {
    if (buffer && offset + 4 * k + std::min<u32>(m.bytes, 4) > records) continue;
    MemoryShape part = m;
    part.bytes = std::min<u8>(m.bytes, 4);
    load_part(part, loaded[k], global_pointer(w, i, 0, address + 4 * k, part.bytes));
  }
  for (u32 k = 0; k < words && i[0].index != null; ++k) w.s[i[0].index + k] = loaded[k];
}

// --- names -----------------------------------------------------------------------------------------------------------

/// Parses names such as "load_b32" and "store_d16_hi_b16": direction, half, type.
bool read_move(std::string name, MemoryShape& m) {
  m.store = name.starts_with("store_");
  if (!m.store && !name.starts_with("load_")) return false;
  name = name.substr(m.store ? 6 : 5);
  m.half = name.starts_with("d16_");
  m.high_half = name.starts_with("d16_hi_");
  if (m.half) name = name.substr(m.high_half ? 7 : 4);
  const std::string bits = name.substr(1);
  m.sign_extend = name[0] == 'i';
  m.bytes = 0;
  for (int size : {8, 16, 32, 64, 96, 128, 256, 512}) {
    if (bits == std::to_string(size)) m.bytes = static_cast<u8>(size / 8);
  }
  m.kind = MemoryKind::move;
  return m.bytes > 0;
}

const std::map<std::string, AtomicKind> atomic_names = {{"add_u", AtomicKind::add},
                                                        {"sub_u", AtomicKind::sub},
                                                        {"swap_b", AtomicKind::swap},
                                                        {"storexchg_b", AtomicKind::swap},
                                                        {"wrxchg_b", AtomicKind::swap},
                                                        {"cmpswap_b", AtomicKind::compare_swap},
                                                        {"cmpstore_b", AtomicKind::compare_swap},
                                                        {"cmpst_b", AtomicKind::compare_swap},
                                                        {"and_b", AtomicKind::bit_and},
                                                        {"or_b", AtomicKind::bit_or},
                                                        {"xor_b", AtomicKind::bit_xor},
                                                        {"min_u", AtomicKind::min_u},
                                                        {"max_u", AtomicKind::max_u},
                                                        {"min_i", AtomicKind::min_i},
                                                        {"max_i", AtomicKind::max_i},
                                                        {"inc_u", AtomicKind::inc},
                                                        {"dec_u", AtomicKind::dec},
                                                        {"add_f", AtomicKind::add_f},
                                                        {"min_f", AtomicKind::min_f},
                                                        {"max_f", AtomicKind::max_f},
                                                        {"min_num_f", AtomicKind::min_f},
                                                        {"max_num_f", AtomicKind::max_f},
                                                        {"pk_add_f16", AtomicKind::add_f16_pair},
                                                        {"pk_add_bf16", AtomicKind::add_bf16_pair}};

bool read_atomic(const std::string& name, MemoryShape& m) {
  const bool pairs = name.starts_with("pk_"), wide = name.ends_with("64");
  if (!pairs && !wide && !name.ends_with("32")) return false;
  auto known = atomic_names.find(pairs ? name : name.substr(0, name.size() - 2));
  if (known == atomic_names.end()) return false;
  m.kind = MemoryKind::atomic;
  m.atomic = known->second;
  m.bytes = wide ? 8 : 4;
  return true;
}

Action lane_permutation(const std::string& name) {
  if (name.starts_with("bpermute_")) return bpermute;
  if (name == "permute_b32") return permute;
  return name == "swizzle_b32" ? swizzle : nullptr;
}

Action prepare_local(Instruction& i, std::string name) {
  if (Action action = lane_permutation(name)) return action;
  MemoryShape& m = i.memory;
  const size_t pair = name.find("_2addr_");
  if (pair != std::string::npos) {
    m = {.kind = MemoryKind::pair, .bytes = static_cast<u8>(name.ends_with("64") ? 8 : 4), .store = name[0] == 's'};
    m.stride = name.find("stride64") == std::string::npos ? 1 : 64;
    return local_pair;
  }
  if (read_move(name, m)) return local_move;
  const size_t returns = name.find("_rtn");
  m.returns = returns != std::string::npos;
  if (m.returns) name.erase(returns, 4);
  return read_atomic(name, m) ? local_atomic : nullptr;
}

Action prepare_global(Instruction& i, const std::string& name) {
  const bool buffer = i.is("buffer_");
  MemoryShape& m = i.memory;
  m.space = i.is("flat_") ? Space::flat : i.is("scratch_") ? Space::scratch : Space::global;
  if (name.starts_with("atomic_")) {
    if (!read_atomic(name.substr(7), m)) return nullptr;
    m.returns = i.modifiers.returns;
    // On gfx94x sc0 may also be the scope of an atomic without a result, which has one operand fewer.
    if (!buffer) m.returns &= i.count >= (m.space == Space::flat ? 3 : 4);
    return buffer ? buffer_access : flat_atomic;
  }
  const bool direct = name.starts_with("load_lds_");
  if (!read_move(direct ? "load_" + name.substr(9) : name, m)) return nullptr;
  if (direct || i.modifiers.to_lds) m.kind = MemoryKind::to_lds;
  if (buffer) return buffer_access;
  return direct ? flat_to_lds : flat_move;
}

Action prepare_by_prefix(Instruction& i) {
  const std::string name = i.name.substr(i.name.find('_') + 1);
  if (i.is("ds_")) {
    i.unit = Unit::lds;
    return prepare_local(i, name);
  }
  if (i.is("s_load_") || i.is("s_buffer_load_")) {
    i.unit = Unit::scalar_memory;
    return read_move(i.is("s_load_") ? name : name.substr(7), i.memory) ? scalar_load : nullptr;
  }
  for (const char* prefix : {"global_", "flat_", "scratch_", "buffer_"}) {
    if (!i.is(prefix)) continue;
    i.unit = Unit::memory;
    return prepare_global(i, name);
  }
  return nullptr;
}

}  // namespace

bool prepare_memory(Instruction& i) {
  i.action = prepare_by_prefix(i);
  return i.action != nullptr;
}

}  // namespace weft::amdemu
