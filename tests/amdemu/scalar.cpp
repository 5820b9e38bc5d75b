// SPDX-License-Identifier: Apache-2.0
// The scalar unit: the entries of scalar.def, masks of lanes, branches, calls and barriers.
#include <algorithm>
#include <chrono>

#include "operands.h"
#include "semantics.h"

namespace weft::amdemu {
namespace {

template <class T>
using BitsOf = std::conditional_t<sizeof(T) == 8, u64, std::conditional_t<sizeof(T) == 4, u32, u16>>;

template <class T>
T read_as(const Wave& w, const Operand& o) {
  return std::bit_cast<T>(static_cast<BitsOf<T>>(read_scalar(w, o, meaning_of<T>)));
}

template <class T>
void write_as(Wave& w, const Operand& o, T value) {
  write_scalar(w, o, std::bit_cast<BitsOf<T>>(value));
}

template <class T, auto formula>
void transcendental(Wave& w, const Instruction& i) {
  T a = read_as<T>(w, i[1]);
  if (i[1].absolute && std::signbit(static_cast<f32>(a))) a = -a;
  write_as<T>(w, i[0], formula(i[1].negate ? -a : a));
}

/// Returns `count` bits, given in bits 16 to 22 of `control`, from bit `first` on.
template <class T>
T scalar_field(T x, u32 first, u32 control) {
  const u32 count = control >> 16 & 127;
  return static_cast<T>(count >= 8 * sizeof(T) ? x >> first : x >> first & ((T{1} << count) - 1));
}
template <class T>
T signed_scalar_field(T x, u32 first, u32 control) {
  using Bits = std::make_unsigned_t<T>;
  const u32 width = 8 * sizeof(T), count = std::min(control >> 16 & 127, width - first);
  if (count == 0) return 0;
  return static_cast<T>(static_cast<Bits>(x) << (width - count - first)) >> (width - count);
}

template <auto formula>
void change_exec(Wave& w, const Instruction& i) {
  const u64 source = read_mask(w, i[1]), before = w.exec_mask(), after = formula(source, before) & w.all_lanes();
  write_mask(w, i[0], before);
  w.set_exec(after);
  w.scc = after != 0;
}

template <auto formula>
void write_exec(Wave& w, const Instruction& i) {
  const u64 after = formula(read_mask(w, i[1]), w.exec_mask()) & w.all_lanes();
  write_mask(w, i[0], after);
  w.set_exec(after);
  w.scc = after != 0;
}

i32 short_constant(const Instruction& i) { return static_cast<i16>(i[1].bits); }

void movk(Wave& w, const Instruction& i) { write_scalar(w, i[0], static_cast<u32>(short_constant(i))); }
void cmovk(Wave& w, const Instruction& i) {
  if (w.scc) movk(w, i);
}
void addk(Wave& w, const Instruction& i) {
  const u32 a = w.s[i[0].index], b = static_cast<u32>(short_constant(i)), sum = a + b;
  write_scalar(w, i[0], sum);
  w.scc = ((a ^ sum) & (b ^ sum)) >> 31;
}
void mulk(Wave& w, const Instruction& i) {
  write_scalar(w, i[0], w.s[i[0].index] * static_cast<u32>(short_constant(i)));
}

template <class T, class K, auto formula>
void compare_constant(Wave& w, const Instruction& i) {
  w.scc = formula(static_cast<T>(w.s[i[0].index]), static_cast<T>(static_cast<K>(i[1].bits)));
}

template <bool wanted, class T>
void test_bit(Wave& w, const Instruction& i) {
  const T bits = read_as<T>(w, i[0]);
  w.scc = (bits >> (read_as<u32>(w, i[1]) & (8 * sizeof(T) - 1)) & 1) == wanted;
}

void fmac(Wave& w, const Instruction& i) {
  write_as<f32>(w, i[0], std::fma(read_as<f32>(w, i[1]), read_as<f32>(w, i[2]), read_as<f32>(w, i[0])));
}

// The program counter is already past the instruction.
void getpc(Wave& w, const Instruction& i) { write_scalar(w, i[0], w.pc); }
void setpc(Wave& w, const Instruction& i) { w.pc = read_as<u64>(w, i[0]); }
void swappc(Wave& w, const Instruction& i) {
  const u64 target = read_as<u64>(w, i[1]);
  write_scalar(w, i[0], w.pc);
  w.pc = target;
}
void endpgm(Wave& w, const Instruction&) { w.done = true; }
void barrier(Wave& w, const Instruction&) { w.at_barrier = true; }
void sleep(Wave& w, const Instruction&) { ++w.yields; }
void nothing(Wave&, const Instruction&) {}
[[noreturn]] void trap_here(Wave&, const Instruction& i) { throw Fault(text("the kernel stops itself: ", i.text)); }

/// Turns gfx9's indexing mode on: vector instructions then add the index to register numbers (execute_indexed). M0
/// holds the index in its low eight bits, and the mode from bit 12 on.
void index_on(Wave& w, const Instruction& i) {
  w.s[m0] = (read_as<u32>(w, i[0]) & 0xff) | static_cast<u32>(i.index_modes) << 12;
  w.index_modes = i.index_modes;
}
void index_off(Wave& w, const Instruction&) { w.index_modes = 0; }
void index_at(Wave& w, const Instruction& i) { w.s[m0] = (w.s[m0] & ~0xffu) | (read_as<u32>(w, i[0]) & 0xff); }

/// Ignores writes to FLAT_SCR, the base address of private memory, because the emulator addresses private memory by
/// lane. Throws Fault for other registers.
void setreg(Wave&, const Instruction& i) {
  if (i.text.find("FLAT_SCR") == std::string::npos)
    throw Fault(text("a register of state without semantics: ", i.text));
}
void getreg(Wave& w, const Instruction& i) {
  if (i.text.find("HW_ID") == std::string::npos) throw Fault(text("a register of state without semantics: ", i.text));
  write_scalar(w, i[0], w.id);
}
void read_clock(Wave& w, const Instruction& i) {
  write_scalar(w, i[0], static_cast<u64>(std::chrono::steady_clock::now().time_since_epoch().count() / 10));
}

using Entry = std::pair<const char*, Action>;

#define NONZERO (d != 0)
#define WEFT_SCALAR_BODY(name, D, prepare, formula, flag) \
  Entry{"s_" #name, [](Wave& w, const Instruction& i) {   \
          prepare;                                        \
          [[maybe_unused]] const bool scc = w.scc;        \
          const D d = (formula);                          \
          write_as<D>(w, i[0], d);                        \
          w.scc = (flag);                                 \
        }},
#define SCALAR1(name, D, A, formula, flag) WEFT_SCALAR_BODY(name, D, const A a = read_as<A>(w, i[1]), formula, flag)
#define SCALAR2(name, D, A, B, formula, flag)                                 \
  WEFT_SCALAR_BODY(name, D, [[maybe_unused]] const A a = read_as<A>(w, i[1]); \
                   [[maybe_unused]] const B b = read_as<B>(w, i[2]), formula, flag)
#define SCALAR3(name, T, ...)                                                                \
  Entry{"s_" #name, [](Wave& w, const Instruction& i) {                                      \
          const T a = read_as<T>(w, i[1]), b = read_as<T>(w, i[2]), c = read_as<T>(w, i[3]); \
          write_as<T>(w, i[0], __VA_ARGS__);                                                 \
        }},
#define TRANSCENDENTAL(name, T, ...) Entry{#name, transcendental<T, [](T a) -> T { return (__VA_ARGS__); }>},
#define BITWISE(name, formula)                         \
  SCALAR2(name##_b32, u32, u32, u32, formula, NONZERO) \
  SCALAR2(name##_b64, u64, u64, u64, formula, NONZERO)
#define SCALAR_CHANGE(name, D, A, formula)              \
  Entry{"s_" #name, [](Wave& w, const Instruction& i) { \
          const A a = read_as<A>(w, i[1]);              \
          const D d = read_as<D>(w, i[0]);              \
          [[maybe_unused]] const bool scc = w.scc;      \
          write_as<D>(w, i[0], formula);                \
        }},
#define MASK(name, formula)                                                               \
  Entry{"s_" #name "_saveexec_b32", change_exec<[](u64 s, u64 e) { return (formula); }>}, \
      Entry{"s_" #name "_saveexec_b64", change_exec<[](u64 s, u64 e) { return (formula); }>},
#define WRITE_EXEC(name, formula)                                                      \
  Entry{"s_" #name "_wrexec_b32", write_exec<[](u64 s, u64 e) { return (formula); }>}, \
      Entry{"s_" #name "_wrexec_b64", write_exec<[](u64 s, u64 e) { return (formula); }>},
#define COMPARE(name, T, ...)                                       \
  Entry{"s_cmp_" #name, [](Wave& w, const Instruction& i) {         \
          const T a = read_as<T>(w, i[0]), b = read_as<T>(w, i[1]); \
          w.scc = (__VA_ARGS__);                                    \
        }},
#define COMPARE_ALL(T)            \
  COMPARE(eq_##T, T, a == b)      \
  COMPARE(lg_##T, T, a<b || a> b) \
  COMPARE(gt_##T, T, a > b) COMPARE(ge_##T, T, a >= b) COMPARE(lt_##T, T, a < b) COMPARE(le_##T, T, a <= b)
#define BRANCH(name, ...)                               \
  Entry{"s_" #name, [](Wave& w, const Instruction& i) { \
          if (__VA_ARGS__) w.pc = i.target;             \
        }},
#define NOTHING(name) Entry{#name, nothing},

const Entry rows[] = {
#include "scalar.def"
};
#undef COMPARE

#define COMPARE_CONSTANT(name, T, K, formula) \
  Entry{"s_cmpk_" #name, compare_constant<T, K, [](T a, T b) { return (formula); }>},
#define COMPARE_CONSTANTS(T, K)          \
  COMPARE_CONSTANT(eq_##T, T, K, a == b) \
  COMPARE_CONSTANT(lg_##T, T, K, a != b) \
  COMPARE_CONSTANT(gt_##T, T, K, a > b)  \
  COMPARE_CONSTANT(ge_##T, T, K, a >= b) COMPARE_CONSTANT(lt_##T, T, K, a < b) COMPARE_CONSTANT(le_##T, T, K, a <= b)

const Entry others[] = {
    COMPARE_CONSTANTS(i32, i16) COMPARE_CONSTANTS(u32, u16){"s_movk_i32", movk},
    {"s_cmovk_i32", cmovk},
    {"s_addk_i32", addk},
    {"s_mulk_i32", mulk},
    {"s_fmac_f32", fmac},
    {"s_bitcmp0_b32", test_bit<false, u32>},
    {"s_bitcmp1_b32", test_bit<true, u32>},
    {"s_bitcmp0_b64", test_bit<false, u64>},
    {"s_bitcmp1_b64", test_bit<true, u64>},
    {"s_getpc_b64", getpc},
    {"s_setpc_b64", setpc},
    {"s_swappc_b64", swappc},
    {"s_endpgm", endpgm},
    {"s_barrier", barrier},
    {"s_barrier_signal", nothing},
    {"s_barrier_wait", barrier},
    {"s_sleep", sleep},
    {"s_trap", trap_here},
    {"s_set_gpr_idx_on", index_on},
    {"s_set_gpr_idx_off", index_off},
    {"s_set_gpr_idx_idx", index_at},
    {"s_setreg_b32", setreg},
    {"s_setreg_imm32_b32", setreg},
    {"s_getreg_b32", getreg},
    {"s_memtime", read_clock},
    {"s_memrealtime", read_clock},
};

}  // namespace

void add_scalar(SemanticsTable& table) {
  for (const auto& [name, action] : rows) table[name] = {action, action == nothing ? Unit::none : Unit::scalar};
  for (const auto& [name, action] : others) table[name] = {action, Unit::scalar};
}

const SemanticsTable& semantics_table() {
  static const SemanticsTable table = [] {
    SemanticsTable made;
    add_scalar(made);
    add_vector_arithmetic(made);
    add_vector_others(made);
    return made;
  }();
  return table;
}

const Semantics* semantics_of(const std::string& name) {
  auto found = semantics_table().find(name);
  return found == semantics_table().end() ? nullptr : &found->second;
}

}  // namespace weft::amdemu
