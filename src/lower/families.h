// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "lower/regions.h"

/// Families of kernels: what the kernels of each operator support. A new operator adds a row to families.def.
namespace weft {

class Lowering;

/// Which f32 values may be stored in 16 bits (LowerOptions::storage) for a family's kernels: none, operands, or
/// operands and results. Otherwise operands are first copied to f32, and results are stored in f32.
enum class Narrow : uint8_t { never, read, read_and_written };

struct Family {
  void (*lower)(Lowering&, const Region&) = nullptr;         ///< null: the family has no kernels
  void (*lower_on_gpu)(Lowering&, const Region&) = nullptr;  ///< the function for GPUs if it differs, else null
  Narrow narrow = Narrow::never;
  bool takes_prologue = false;    ///< its kernels can apply elementwise instructions to their first operand
  bool takes_epilogue = false;    ///< its kernels can apply elementwise instructions to their result
  bool places = false;            ///< its kernels can store with any strides, as into a part of a concatenation
  bool takes_packed = false;      ///< its operands may have types of fewer than 8 bits (is_packed_type)
  bool takes_containers = false;  ///< its operands may be containers (sequences, optionals, maps)
  std::string (*why_not)(const Instruction&) = nullptr;  ///< returns why no kernel computes it; "" if one does
  const char* only_on_cpus = nullptr;                    ///< why no GPU has a kernel for it
};
/// Returns the family of an instruction; for a leaf (is_leaf), a family without functions.
const Family& family_of(const Instruction& instruction);

/// If a Bind reads its sizes from an i32 or i64 input of the program (perhaps through conversions and reshapes),
/// returns that input; else null. Such sizes are known before the run begins.
Value input_bound_by(const Instruction& instruction);

// Declares the lowering function of each family.
#define FAMILY(is_of, how, ...) void how(Lowering& lowering, const Region& region);
#include "lower/families.def"
void lower_dot_on_gpu(Lowering& lowering, const Region& region);
void lower_block_dot_on_gpu(Lowering& lowering, const Region& region);

}  // namespace weft
