// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "lower/regions.h"

/// Families of kernels: the abilities of each operator's kernels. A new operator is a row in families.def.
namespace weft {

class Lowering;

/// How kernels of a family handle f32 values that are stored in 16 bits (LowerOptions::storage). A family with `never`
/// gets copies in f32, and its results are stored in f32.
enum class Narrow : uint8_t { never, read, read_and_written };

struct Family {
  void (*lower)(Lowering&, const Region&) = nullptr;         ///< none: there are no kernels
  void (*lower_on_gpu)(Lowering&, const Region&) = nullptr;  ///< where GPUs have kernels of another kind
  Narrow narrow = Narrow::never;
  bool takes_prologue = false;    ///< its kernel computes elementwise instructions of its first operand
  bool takes_epilogue = false;    ///< its kernel computes elementwise instructions of its result
  bool places = false;            ///< it stores through any strides, as into a part of a concatenation
  bool multiplies = false;        ///< on a CPU its epilogue may round in f32 first (FusedBody::round_in_f32_first)
  bool takes_packed = false;      ///< operands with several elements to a byte
  bool takes_containers = false;  ///< values that are no tensors
  std::string (*why_not)(const Instruction&) = nullptr;  ///< why no kernel computes an instruction; "" if one does
  const char* only_on_cpus = nullptr;                    ///< why no GPU has a kernel for it
};
/// The family of an instruction that is no leaf.
const Family& family_of(const Instruction& instruction);

/// The input of the program, of i32 or i64, whose elements a Bind reads as they are; null for other instructions. Such
/// sizes are known before the run begins.
Value input_bound_by(const Instruction& instruction);

// A function for each family of kernels.
#define FAMILY(is_of, how, ...) void how(Lowering& lowering, const Region& region);
#include "lower/families.def"
void lower_dot_on_gpu(Lowering& lowering, const Region& region);
void lower_block_dot_on_gpu(Lowering& lowering, const Region& region);

}  // namespace weft
