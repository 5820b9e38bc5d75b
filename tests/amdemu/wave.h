// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstring>
#include <memory>
#include <vector>

#include "code_object.h"
#include "fault.h"
#include "instruction.h"

/// The state of waves and work groups while they run.
namespace weft::amdemu {

constexpr u32 max_lanes = 64;
/// The first flat addresses of local and of private memory.
constexpr u64 lds_aperture = u64{1} << 48, private_aperture = u64{2} << 48;
/// The upper half of the base in a buffer descriptor for private memory.
constexpr u32 private_buffer = 0x7ffd;

struct Counters {
#define COUNTER(name, sentence) u64 name = 0;
#include "counters.def"
#undef COUNTER
  void add(const Counters& other);
};

struct WorkGroup;

struct Wave {
  alignas(8) u32 s[scalar_registers];
  bool scc = false, done = false, at_barrier = false;
  u64 pc = 0;
  u32 lanes = 32, id = 0;
  WorkGroup* group = nullptr;
  const Kernel* kernel = nullptr;
  int generation = 0;
  bool fnuz = false;
  std::vector<u32> registers;  ///< vector registers, then accumulators: 64 lanes each
  u32 *v = nullptr, *a = nullptr;
  std::vector<u8> scratch;  ///< private memory, lane by lane
  u32 scratch_bytes = 0;    ///< for each lane
  u64 dpp_exec = 0;         ///< lanes that DPP reads from
  u8 index_modes = 0;       ///< gfx9: operands that M0 is added to
  u32 yields = 0;           ///< incremented when the wave waits, so that others run
  u64 steps = 0;
  Region region;  ///< the region of the last access, as of `region_version`
  u64 region_version = 0;
  Counters counters;

  u64 all_lanes() const { return lanes == 64 ? ~u64{0} : (u64{1} << lanes) - 1; }
  u64 read_pair(u32 index) const { return s[index] | static_cast<u64>(s[index + 1]) << 32; }
  void write_pair(u32 index, u64 value) {
    s[index] = static_cast<u32>(value);
    s[index + 1] = static_cast<u32>(value >> 32);
  }
  u64 exec_mask() const { return read_pair(exec) & all_lanes(); }
  void set_exec(u64 mask) { write_pair(exec, mask); }
  u64 vcc_mask() const { return read_pair(vcc) & all_lanes(); }
  u32* row(u32 index) const { return v + index * max_lanes; }
  u32* row(const Operand& o, int word = 0) const {
    u32* file = o.kind == OperandKind::accumulator ? a : v;
    return file + (o.index + static_cast<u32>(word)) * max_lanes;
  }
};

/// The waves that accessed a byte of local memory since the last barrier.
struct ByteHistory {
  u32 written = 0, read = 0;  ///< the epoch of the last write and of the last read
  u32 readers = 0;            ///< a bit for each wave
  u8 writer = 0;
  bool atomic = false;
};

struct WorkGroup {
  u32 id[3] = {};
  std::vector<std::unique_ptr<Wave>> waves;
  std::vector<u8> lds;
  std::vector<ByteHistory> history;
  u32 epoch = 1;  ///< barriers passed
};

inline bool is_on(u64 mask, u32 lane) { return mask >> lane & 1; }

/// Runs body(lane) for all lanes, active or not; two fixed lane counts let the compiler vectorise the loops.
template <class Body>
inline void for_lanes(const Wave& wave, Body body) {
  if (wave.lanes == 32) {
    for (u32 l = 0; l < 32; ++l) body(l);
  } else {
    for (u32 l = 0; l < 64; ++l) body(l);
  }
}

template <class Body>
inline void for_active(const Wave& wave, Body body) {
  for (u64 rest = wave.exec_mask(); rest != 0; rest &= rest - 1) body(static_cast<u32>(std::countr_zero(rest)));
}

}  // namespace weft::amdemu
