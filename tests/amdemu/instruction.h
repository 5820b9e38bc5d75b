// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <memory>
#include <string>

#include "bits.h"

/// A decoded instruction: operands, modifiers and the function that executes it.
namespace weft::amdemu {

struct Wave;
struct Instruction;
using Action = void (*)(Wave&, const Instruction&);

/// Numbers of the special scalar registers. flat_scratch and xnack_mask are registers 102 and 104, as on gfx9.
enum ScalarRegister : u16 {
  flat_scratch = 102,
  xnack_mask = 104,
  vcc = 106,
  trap = 108,
  m0 = 124,
  null = 125,
  exec = 126
};
constexpr u32 scalar_registers = 136;

enum class OperandKind : u8 { none, vector, accumulator, scalar, constant, off, scc };

struct Operand {
  OperandKind kind = OperandKind::none;
  u8 words = 1;   ///< number of registers
  u16 index = 0;  ///< of the first register
  bool literal = false, is_float = false;
  bool negate = false, absolute = false, sign_extend = false;
  u64 bits = 0;   ///< of a constant that is an integer
  f64 value = 0;  ///< of a constant that is a float
  bool is_register() const { return kind == OperandKind::vector || kind == OperandKind::accumulator; }
  bool is_scalar() const { return kind == OperandKind::scalar && index != null; }
};

/// Data-parallel primitives (DPP): lanes of the vector unit read from other lanes.
enum class Dpp : u8 {
  none,
  quad_perm,
  row_shl,
  row_shr,
  row_ror,
  wave_shl,
  wave_shr,
  wave_rol,
  wave_ror,
  row_mirror,
  row_half_mirror,
  row_bcast15,
  row_bcast31,
  row_share,
  row_xmask,
  dpp8
};

/// Sub-dword addressing (SDWA) of gfx9 and gfx10: the selected byte (0 to 3), word (4, 5) or all (6) of a register.
struct Sdwa {
  bool used = false;
  u8 to = 6, unused = 0;  ///< the other bits of the result: 0 zeros, 1 sign-extended, 2 kept
  std::array<u8, 2> from = {6, 6};
};

struct Modifiers {
  u8 op_sel = 0, op_sel_hi = 0xff, neg_lo = 0, neg_hi = 0;
  bool has_op_sel = false, has_op_sel_hi = false;
  bool clamp = false;
  u8 output = 0;  ///< 1: times 2, 2: times 4, 3: divided by 2
  Dpp dpp = Dpp::none;
  u16 dpp_argument = 0;
  std::array<u8, 8> dpp8 = {};
  u8 row_mask = 15, bank_mask = 15;
  bool bound_control = false, fetch_inactive = false;
  Sdwa sdwa = {};
  u8 cbsz = 0, abid = 0, blgp = 0;  ///< of matrix instructions
  // Fields of memory instructions.
  i32 offset = 0, offset0 = 0, offset1 = 0;
  bool returns = false, by_offset = false, by_index = false, to_lds = false;
};

enum class MemoryKind : u8 { none, move, atomic, to_lds, pair, bpermute, permute, swizzle };
enum class Space : u8 { flat, global, scratch };
enum class AtomicKind : u8 {
  add,
  sub,
  swap,
  compare_swap,
  bit_and,
  bit_or,
  bit_xor,
  min_u,
  max_u,
  min_i,
  max_i,
  inc,
  dec,
  add_f,
  min_f,
  max_f,
  add_f16_pair,
  add_bf16_pair
};

/// The memory access of a load, store or atomic.
struct MemoryShape {
  MemoryKind kind = MemoryKind::none;
  Space space = Space::global;
  AtomicKind atomic = AtomicKind::add;
  u8 bytes = 0;   ///< for each lane
  u8 stride = 1;  ///< of the two offsets of a pair, in elements
  bool store = false, sign_extend = false, returns = false;
  bool half = false, high_half = false;  ///< writes 16 bits of a register, keeps the other 16
};

enum class Element : u8 { f16, bf16, f32, xf32, f64, i8, i4, fp8, bf8, i32 };

/// The sizes of a matrix instruction D = A B + C, where A is rows x depth, for `blocks` independent matrices.
struct MatrixShape {
  int rows = 0, columns = 0, depth = 0, blocks = 1;
  Element a = Element::f16, b = Element::f16, sum = Element::f32;
};

enum class Unit : u8 { scalar, vector, matrix, lds, memory, scalar_memory, none };

struct Instruction {
  Action action = nullptr;
  std::string text = {};  ///< as the disassembler prints it
  std::string name = {};  ///< canonical: without encoding suffix, in the newest chips' spelling
  std::array<Operand, 10> operands = {};
  int count = 0;         ///< of operands
  int first_source = 1;  ///< the operand that DPP moves
  u64 pc = 0;
  u32 bytes = 0;
  Unit unit = Unit::none;
  Modifiers modifiers = {};
  MemoryShape memory = {};
  MatrixShape matrix = {};
  u64 target = 0;           ///< of a branch
  u8 index_modes = 0;       ///< of s_set_gpr_idx_on and _mode
  bool plain = false;       ///< has no modifier that affects operands or result
  bool keeps_high = false;  ///< a 16-bit result keeps the high half of the register, on gfx9 too
  bool compares_to_exec = false;
  std::unique_ptr<Instruction> second = {};  ///< the second instruction of a dual-issue pair

  bool is(const char* prefix) const { return name.starts_with(prefix); }
  const Operand& operator[](int i) const { return operands[static_cast<size_t>(i)]; }
};

}  // namespace weft::amdemu
