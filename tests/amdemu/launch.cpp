// SPDX-License-Identifier: Apache-2.0
// Runs a kernel: fills the argument segment, sets the registers at entry, and runs work groups on threads of the host.
#include "launch.h"

#ifdef __x86_64__
#include <xmmintrin.h>
#endif

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

#include "decode.h"
#include "operands.h"
#include "options.h"
#include "semantics.h"

namespace weft::amdemu {

void Counters::add(const Counters& other) {
#define COUNTER(name, sentence) name += other.name;
#include "counters.def"
#undef COUNTER
}

namespace {

// --- instructions ----------------------------------------------------------------------------------------------------

/// Returns the number of vector registers of a wave. From CDNA 2 on this number includes the accumulation registers,
/// which begin at first_accumulator().
u32 granted_registers(const Kernel& kernel) { return ((kernel.resource1 & 63) + 1) * 8; }
u32 first_accumulator(const Kernel& kernel) {
  return kernel.object->is_cdna2_or_later() ? ((kernel.resource3 & 63) + 1) * 4 : 0;
}

void check_registers(const Wave& w, const Instruction& i) {
  for (const Operand& o : i.operands) {
    if (!o.is_register()) continue;
    const u32 first = o.kind == OperandKind::accumulator ? first_accumulator(*w.kernel) : 0;
    if (first + o.index + o.words <= granted_registers(*w.kernel)) continue;
    throw Fault(text("kernel ", w.kernel->name, " has ", granted_registers(*w.kernel), " vector registers: ", i.text));
  }
}

const Instruction& fetch(const Wave& w) {
  CodeObject& object = *w.kernel->object;
  const u64 place = (w.pc - address_of(object.base)) / 4;
  if (place >= object.decoded.size()) throw Fault(text("kernel ", w.kernel->name, " leaves its code, to ", Hex{w.pc}));
  std::atomic_ref<Instruction*> slot(object.decoded[place]);
  if (Instruction* known = slot.load(std::memory_order_acquire)) return *known;
  std::lock_guard lock(object.mutex);
  if (Instruction* known = slot.load(std::memory_order_acquire)) return *known;
  u32 bytes = 0;
  const u64 room = object.bytes - 4 * place;
  const std::string line = object.disassembler->print(object.base + 4 * place, room, w.pc, bytes);
  auto made = decode(line, w.pc, bytes);
  check_registers(w, *made);
  slot.store(made.get(), std::memory_order_release);
  return *made.release();
}

void count_memory(Counters& c, const MemoryShape& m) {
  ++c.memory;
  c.flat += m.space == Space::flat;
  c.private_memory += m.space == Space::scratch;
  const bool loads = m.kind == MemoryKind::move && m.space == Space::global && !m.store;
  c.loads += loads;
  c.wide_loads += loads && m.bytes == 16;
}

void count(Wave& w, const Instruction& i) {
  ++w.counters.instructions;
  switch (i.unit) {
    case Unit::scalar: ++w.counters.scalar; break;
    case Unit::vector: ++w.counters.vector; break;
    case Unit::matrix: ++w.counters.matrix; break;
    case Unit::lds: ++w.counters.lds; break;
    case Unit::memory: count_memory(w.counters, i.memory); break;
    case Unit::scalar_memory: ++w.counters.scalar_memory; break;
    case Unit::none: break;
  }
}

/// Executes an instruction with DPP. A lane without a valid source lane reads zero if bound_ctrl, else is not written.
void execute_dpp(Wave& w, const Instruction& i) {
  const Modifiers& m = i.modifiers;
  const u64 active = w.exec_mask();
  u64 written = 0;
  for_lanes(w, [&](u32 l) {
    const int from = dpp_source(m, l, w.lanes);
    const bool reads = from >= 0 && (m.fetch_inactive || is_on(active, static_cast<u32>(from)));
    const bool chosen = is_on(m.row_mask, l / 16 & 3) && is_on(m.bank_mask, l / 4 & 3);
    if (chosen && (reads || m.bound_control || m.dpp == Dpp::dpp8)) written |= u64{1} << l;
  });
  w.dpp_exec = active;
  w.set_exec(active & written);
  i.action(w, i);
  w.set_exec(i.compares_to_exec ? w.exec_mask() : active);
}

/// Executes two instructions at once: both read their operands before either writes.
void execute_pair(Wave& w, const Instruction& first, const Instruction& second) {
  u32 before[max_lanes], after[max_lanes];
  u32* row = w.row(first[0]);
  std::memcpy(before, row, sizeof before);
  first.action(w, first);
  std::memcpy(after, row, sizeof after);
  std::memcpy(row, before, sizeof before);
  second.action(w, second);
  std::memcpy(row, after, sizeof after);
}

/// Executes an instruction in gfx9's indexing mode: adds the index in M0 to the numbers of the vector registers that
/// the mode selects.
void execute_indexed(Wave& w, const Instruction& i) {
  Instruction moved;
  moved.action = i.action, moved.text = i.text, moved.name = i.name, moved.operands = i.operands, moved.count = i.count;
  moved.modifiers = i.modifiers, moved.plain = i.plain, moved.keeps_high = i.keeps_high;
  const u16 index = static_cast<u16>(w.s[m0] & 0xff);
  const int bit_of[] = {3, 0, 1, 2};  // the mode bits of the result and of the sources a, b, c
  for (int k = 0; k < std::min(i.count, 4); ++k) {
    Operand& o = moved.operands[static_cast<size_t>(k)];
    if ((w.index_modes >> bit_of[k] & 1) && o.kind == OperandKind::vector) o.index = static_cast<u16>(o.index + index);
  }
  check_registers(w, moved);
  moved.action(w, moved);
}

// --- registers at entry ----------------------------------------------------------------------------------------------

/// The layout of hsa_kernel_dispatch_packet_t, which some kernels read.
struct DispatchPacket {
  u16 header, setup, threads[3], reserved0;
  u32 grid[3], private_bytes, group_bytes;
  u64 code, arguments, reserved1, signal;
};
static_assert(sizeof(DispatchPacket) == 64);

struct Launch {
  const Kernel& kernel;
  const LaunchSizes& sizes;
  std::vector<u8> arguments = {};
  DispatchPacket packet = {};
  u32 lds_bytes() const { return kernel.lds_bytes + sizes.dynamic_lds; }
  u32 waves_each() const { return (sizes.thread_count() + kernel.lanes() - 1) / kernel.lanes(); }
};

u64 hidden_argument(const std::string& kind, const Launch& launch) {
  const LaunchSizes& s = launch.sizes;
  const size_t axis = static_cast<size_t>(kind.back() - 'x');
  if (kind.starts_with("hidden_block_count_")) return s.groups[axis];
  if (kind.starts_with("hidden_group_size_")) return s.threads[axis];
  if (kind == "hidden_grid_dims") return s.groups[2] > 1 ? 3 : s.groups[1] > 1 ? 2 : 1;
  if (kind == "hidden_dynamic_lds_size") return s.dynamic_lds;
  if (kind == "hidden_private_base") return private_aperture >> 32;
  if (kind == "hidden_shared_base") return lds_aperture >> 32;
  return 0;
}

Launch prepare(const Kernel& kernel, const LaunchSizes& s, std::span<const u8> arguments) {
  Launch launch{kernel, s, std::vector<u8>(std::max<size_t>(kernel.argument_bytes, 16) + 64)};
  std::copy_n(arguments.begin(), std::min<size_t>(arguments.size(), kernel.explicit_bytes), launch.arguments.begin());
  for (const KernelArgument& a : kernel.arguments) {
    if (!a.hidden()) continue;
    const u64 value = hidden_argument(a.kind, launch);
    std::memcpy(launch.arguments.data() + a.offset, &value, std::min<size_t>(a.size, sizeof value));
  }
  launch.packet.setup = 3;
  launch.packet.private_bytes = kernel.private_bytes;
  launch.packet.group_bytes = launch.lds_bytes();
  for (int k = 0; k < 3; ++k) {
    launch.packet.threads[k] = static_cast<u16>(s.threads[k]);
    launch.packet.grid[k] = s.groups[k] * s.threads[k];
  }
  launch.packet.arguments = address_of(launch.arguments.data());
  return launch;
}

/// Sets scalar registers in the order of the kernel descriptor's properties, then the ids of the work group.
void set_scalars(Wave& w, const Launch& launch) {
  const Kernel& k = launch.kernel;
  u32 next = 0;
  auto push = [&](u64 value) {
    w.write_pair(next, value);
    next += 2;
  };
  if (k.properties & 1) {
    push(static_cast<u64>(private_buffer) << 32);
    push(~u32{0});
  }
  if (k.properties & 2) push(address_of(&launch.packet));
  if (k.properties & 4) push(0);  // there is no queue
  if (k.properties & 8) push(address_of(launch.arguments.data()));
  if (k.properties & 16) push(0);  // no dispatch id
  if (k.properties & 32) push(0);  // no flat_scratch base: private memory is addressed by lane
  if (k.properties & 64) w.s[next++] = k.private_bytes;
  if (const u32 words = k.preload & 127; words > 0) {
    std::memcpy(&w.s[next], launch.arguments.data() + 4 * (k.preload >> 7), 4 * words);
    next += words;
  }
  next = std::max(next, k.resource2 >> 1 & 31);
  const u32* id = w.group->id;
  if (w.generation >= 12) {
    w.s[trap + 9] = id[0];
    w.s[trap + 7] = (id[1] & 0xffff) | id[2] << 16;
    return;
  }
  for (int axis = 0; axis < 3; ++axis) {
    if (k.resource2 >> (7 + axis) & 1) w.s[next++] = id[axis];
  }
  if (k.resource2 >> 10 & 1) w.s[next++] = 0;
  if ((k.resource2 & 1) && (k.properties & 1)) w.s[next++] = 0;
}

void set_thread_ids(Wave& w, const LaunchSizes& s) {
  const bool packed = w.generation >= 11 || w.kernel->object->is_cdna2_or_later();
  const u32 ids = w.kernel->resource2 >> 11 & 3;
  for (u32 l = 0; l < w.lanes; ++l) {
    const u32 thread = w.id * w.lanes + l;
    const u32 x = thread % s.threads[0], y = thread / s.threads[0] % s.threads[1],
              z = thread / s.threads[0] / s.threads[1];
    w.row(0)[l] = packed ? x | y << 10 | z << 20 : x;
    if (!packed && ids > 0) w.row(1)[l] = y;
    if (!packed && ids > 1) w.row(2)[l] = z;
  }
}

std::unique_ptr<WorkGroup> new_group(const Launch& launch, u64 number) {
  auto group = std::make_unique<WorkGroup>();
  const LaunchSizes& s = launch.sizes;
  group->id[0] = static_cast<u32>(number % s.groups[0]);
  group->id[1] = static_cast<u32>(number / s.groups[0] % s.groups[1]);
  group->id[2] = static_cast<u32>(number / s.groups[0] / s.groups[1]);
  group->lds.resize(launch.lds_bytes());
  const u32 poison = options().poison;
  for (size_t at = 0; at + 4 <= group->lds.size(); at += 4) std::memcpy(&group->lds[at], &poison, 4);
  const u32 waves = launch.waves_each();
  if (options().races && waves > 1) group->history.resize(group->lds.size());
  for (u32 id = 0; id < waves; ++id) {
    auto wave = new_wave(launch.kernel, *group, id);
    const u32 lanes = std::min(wave->lanes, s.thread_count() - id * wave->lanes);
    wave->set_exec(lanes == 64 ? ~u64{0} : (u64{1} << lanes) - 1);
    set_scalars(*wave, launch);
    set_thread_ids(*wave, s);
    group->waves.push_back(std::move(wave));
  }
  return group;
}

// --- running ---------------------------------------------------------------------------------------------------------

void run_wave(Wave& w) {
  const u32 yields = w.yields;
  for (int n = 0; n < options().quantum && !w.done && !w.at_barrier && w.yields == yields; ++n) {
    const Instruction& i = fetch(w);
    w.pc += i.bytes;
    count(w, i);
    execute(w, i);
  }
  w.steps += static_cast<u64>(options().quantum);
  if (w.steps > static_cast<u64>(options().limit) * 1'000'000)
    throw Fault(
        text("kernel ", w.kernel->name, " hangs: a wave has run for ", options().limit, " million instructions"));
}

/// Runs some instructions of each wave that is not at a barrier; returns true when all waves have ended.
bool run_group(WorkGroup& group) {
  size_t waiting = 0, ended = 0;
  for (auto& wave : group.waves) {
    if (!wave->done && !wave->at_barrier) run_wave(*wave);
    waiting += wave->at_barrier;
    ended += wave->done;
  }
  if (waiting > 0 && waiting + ended == group.waves.size()) {
    ++group.epoch;
    for (auto& wave : group.waves) wave->at_barrier = false;
  }
  return ended == group.waves.size();
}

#ifdef __x86_64__
unsigned float_mode() { return _mm_getcsr(); }
void set_float_mode(unsigned mode) { _mm_setcsr(mode); }
constexpr unsigned flush_denormals = 0x8040;
#else
unsigned float_mode() { return 0; }
void set_float_mode(unsigned) {}
constexpr unsigned flush_denormals = 0;
#endif

/// Sets the kernel's f32 denormal mode; restores the host's at the end.
class FloatMode {
 public:
  explicit FloatMode(const Kernel& kernel) : before_(float_mode()) {
    const bool keeps = (kernel.resource1 >> 16 & 3) == 3;
    set_float_mode((before_ & ~flush_denormals) | (keeps ? 0 : flush_denormals));
  }
  FloatMode(const FloatMode&) = delete;
  FloatMode& operator=(const FloatMode&) = delete;
  ~FloatMode() { set_float_mode(before_); }

 private:
  unsigned before_;
};

/// The state shared by the threads of one launch.
struct Progress {
  std::atomic<u64> next{0};
  std::atomic<bool> stop{false};
  std::mutex mutex;
  std::string fault;
  Counters counters;
};

void work(const Launch& launch, Progress& progress) {
  const FloatMode mode(launch.kernel);
  std::vector<std::unique_ptr<WorkGroup>> resident;
  Counters counters;
  try {
    for (;;) {
      while (resident.size() < static_cast<size_t>(options().resident)) {
        const u64 number = progress.next++;
        if (number >= launch.sizes.group_count() || progress.stop) break;
        resident.push_back(new_group(launch, number));
      }
      if (resident.empty() || progress.stop) break;
      std::erase_if(resident, [&](const std::unique_ptr<WorkGroup>& group) {
        if (!run_group(*group)) return false;
        for (const auto& wave : group->waves) counters.add(wave->counters);
        return true;
      });
    }
  } catch (const std::exception& problem) {
    const std::lock_guard lock(progress.mutex);
    if (progress.fault.empty()) progress.fault = problem.what();
    progress.stop = true;
  }
  const std::lock_guard lock(progress.mutex);
  progress.counters.add(counters);
}

u64 thread_count(u64 groups) {
  const u64 wanted =
      options().threads > 0 ? static_cast<u64>(options().threads) : std::max(1u, std::thread::hardware_concurrency());
  return std::clamp<u64>(groups / 4, 1, wanted);
}

}  // namespace

std::unique_ptr<Wave> new_wave(const Kernel& kernel, WorkGroup& group, u32 id) {
  auto wave = std::make_unique<Wave>();
  Wave& w = *wave;
  const CodeObject& object = *kernel.object;
  std::fill(std::begin(w.s), std::end(w.s), options().poison);
  w.lanes = kernel.lanes(), w.id = id, w.group = &group, w.kernel = &kernel, w.pc = kernel.entry;
  w.generation = object.generation, w.fnuz = object.fnuz();
  w.set_exec(w.all_lanes());
  if (w.lanes == 32) w.s[vcc + 1] = 0;
  w.registers.assign(u64{granted_registers(kernel)} * max_lanes, options().poison);
  w.v = w.registers.data();
  w.a = w.v + u64{first_accumulator(kernel)} * max_lanes;
  w.scratch_bytes = kernel.private_bytes ? kernel.private_bytes + 16 : 0;
  w.scratch.assign(u64{w.scratch_bytes} * w.lanes, 0xcd);
  ++w.counters.waves;
  return wave;
}

void execute(Wave& w, const Instruction& i) {
  if (w.index_modes && i.unit == Unit::vector) execute_indexed(w, i);
  else if (i.second) execute_pair(w, i, *i.second);
  else if (i.modifiers.dpp != Dpp::none) execute_dpp(w, i);
  else i.action(w, i);
}

Counters run_kernel(const Kernel& kernel, const LaunchSizes& sizes, std::span<const u8> arguments) {
  const Launch launch = prepare(kernel, sizes, arguments);
  const MappedBytes mapped_arguments(launch.arguments.data(), launch.arguments.size());
  const MappedBytes mapped_packet(&launch.packet, sizeof launch.packet);
  Progress progress;
  std::vector<std::thread> threads;
  for (u64 n = 1; n < thread_count(sizes.group_count()); ++n) threads.emplace_back([&] { work(launch, progress); });
  work(launch, progress);
  for (std::thread& thread : threads) thread.join();
  if (!progress.fault.empty()) throw Fault(progress.fault);
  ++progress.counters.launches;
  return progress.counters;
}

}  // namespace weft::amdemu
